"""Launches a kernel again with other addresses, without what Triton does anew at every launch."""

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from triton import knobs

MOST_TENSOR_MAPS = 64
"""Encoded descriptors that are kept per argument. An allocator gives out the same few addresses again."""

Slots = dict[int, int]
"""The place among a call's tensors of each tensor of the call that is written down, by its id."""
Start = Callable[[Sequence[Any], int], None]
"""Launches with a call's tensors on a stream."""


def is_descriptor(argument: Any) -> bool:
    """Whether it is a tensor descriptor, of Triton or of Gluon."""
    return hasattr(argument, "block_shape") and hasattr(argument, "base")


def is_watched() -> bool:
    """Whether somebody, such as a profiler, wants Triton to tell of its launches."""
    return bool(getattr(knobs.runtime.launch_enter_hook, "calls", True))


def interpreted_launch(
    kernel: Any, grid: Sequence[int], options: dict[str, Any], arguments: Sequence[Any], slots: Slots
) -> Start:
    """A launch of a kernel in the interpreter."""
    of_call = _maker([*arguments], slots, lambda tensor: tensor, _remade)
    return lambda values, _stream: kernel[grid](*of_call(values), **options)


def compiled_launch(
    compiled: Any, grid: Sequence[int], arguments: Sequence[Any], slots: Slots
) -> Start | None:
    """A launch of what Triton compiled, past the function that encodes all descriptors at every launch.

    That function takes longer than the rest of a launch; Triton 3.6 and 3.7 have it around their launcher.
    None if there is none, or another one: then the kernel has to be launched as ever.
    `tests/kernels/primitives/test_relaunch.py` holds the launch against Triton's own.
    """
    launcher = compiled.run
    descriptors = [argument for argument in arguments if is_descriptor(argument)]
    encoders: list[Callable[[Any], list[Any]]] = []
    if descriptors:
        try:
            inside = inspect.getclosurevars(launcher.launch).nonlocals
            bare_launch, metadata = inside["launcher"], inside["tensordesc_meta"]
            encode = sys.modules[type(launcher).__module__].make_tensordesc_arg
        except (TypeError, KeyError, AttributeError):
            return None
        if len(metadata) != len(descriptors) or None in metadata:
            return None
        launcher = copy.copy(launcher)
        launcher.launch = bare_launch
        encoders = [functools.partial(encode, metadata=each) for each in metadata]
    given, of_descriptors = [], dict(zip(map(id, descriptors), encoders, strict=True))
    for argument in arguments:  # an encoded descriptor is a tensor map, then numbers
        rest = of_descriptors[id(argument)](argument)[1:] if is_descriptor(argument) else ()
        given += [argument, *rest]
    # Triton asks CUDA about every tensor that it is given, and takes a number as it is.
    of_call = _maker(given, slots, Tensor.data_ptr, lambda each: _encoded(each, of_descriptors[id(each)]))
    size = (*grid, 1, 1)[:3]
    fixed = (compiled.function, compiled.packed_metadata, None, None, None)
    return lambda values, stream: launcher(*size, stream, *fixed, *of_call(values))


def _maker(
    argument: Any,
    slots: Slots,
    of_tensor: Callable[[Tensor], Any],
    of_descriptor: Callable[[Any], Callable[[Tensor], Any]],
) -> Any:
    """How to make an argument, or a list of them, of a call's tensors; it holds no tensor of this call.

    None if the argument stays as it is. `of_descriptor` gives what makes a descriptor of a tensor.
    """
    if id(argument) in slots:
        slot = slots[id(argument)]
        return lambda values: of_tensor(values[slot])
    if is_descriptor(argument):
        slot, make_one = slots[id(argument.base)], of_descriptor(argument)
        return lambda values: make_one(values[slot])
    if not isinstance(argument, (tuple, list)):
        return None
    makers = [_maker(each, slots, of_tensor, of_descriptor) for each in argument]
    makes = [(place, make) for place, make in enumerate(makers) if make]
    if not makes:
        return None
    fixed = [None if make else each for make, each in zip(makers, argument, strict=True)]
    kind = getattr(argument, "_make", type(argument))

    def of_call(values: Sequence[Any]) -> Any:
        filled = fixed.copy()
        for place, make in makes:
            filled[place] = make(values)
        return kind(filled)

    return of_call


def _remade(descriptor: Any) -> Callable[[Tensor], Any]:
    """The descriptor of another tensor of the same signature. All but the address was checked before."""
    kind = type(descriptor)
    fields = {name: value for name, value in vars(descriptor).items() if name != "base"}

    def of(tensor: Tensor) -> Any:
        made = object.__new__(kind)
        made.__dict__.update(fields, base=tensor)
        return made

    return of


def _encoded(descriptor: Any, encode: Callable[[Any], list[Any]]) -> Callable[[Tensor], Any]:
    """The tensor map of a tensor, kept by address: nothing else differs in tensors of a signature."""
    maps: dict[int, Any] = {}
    remade = _remade(descriptor)

    def of(tensor: Tensor) -> Any:
        address = tensor.data_ptr()
        found = maps.get(address)
        if found is None:
            if len(maps) >= MOST_TENSOR_MAPS:
                maps.clear()
            found = maps[address] = encode(remade(tensor))[0]
        return found

    return of
