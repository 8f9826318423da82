"""The tensors of a launch, as the ranges of addresses that the kernel may use.

A pointer that a kernel gets carries the number of its argument in the top 16 bits, which no address of a
process uses. Pointer arithmetic keeps them, so an access tells which tensor it was meant for, even if it lies
in the memory of another one.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from kernels.sanitizer.fresh import elements_of, unwritten
from kernels.sanitizer.source import Site, current_site

TAG_SHIFT = 48
ADDRESS = np.uint64((1 << TAG_SHIFT) - 1)


class Memory:
    """The storage of one or more arguments during a launch. Its granules are elements."""

    def __init__(self, storage: torch.UntypedStorage, itemsize: int) -> None:
        self.itemsize = itemsize
        self.elements = elements_of(storage, itemsize) if storage.nbytes() else np.zeros(0, f"u{itemsize}")
        self.fresh = unwritten(self.elements)
        """bool per element: nobody has written it. None if all are written."""
        self._writers: np.ndarray | None = None

    def written(self, offsets: np.ndarray, itemsize: int) -> None:
        """Somebody has written `itemsize` bytes at these offsets in bytes."""
        if self.fresh is not None:
            for byte in range(0, itemsize, self.itemsize):
                self.fresh[(offsets + np.uint64(byte)).astype(np.intp) // self.itemsize] = False

    @property
    def writers(self) -> np.ndarray:
        """int32 per element: 1 + number of the program that wrote it last, negative if it may hold a lock."""
        if self._writers is None:
            self._writers = np.zeros(len(self.elements), np.int32)
        return self._writers


class Region:
    """A tensor argument: its name, and the tagged addresses of the storage that it lies in."""

    def __init__(self, tag: int, name: str, argument: str, tensor: torch.Tensor, memory: Memory) -> None:
        self.tag, self.name, self.argument, self.tensor, self.memory = tag, name, argument, tensor, memory
        storage = tensor.untyped_storage()
        self.itemsize = tensor.element_size()
        self.low = (tag << TAG_SHIFT) + storage.data_ptr()
        self.end = self.low + storage.nbytes()
        self.base = (tag << TAG_SHIFT) + tensor.data_ptr()

    def element(self, address: int) -> int:
        """Number of the element at a tagged address, counted from the tensor's first one."""
        return (address - self.base) // self.itemsize

    def words_of(self, address: int) -> str:
        """The element at a tagged address: "q[0, 1, 2, 3] (argument 1 of kernel)"."""
        rest, index = self.element(address), [0] * self.tensor.dim()
        strides, shape = self.tensor.stride(), self.tensor.shape
        for dim in sorted(range(self.tensor.dim()), key=lambda dim: (-strides[dim], shape[dim])):
            if strides[dim]:
                index[dim], rest = divmod(rest, strides[dim])
        words = f"{self.name}{index}"
        if rest or not index or not all(0 <= i < size for i, size in zip(index, shape, strict=True)):
            words = f"element {self.element(address):,} of {self.name}"  # it is between the tensor's own
        return f"{words} ({self.argument})"


class Access(NamedTuple):
    """One load, store or atomic of one program: a rectangle of a tensor, by its corners."""

    program: int
    tag: int
    """Number of the region in its launch."""
    writes: bool
    reads: bool
    first: int
    """Number of the first element, counted from the start of the storage."""
    last: int
    bytes: int
    site: Site


class Product(NamedTuple):
    program: int
    flops: int


class Launch:
    """One launch of a kernel: its regions by tag, and the program that runs now."""

    def __init__(self, number: int, function: Callable, arguments: dict[str, Any], in_reverse: bool) -> None:
        self.number, self.kernel, self.in_reverse = number, function.__name__, in_reverse
        self.site: Site = (function.__code__.co_filename, function.__code__.co_firstlineno)
        self.events: list[Access | Product] = []
        """What its programs did, in the order in which they ran, if the watch logs it."""
        self.grid = (1, 1, 1)
        self.program = 0
        """Number of the program that runs, in the order in which a GPU starts them: x runs fastest."""
        self.atomics = False
        self.locked: set[int] = set()
        """Programs that have used an integer atomic, with which they may hold a lock."""
        self.regions: dict[int, Region] = {}
        self._tags: dict[tuple, int] = {}
        named = [
            (inner, f"argument {number} of {self.kernel}", tensor)
            for number, (name, value) in enumerate(arguments.items(), 1)
            for inner, tensor in _flat(name, value)
        ]
        sizes: dict[int, int] = {}
        for _, _, tensor in named:
            storage = tensor.untyped_storage().data_ptr()
            sizes[storage] = min(sizes.get(storage, 8), tensor.element_size())
        memories: dict[int, Memory] = {}
        for name, argument, tensor in named:
            address = tensor.untyped_storage().data_ptr()
            if address not in memories:
                memories[address] = Memory(tensor.untyped_storage(), sizes[address])
            key = _key(tensor)
            if key not in self._tags:
                tag = self._tags[key] = len(self._tags) + 1
                self.regions[tag] = Region(tag, name, argument, tensor, memories[address])

    def place_of(self, program: int) -> tuple[int, ...]:
        """x, y and z of a program."""
        return tuple(map(int, np.unravel_index(program, self.grid, order="F")))

    def log_access(self, region: Region, pointers: np.ndarray, itemsize: int, how: str) -> None:
        """Write down an access inside the memory of a tensor, by the pointers that the mask leaves."""
        if pointers.size:
            first, last = (
                (int(end) - region.low) // region.itemsize for end in (pointers.min(), pointers.max())
            )
            what = (how != "read", how != "write", first, last, pointers.size * itemsize)
            self.events.append(Access(self.program, region.tag, *what, current_site(self.site[0])))

    def tag_of(self, tensor: Any) -> int:
        """The tag of a pointer to this argument; 0 if it is not an argument of the launch."""
        return self._tags.get(_key(_unwrapped(tensor)), 0)


def _key(tensor: torch.Tensor) -> tuple:
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()


def _unwrapped(tensor: Any) -> torch.Tensor:
    """The tensor of a triton.runtime.jit.TensorWrapper, or the tensor itself."""
    return tensor if isinstance(tensor, torch.Tensor) else tensor.base


def _flat(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors in an argument, by name: tuples and descriptors have some too."""
    if isinstance(value, tuple):
        for field, item in zip(getattr(value, "_fields", range(len(value))), value, strict=True):
            yield from _flat(f"{name}.{field}", item)
    elif hasattr(value, "data_ptr"):
        yield name, _unwrapped(value)
    elif hasattr(value, "block_shape") and hasattr(value, "base"):  # a TensorDescriptor of the host
        yield from _flat(name, value.base)
