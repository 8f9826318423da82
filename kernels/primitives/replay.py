"""The second call of a launcher is written down; later calls of its kind repeat it with other addresses.

What a launcher does in Python (checks, tiles, descriptors, Triton's choice of a compiled kernel) follows from
the shapes, strides, types and alignment of its tensors, and costs more time than short kernels run. So
`repeat` records the allocations and the launches of a call, and later calls of the same signature only
allocate, put addresses in, and launch. There is one way back: a launcher that does anything else runs at each
call as if there were no replay. So does every launcher if a profiler watches, or if Triton looks otherwise.
"""

import contextlib
import copy
import functools
import inspect
import sys
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from kernels.device.determinism import wants_same_bits
from kernels.device.dispatch import DispatchMode
from kernels.device.runtime import INTERPRETED, running_on

from triton import knobs

MOST_SIGNATURES = 1024
"""Signatures that are kept. After as many, all are forgotten: a caller may never repeat a shape or scale."""
ALIGNMENT = 16
"""Bytes. Triton compiles another kernel for an address that is not a multiple of it."""

Signature = tuple[Hashable, ...]

_PLAIN_TYPES = frozenset({Tensor, torch.nn.Parameter})
_plain_keys: set[int] = set()
"""Dispatch keys seen of tensors that are nothing but memory."""
_keys_of = torch._C._dispatch_keys


def signature_of(tensors: Sequence[Tensor | None]) -> Signature | None:
    """All that a launch can depend on except numbers and addresses.

    None if a tensor is not plain memory: a subclass, a tracer, sparse, meta, a view that is to be negated.
    """
    parts: list[Hashable] = [torch.are_deterministic_algorithms_enabled(), wants_same_bits()]
    for tensor in tensors:
        if tensor is None:
            parts.append(None)
        elif type(tensor) in _PLAIN_TYPES and (
            _keys_of(tensor).raw_repr() in _plain_keys or _is_plain(tensor)
        ):
            misaligned = tensor.data_ptr() % ALIGNMENT
            parts.append((tensor.shape, tensor.stride(), tensor.dtype, tensor.device, misaligned))
        else:
            return None
    return tuple(parts)


def _is_plain(tensor: Tensor) -> bool:
    """Whether torch dispatches on the tensor as on an empty one of its device; remembered."""
    if tensor.device.type not in ("cpu", "cuda"):
        return False
    keys = _keys_of(tensor).raw_repr()
    for inference in (False, True):  # a tensor made in inference mode has fewer keys
        with torch.inference_mode(inference):
            if keys == _keys_of(torch.empty(0, device=tensor.device)).raw_repr():
                _plain_keys.add(keys)
                return True
    return False


def is_traced() -> bool:
    """Whether a compiler, a tracer, a mode or a transform of torch.func takes part in torch's calls."""
    return (
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._get_tracing_state() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


class Known(dict[Hashable, Any]):
    """What follows from signatures. It is emptied before it would hold more than MOST_SIGNATURES."""

    def __setitem__(self, key: Hashable, value: Any) -> None:
        if len(self) >= MOST_SIGNATURES:
            self.clear()
        super().__setitem__(key, value)


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


WRITTEN_DOWN_AT = 2
"""The call that is written down. Writing takes twice the time of a run, and many signatures come only once:
lengths of a growing cache, scales that are learned."""
ALLOCATIONS = frozenset(
    {
        torch.ops.aten.empty.memory_format,
        torch.ops.aten.empty_like.default,
        torch.ops.aten.empty_strided.default,
        torch.ops.aten.new_empty.default,
        torch.ops.aten.new_empty_strided.default,
        torch.ops.aten.zeros.default,
    }
)

Launcher = Callable[..., tuple[Tensor, ...]]
"""Takes tensors (or None) and settings; allocates, launches by `launch`, and returns tensors."""
Values = list[Any]
"""The tensors of a call: its inputs, then those that it allocates."""
Step = Callable[[Values, int], None]
"""Does one thing with the tensors of a call, on a CUDA stream."""
Run = Callable[[Sequence[Tensor | None]], tuple[Tensor, ...]]
"""From the inputs of a call to its results."""


def _allocation(slot: int, like: Tensor, of_zeros: bool) -> Step:
    """A tensor like the first call's."""
    empty = functools.partial(
        torch.empty_strided, tuple(like.shape), like.stride(), dtype=like.dtype, device=like.device
    )

    def allocate(values: Values, _stream: int) -> None:
        values[slot] = empty().zero_() if of_zeros else empty()

    return allocate


class _Recording(DispatchMode):
    """Writes down what a launcher does. `steps` is None once it did something that is not repeated."""

    def __init__(self, inputs: Sequence[Tensor | None]) -> None:
        super().__init__()
        self.launching = False
        self.steps: list[Step] | None = []
        self._inputs = len(inputs)
        self._tensors: list[Any] = [*inputs]  # an id stands for its tensor while that lives
        self._aliases: list[Tensor] = []
        self._slots = {id(tensor): slot for slot, tensor in enumerate(inputs) if tensor is not None}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.launching or self.steps is None:
            return result  # the interpreter copies the arguments of a kernel with torch
        if func is torch.ops.aten.detach.default and id(args[0]) in self._slots:  # so torch gives out tensors
            self._slots[id(result)] = self._slots[id(args[0])]
            self._aliases.append(result)
        elif func in ALLOCATIONS:
            slot = self._slots[id(result)] = len(self._tensors)
            self._tensors.append(result)
            self.steps.append(_allocation(slot, result, func is torch.ops.aten.zeros.default))
        else:
            self.steps = None
        return result

    def note(self, kernel: Any, grid: Sequence[int], args: tuple, kwargs: dict, compiled: Any) -> None:
        """A launch of `kernel`; `compiled` is what Triton returned."""
        given = dict(zip(kernel.arg_names, args, strict=False)) | kwargs
        arguments = [given[name] for name in kernel.arg_names]
        # A tensor that is neither given nor allocated was there before, as the lists of a plan: it is held.
        described = [leaf.base for leaf in tree_leaves(arguments) if is_descriptor(leaf)]
        if any(id(tensor) not in self._slots for tensor in described):
            self.steps = None
        if self.steps is None:
            return
        options = {name: value for name, value in kwargs.items() if name not in kernel.arg_names}
        if compiled is None:
            start: Step | None = interpreted_launch(kernel, grid, options, arguments, self._slots)
        else:
            start = compiled_launch(compiled, grid, arguments, self._slots)
        self.steps = None if start is None else [*self.steps, start]

    def plan(self, results: Sequence[Tensor]) -> Run | None:
        """Repeats the steps with other inputs, and holds no tensor of this call; None if they cannot be."""
        if self.steps is None or any(id(result) not in self._slots for result in results):
            return None
        fresh, slots = len(self._tensors) - self._inputs, [self._slots[id(result)] for result in results]
        return functools.partial(_repeat_steps, tuple(self.steps), fresh, slots)


def _repeat_steps(
    steps: Sequence[Step], fresh: int, results: Sequence[int], tensors: Sequence[Tensor | None]
) -> tuple[Tensor, ...]:
    """Do the steps of a call that allocates so many `fresh` tensors, with these inputs."""
    values: Values = [*tensors, *(None,) * fresh]
    first: Any = tensors[0]
    device = first.get_device()
    stream = 0 if INTERPRETED else torch._C._cuda_getCurrentRawStream(device)
    is_current = not INTERPRETED and torch._C._cuda_getDevice() == device and _has_context(device)
    with contextlib.nullcontext() if is_current else running_on(first):
        for step in steps:
            step(values, stream)
    return tuple(values[slot] for slot in results)


_active = threading.local()
"""`recording` is the recording of this thread's call; `devices` are those that it has a CUDA context of."""


def _has_context(device: int) -> bool:
    """Give a new thread its CUDA context, which a launch needs. True, so that it can stand in a condition."""
    devices = _active.__dict__.setdefault("devices", set())
    if device not in devices:
        torch.cuda.mem_get_info(device)  # of the calls that make one, this may come while a graph is captured
        devices.add(device)
    return True


def launch(kernel: Any, grid: Sequence[int], *args: Any, **kwargs: Any) -> Any:
    """`kernel[grid](*args, **kwargs)`, written down if a `Repetition` records this call.

    The kernels that `flash_attention` runs are launched by this function alone: a launch that is not written
    down would be missing from the second call on.
    """
    recording: _Recording | None = getattr(_active, "recording", None)
    if recording is None:
        return kernel[grid](*args, **kwargs)
    recording.launching = True
    compiled = kernel[grid](*args, **kwargs)
    recording.launching = False
    recording.note(kernel, grid, args, kwargs, compiled)
    return compiled


class Repetition:
    """Calls of a launcher with the same settings, on tensors of one signature."""

    def __init__(self, launcher: Launcher, settings: tuple[Hashable, ...]) -> None:
        self._launcher, self._settings = launcher, settings
        self._plan: Run | None = None
        self._calls_until_written_down = WRITTEN_DOWN_AT

    def __call__(self, tensors: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
        """What `launcher(*tensors, *settings)` returns: repeated if it was written down, else run."""
        if self._plan is not None and not is_watched():
            return self._plan(tensors)
        self._calls_until_written_down -= 1
        if self._calls_until_written_down == 0:
            return self._record(tensors)
        return self._launcher(*tensors, *self._settings)

    def _record(self, tensors: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
        """Run the launcher, and write it down.

        It is given aliases, so that one tensor in two places is two: a later call may have two tensors there.
        """
        aliases = [None if tensor is None else tensor.detach() for tensor in tensors]
        outer = getattr(_active, "recording", None)
        try:
            with _Recording(aliases) as recording:
                _active.recording = recording
                results = self._launcher(*aliases, *self._settings)
        finally:
            _active.recording = outer
        self._plan = recording.plan(results)
        return results


_repetitions = Known()


def repetition_of(launcher: Launcher, settings: tuple[Hashable, ...], signature: Signature) -> Repetition:
    """The repetition of a launcher with these settings, on tensors of this signature."""
    kind = (launcher, settings, signature)
    known = _repetitions.get(kind)
    if known is None:
        known = _repetitions[kind] = Repetition(launcher, settings)
    return known


def repeat(
    launcher: Launcher, tensors: Sequence[Tensor | None], settings: tuple[Hashable, ...]
) -> tuple[Tensor, ...]:
    """`launcher(*tensors, *settings)`, repeated if the same was done before."""
    signature = signature_of(tensors)
    if signature is None:
        return launcher(*tensors, *settings)
    return repetition_of(launcher, settings, signature)(tensors)
