"""Launches a kernel again with other addresses, without what Triton does anew at every launch."""

from __future__ import annotations

import copy
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


def is_descriptor(argument: Any) -> bool:
    """Whether it is a tensor descriptor, of Triton or of Gluon."""
    return hasattr(argument, "block_shape") and hasattr(argument, "base")


class _Descriptor:
    """A tensor descriptor for tensors of one signature; it keeps none of them alive."""

    def __init__(self, descriptor: Any) -> None:
        self._kind = type(descriptor)
        self._fields = {name: value for name, value in vars(descriptor).items() if name != "base"}

    def of(self, tensor: Tensor) -> Any:
        """The descriptor of a tensor. All but the address was checked when the first one was made."""
        descriptor = object.__new__(self._kind)
        descriptor.__dict__.update(self._fields, base=tensor)
        return descriptor


class _TensorMaps:
    """Encoded descriptors by address: the address is all that differs between tensors of one signature."""

    def __init__(self, descriptor: _Descriptor, encode: Callable[[Any], list[Any]]) -> None:
        self._descriptor, self._encode = descriptor, encode
        self._maps: dict[int, Any] = {}

    def of(self, tensor: Tensor) -> Any:
        """The encoded descriptor of a tensor."""
        address = tensor.data_ptr()
        found = self._maps.get(address)
        if found is None:
            if len(self._maps) >= MOST_TENSOR_MAPS:
                self._maps.clear()
            found = self._maps[address] = self._encode(self._descriptor.of(tensor))[0]
        return found


class _Arguments:
    """All arguments of a kernel by position, with room for what differs from call to call."""

    def __init__(self, fixed: list[Any], fills: Sequence[Fill]) -> None:
        self._fixed, self._fills = fixed, fills

    def of(self, values: Sequence[Any]) -> list[Any]:
        """The arguments of a call; `values` holds its tensors by slot."""
        arguments = self._fixed.copy()
        for position, slot, argument_of in self._fills:
            arguments[position] = argument_of(values[slot])
        return arguments


def interpreted_launch(
    kernel: Any, grid: Sequence[int], options: dict[str, Any], arguments: list[Any], slots: dict[int, int]
) -> Callable[[Sequence[Any], int], None]:
    """A launch of a kernel in the interpreter, as a function of a call's tensors and a stream."""
    given = _with_descriptors(arguments, slots, lambda tensor: tensor)
    return lambda values, _stream: kernel[grid](*given.of(values), **options)


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
            with_hooks(*given.of(values), stream=stream)
        else:
            run(*size, stream, *fixed, *encoded.of(values))

    return start


def _with_descriptors(
    arguments: list[Any], slots: dict[int, int], argument_of: Callable[[Tensor], Any]
) -> _Arguments:
    fixed, fills = list(arguments), []
    for position, slot in slots.items():
        argument = arguments[position]
        is_made = is_descriptor(argument)
        fills.append((position, slot, _Descriptor(argument).of if is_made else argument_of))
        fixed[position] = None  # or it would keep the first call's tensor alive
    return _Arguments(fixed, fills)


def _past_the_encoder(
    launcher: Any, arguments: list[Any], slots: dict[int, int]
) -> tuple[Callable, _Arguments] | None:
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
            encode_one = _encoder(encode, meta_of[position])
            fills.append((len(fixed), slot, _TensorMaps(_Descriptor(argument), encode_one).of))
            fixed += [None, *encode_one(argument)[1:]]
        elif slot is not None:
            fills.append((len(fixed), slot, Tensor.data_ptr))
            fixed.append(None)
        else:
            fixed.append(argument)
    bare = copy.copy(launcher)
    bare.launch = bare_launch
    return bare, _Arguments(fixed, fills)


def _encoder(encode: Callable, metadata: Any) -> Callable[[Any], list[Any]]:
    return lambda descriptor: encode(descriptor, metadata)
