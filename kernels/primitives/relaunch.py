"""Launches a kernel again with other addresses, without what Triton does anew at every launch."""

from __future__ import annotations

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

Fill = tuple[int, int, Callable[[Tensor], Any]]
"""Position of an argument, slot of its tensor, and what the tensor becomes as an argument."""
Arguments = Callable[[Sequence[Any]], list[Any]]
"""The arguments of a launch; takes the tensors of a call by slot."""


def is_descriptor(argument: Any) -> bool:
    """Whether it is a tensor descriptor, of Triton or of Gluon."""
    return hasattr(argument, "block_shape") and hasattr(argument, "base")


def _remade(descriptor: Any) -> Callable[[Tensor], Any]:
    """The descriptor of another tensor of the same signature. All but the address was checked before."""
    kind = type(descriptor)
    fields = {name: value for name, value in vars(descriptor).items() if name != "base"}

    def of(tensor: Tensor) -> Any:
        made = object.__new__(kind)
        made.__dict__.update(fields, base=tensor)
        return made

    return of


def _encoded(
    descriptor_of: Callable[[Tensor], Any], encode: Callable[[Any], list[Any]]
) -> Callable[[Tensor], Any]:
    """The encoded descriptor of a tensor, kept by address: nothing else differs in tensors of a signature."""
    maps: dict[int, Any] = {}

    def of(tensor: Tensor) -> Any:
        address = tensor.data_ptr()
        found = maps.get(address)
        if found is None:
            if len(maps) >= MOST_TENSOR_MAPS:
                maps.clear()
            found = maps[address] = encode(descriptor_of(tensor))[0]
        return found

    return of


def _filled(fixed: list[Any], fills: Sequence[Fill]) -> Arguments:
    """All arguments of a kernel by position, with what differs from call to call filled in."""

    def of(values: Sequence[Any]) -> list[Any]:
        arguments = fixed.copy()
        for position, slot, argument_of in fills:
            arguments[position] = argument_of(values[slot])
        return arguments

    return of


def interpreted_launch(
    kernel: Any, grid: Sequence[int], options: dict[str, Any], arguments: list[Any], slots: dict[int, int]
) -> Callable[[Sequence[Any], int], None]:
    """A launch of a kernel in the interpreter, as a function of a call's tensors and a stream."""
    given = _with_descriptors(arguments, slots, lambda tensor: tensor)
    return lambda values, _stream: kernel[grid](*given(values), **options)


def compiled_launch(
    compiled: Any, grid: Sequence[int], arguments: list[Any], slots: dict[int, int]
) -> Callable[[Sequence[Any], int], None]:
    """A launch of what Triton compiled, as a function of a call's tensors and a stream.

    `slots` has the slot of the tensor of each argument, by position, that is a tensor or its descriptor.
    """
    size = (*grid, 1, 1)[:3]
    with_hooks, fixed = compiled[size], (compiled.function, compiled.packed_metadata, None, None, None)
    # Triton asks CUDA about every tensor that it is given, and takes a number as it is.
    given = _with_descriptors(arguments, slots, Tensor.data_ptr)
    run, encoded = _past_the_encoder(compiled.run, arguments, slots) or (compiled.run, given)

    def start(values: Sequence[Any], stream: int) -> None:
        if getattr(knobs.runtime.launch_enter_hook, "calls", True):  # a profiler wants to see the launch
            with_hooks(*given(values), stream=stream)
        else:
            run(*size, stream, *fixed, *encoded(values))

    return start


def _with_descriptors(
    arguments: list[Any], slots: dict[int, int], argument_of: Callable[[Tensor], Any]
) -> Arguments:
    fixed, fills = list(arguments), []
    for position, slot in slots.items():
        argument = fixed[position]
        fills.append((position, slot, _remade(argument) if is_descriptor(argument) else argument_of))
        fixed[position] = None  # or it would keep the first call's tensor alive
    return _filled(fixed, fills)


def _past_the_encoder(
    launcher: Any, arguments: list[Any], slots: dict[int, int]
) -> tuple[Callable, Arguments] | None:
    """Triton's launcher without the function around it that encodes all descriptors at every launch.

    That takes longer than the rest of a launch. Triton 3.6 and 3.7 have it; None if there is none, or another
    one. `tests/kernels/primitives/test_relaunch.py` holds the launch against Triton's own.
    """
    try:
        inside = inspect.getclosurevars(launcher.launch).nonlocals
        bare_launch, metadata = inside["launcher"], inside["tensordesc_meta"]
        encode = sys.modules[type(launcher).__module__].make_tensordesc_arg
    except (TypeError, KeyError, AttributeError):
        return None
    descriptors = [position for position, argument in enumerate(arguments) if is_descriptor(argument)]
    if len(metadata) != len(descriptors) or None in metadata:
        return None
    meta_of = dict(zip(descriptors, metadata, strict=True))
    fixed: list[Any] = []
    fills: list[Fill] = []
    for position, argument in enumerate(arguments):
        slot = slots.get(position)
        if position in meta_of and slot is not None:
            encode_one = functools.partial(encode, metadata=meta_of[position])
            fills.append((len(fixed), slot, _encoded(_remade(argument), encode_one)))
            fixed += [None, *encode_one(argument)[1:]]
        elif slot is not None:
            fills.append((len(fixed), slot, Tensor.data_ptr))
            fixed.append(None)
        else:
            fixed.append(argument)
    bare = copy.copy(launcher)
    bare.launch = bare_launch
    return bare, _filled(fixed, fills)
