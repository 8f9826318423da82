"""Watches every load, store and atomic of the kernels that Triton's interpreter runs.

All accesses of the interpreter, also those by block pointers and tensor descriptors, go through four methods
of its builder: create_masked_load, create_masked_store, create_atomic_rmw and create_atomic_cas. They are
replaced while a watch is on, as are the launch (`GridExecutor`) and the conversion of its arguments. Elements
out of bounds are reported and not touched, so that a wrong kernel cannot end the process.
"""

import contextlib
import importlib
import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kernels.device.interpreter import replaced
from kernels.sanitizer.finding import Finding
from kernels.sanitizer.fresh import FillFresh
from kernels.sanitizer.poison import Poison, poison_of
from kernels.sanitizer.regions import ADDRESS, TAG_SHIFT, Launch, Product, Region
from kernels.sanitizer.source import current_site, line_of

VERBS = {"read": "reads", "write": "writes"}
"""Of the ways to access memory; the others update it."""


@dataclass
class _Fault:
    """All faults of one kind, line and tensor in the launch that had the first of them."""

    kind: str
    site: tuple[str, int]
    launch: int
    words: str
    """What happened at the first element."""
    elements: int = 0
    programs: set[int] = field(default_factory=set)


class Ledger:
    """Faults in the order in which they were first seen."""

    def __init__(self) -> None:
        self._faults: dict[tuple, _Fault] = {}

    def outside(self, launch: Launch, region: Region | None, addresses: np.ndarray, how: str) -> None:
        """Accesses outside of the memory of the tensor that they were meant for."""
        kind = "out-of-bounds read" if how == "read" else "out-of-bounds write"
        address, verb = int(addresses[0]), VERBS.get(how, "updates")
        if region is None:
            words = f"{verb} address {address:#x}, which no tensor that it was given holds"
        else:
            first, end = region.element(region.low), region.element(region.end)
            words = (
                f"{verb} element {region.element(address):,} of {region.name} ({region.argument}), whose "
                f"memory holds elements {first:,} to {end - 1:,} (shape {tuple(region.tensor.shape)})"
            )
        self._add(kind, launch, region, words, len(addresses))

    def unwritten(self, launch: Launch, region: Region, addresses: np.ndarray) -> None:
        element = region.words_of(int(addresses[0]))
        words = f"reads {element}, which neither a launch nor torch has written"
        self._add("read of unwritten memory", launch, region, words, len(addresses))

    def conflict(self, launch: Launch, region: Region, addresses: np.ndarray, other: int) -> None:
        """Writes to elements to which another program of the launch wrote something else."""
        element = region.words_of(int(addresses[0]))
        by = f"program {launch.place_of(other)} of the same launch wrote another value there"
        words = f"writes {element}; {by}, and nothing orders them"
        self._add("write conflict", launch, region, words, len(addresses))

    def _add(self, kind: str, launch: Launch, region: Region | None, words: str, elements: int) -> None:
        site = current_site()
        key = (kind, site, launch.kernel, region and region.name)
        if key not in self._faults:
            words = f"program {launch.place_of(launch.program)} of {launch.kernel} {words}"
            if launch.in_reverse:
                words = f"if the programs run in reverse, {words}"
            self._faults[key] = _Fault(kind, site, launch.number, words)
        fault = self._faults[key]
        if fault.launch == launch.number:
            fault.elements += elements
            fault.programs.add(launch.program)

    def findings(self) -> tuple[Finding, ...]:
        """One finding per kind, line and tensor."""
        found = []
        for fault in self._faults.values():
            words = f"{fault.words}. Elements: {fault.elements:,}; programs: {len(fault.programs):,}"
            found.append(Finding(fault.kind, words, *fault.site, line_of(*fault.site)))
        return tuple(found)


class Request(NamedTuple):
    pointers: np.ndarray
    """Tagged addresses."""
    itemsize: int
    how: str
    """"read", "write", "atomic", or "exchange" for an atomic that needs no old value."""
    values: np.ndarray | None = None
    """What a write stores, shaped as the pointers."""


class Watch:
    def __init__(self, logs: bool = False) -> None:
        self.launches = 0
        self.logged: list[Launch] = []
        """All launches, with their events, if it logs them."""
        self.atomics = False
        """Whether a kernel used atomics: sums that are made with them, or under a lock, are rounded in the
        order of the programs."""
        self.programs = 0
        """Most programs of one launch."""
        self.wrote: set[int] = set()
        """Addresses of the memory that launches wrote into; whoever wants to may empty it."""
        self.poison = Poison()
        self._ledger = Ledger()
        self.spoils = False
        """Whether stores of floats store NaN; it may be changed between launches, as may the next."""
        self.in_reverse = False
        """Whether the programs run in reverse; it may be changed between launches."""
        self._logs = logs
        self._launch: Launch | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self._ledger.findings()

    def begin(self, executor: Any, args: tuple, kwargs: dict) -> None:
        names = inspect.getfullargspec(executor.fn).args
        known = {name: value for name, value in kwargs.items() if name in names}
        try:
            arguments = inspect.getcallargs(executor.fn, *args, **known)
        except TypeError:  # the launch itself is about to raise it
            arguments = {}
        self.launches += 1
        self._launch = Launch(self.launches, executor.fn, arguments, self.in_reverse)
        if self._logs:
            self.logged.append(self._launch)

    def end(self) -> None:
        if self._launch is not None:
            self.atomics |= self._launch.atomics
        self._launch = None

    def tag(self, tensor: Any, value: Any) -> Any:
        """The pointer `value` to an argument, with its tag."""
        if self._launch is not None:
            value.handle.data = value.handle.data + np.uint64(self._launch.tag_of(tensor) << TAG_SHIFT)
        return value

    def program(self, x: int, y: int, z: int, grid: tuple[int, int, int]) -> tuple[int, ...]:
        """The program that runs in this place of the order."""
        if self._launch is None:
            return x, y, z
        self._launch.grid, programs = grid, math.prod(grid)
        self.programs = max(self.programs, programs)
        turn = int(np.ravel_multi_index((x, y, z), grid))
        place = np.unravel_index(programs - 1 - turn if self.in_reverse else turn, grid)
        self._launch.program = int(np.ravel_multi_index(place, grid, order="F"))
        return self._launch.place_of(self._launch.program)

    def resolve(self, request: Request, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Addresses without tags, and which lanes may be accessed."""
        launch, pointers = self._launch, request.pointers
        if launch is None:
            return pointers, active
        low, high = int(pointers.min()), int(pointers.max())
        region = launch.regions.get(low >> TAG_SHIFT)
        if region is not None and region.low <= low and high + request.itemsize <= region.end:
            touched: list[tuple[Region | None, np.ndarray]] = [(region, active)]
        else:
            touched = list(self._confined(launch, request, active))
            active = np.zeros(pointers.shape, bool)
            for _, lanes in touched:
                active |= lanes
        for region, lanes in touched:
            if region is not None:
                self._track(launch, region, request, lanes)
                if self._logs:
                    launch.log_access(region, pointers[lanes], request.itemsize, request.how)
        return pointers & ADDRESS, active

    def _confined(
        self, launch: Launch, request: Request, active: np.ndarray
    ) -> Iterator[tuple[Region | None, np.ndarray]]:
        """For each tensor that the active lanes are meant for, the lanes inside of its memory."""
        pointers = request.pointers
        tags = pointers >> np.uint64(TAG_SHIFT)
        for tag in np.unique(tags[active]).tolist():
            own = active & (tags == tag)
            region = launch.regions.get(tag)
            if region is None and tag == 0:  # not passed as a tensor, such as by a table of pointers
                yield None, own
                continue
            inside = np.zeros_like(own)
            if region is not None:
                end = pointers + np.uint64(request.itemsize)
                inside = own & (pointers >= region.low) & (end <= region.end)
            if (outside := own & ~inside).any():
                self._ledger.outside(launch, region, pointers[outside], request.how)
            if region is not None:
                yield region, inside

    def _track(self, launch: Launch, region: Region, request: Request, lanes: np.ndarray) -> None:
        """Hold an access inside a tensor against what was written there before."""
        memory, how, itemsize = region.memory, request.how, request.itemsize
        if how != "read" and lanes.any():
            self.wrote.add(region.low & int(ADDRESS))
        if (how == "read" and memory.fresh is None) or not lanes.any():
            return
        addresses = request.pointers[lanes]
        if memory.itemsize != itemsize:  # held against bounds alone, but it may write
            if how != "read":
                memory.written(addresses - np.uint64(region.low), itemsize)
            return
        places = ((addresses - np.uint64(region.low)) // np.uint64(itemsize)).astype(np.intp)
        if how in ("read", "atomic") and memory.fresh is not None and (bad := memory.fresh[places]).any():
            self._ledger.unwritten(launch, region, addresses[bad])
        if how == "read":
            return
        if request.values is not None:
            self._hold_against_writers(launch, region, places, request.values[lanes])
        if memory.fresh is not None:
            memory.fresh[places] = False

    def _hold_against_writers(
        self, launch: Launch, region: Region, places: np.ndarray, stored: np.ndarray
    ) -> None:
        """Two programs that write other bits to one element are in conflict, unless both may hold a lock."""
        memory, me, locked = region.memory, launch.program + 1, launch.program in launch.locked
        before = memory.writers[places]
        others = (before != 0) & (np.abs(before) != me)
        if locked:
            others &= before > 0
        if others.any() and stored.dtype.itemsize == memory.itemsize:
            others &= memory.elements[places] != stored.view(memory.elements.dtype)
        if others.any():
            first = int(np.argmax(others))
            addresses = np.uint64(region.low) + places[others].astype(np.uint64) * np.uint64(memory.itemsize)
            self._ledger.conflict(launch, region, addresses, abs(int(before[first])) - 1)
        memory.writers[places] = -me if locked else me

    def product(self, left: Any, right: Any) -> None:
        """A program multiplies two matrices: two operations per element of the three sides."""
        if self._launch is not None and self._logs:
            flops = 2 * left.data.size * right.data.shape[-1]
            self._launch.events.append(Product(self._launch.program, flops))

    def atomic(self, is_float: bool) -> None:
        """A program uses an atomic. One on an integer may be a lock, or a counter that tells who is last."""
        if self._launch is None:
            return
        self._launch.atomics = True
        if not is_float:
            self._launch.locked.add(self._launch.program)


@contextlib.contextmanager
def watch_memory(logs: bool = False, listen: bool = True) -> Iterator[Watch]:
    """Watch the memory of all kernels that the interpreter runs while the body runs. Not to be nested.

    With `logs`, accesses are written down too. With `listen` False (no interpreter) nothing is watched.
    """
    watch = Watch(logs)
    if not listen:
        yield watch
        return
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    builder, executor = interpreter.interpreter_builder, interpreter.GridExecutor
    convert, launch = interpreter._implicit_cvt, executor.__call__
    place = builder.set_grid_idx

    def tagged(argument: Any) -> Any:
        value = convert(argument)
        return watch.tag(argument, value) if hasattr(argument, "data_ptr") else value

    def watched_launch(self: Any, *args: Any, **kwargs: Any) -> Any:
        watch.begin(self, args, kwargs)
        try:
            return launch(self, *args, **kwargs)
        finally:
            watch.end()

    def set_grid_idx(x: int, y: int, z: int) -> None:
        place(*watch.program(x, y, z, builder.grid_dim))

    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced(interpreter, "_implicit_cvt", tagged))
        stack.enter_context(replaced(executor, "__call__", watched_launch))
        stack.enter_context(replaced(builder, "set_grid_idx", set_grid_idx))
        for name, method in _accesses(watch, builder, interpreter.TensorHandle).items():
            stack.enter_context(replaced(builder, name, method))
        stack.enter_context(FillFresh())
        yield watch


def _accesses(watch: Watch, builder: Any, handle: Any) -> dict[str, Callable]:
    """The builder's methods that access memory, watched."""
    load, store, multiply = builder.create_masked_load, builder.create_masked_store, builder.create_dot
    update, exchange, boolean = builder.create_atomic_rmw, builder.create_atomic_cas, builder.get_int1_ty()

    def resolved(pointers: Any, mask: Any, how: str, values: np.ndarray | None = None) -> tuple[Any, Any]:
        """Pointers and mask to use; a mask of a block pointer is an array, and others are handles."""
        lanes = mask if isinstance(mask, np.ndarray) else mask.data
        lanes = np.broadcast_to(lanes, pointers.data.shape)
        if values is not None:
            values = np.broadcast_to(values, pointers.data.shape)
        itemsize = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        data, lanes = watch.resolve(Request(pointers.data, itemsize, how, values), lanes)
        return handle(data, pointers.dtype), handle(lanes, boolean)

    def create_masked_load(pointers: Any, mask: Any, other: Any, *options: Any, **named: Any) -> Any:
        loaded = load(*resolved(pointers, mask, "read"), other, *options, **named)
        return watch.poison.filled(loaded, mask) if other is None else loaded

    def create_masked_store(pointers: Any, value: Any, mask: Any, *options: Any, **named: Any) -> Any:
        found, lanes = resolved(pointers, mask, "write", value.data)
        if watch.spoils and value.dtype.scalar.is_floating():
            nothing = np.full_like(value.data, poison_of(value.dtype.scalar, value.data.dtype))
            value = handle(nothing, value.dtype)
        return store(found, value, lanes, *options, **named)

    def create_atomic_rmw(operation: Any, pointers: Any, value: Any, mask: Any, *options: Any) -> Any:
        watch.atomic(value.dtype.scalar.is_floating())
        how = "exchange" if getattr(operation, "name", "") == "XCHG" else "atomic"
        found, lanes = resolved(pointers, mask, how)
        return update(operation, found, value, lanes, *options)

    def create_atomic_cas(pointers: Any, compare: Any, value: Any, *options: Any) -> Any:
        watch.atomic(False)
        found, lanes = resolved(pointers, np.ones(pointers.data.shape, bool), "atomic")
        if lanes.data.all():
            return exchange(found, compare, value, *options)
        return handle(np.zeros_like(value.data), compare.dtype.scalar)  # out of bounds, and reported

    def create_dot(left: Any, right: Any, *options: Any, **named: Any) -> Any:
        watch.product(left, right)
        return multiply(left, right, *options, **named)

    methods = (create_dot, create_masked_load, create_masked_store, create_atomic_rmw, create_atomic_cas)
    return {method.__name__: method for method in methods}
