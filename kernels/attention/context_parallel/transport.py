"""What the ranks of a group send each other. The ranks agree on a call before they send."""

import functools
import hashlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _symmetric_memory as symmetric_memory

from kernels.attention.context_parallel.log import Log, Mark

Group = dist.ProcessGroup


@functools.cache
def _of_hosts(group: Group) -> Group:
    """A group of the same ranks whose messages the GPUs do not wait for."""
    if dist.get_backend(group) == "gloo":
        return group
    ranks = dist.get_process_group_ranks(group)
    return dist.new_group(ranks, backend="gloo", use_local_synchronization=True)


@functools.cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def agree(group: Group, asked: Any, refusal: str) -> None:
    """Raise the same ValueError on all ranks if one refuses its call, or asks for something else.

    Costs each call one message of 8 bytes between the hosts.
    """
    hosts, world = _of_hosts(group), dist.get_world_size(group)
    digest = hashlib.blake2b(repr(asked).encode(), digest_size=7).digest()
    own = torch.tensor([-1 if refusal else int.from_bytes(digest)])
    found = [torch.empty_like(own) for _ in range(world)]
    dist.all_gather(found, own, group=hosts)
    if len({int(each) for each in found}) == 1 and not refusal:
        return
    calls: list[Any] = [None] * world
    dist.all_gather_object(calls, (asked, refusal), group=hosts)
    for rank, (_, reason) in enumerate(calls):
        if reason:
            raise ValueError(f"rank {rank}: {reason}")
    rank = next(rank for rank, (other, _) in enumerate(calls) if other != calls[0][0])
    raise ValueError(
        f"rank {rank} asks for {calls[rank][0]}, rank 0 for {calls[0][0]}; expected the same on all"
    )


@dataclass
class _Places:
    """Two places for a travelling tensor in every rank's memory: one is read while the other is written."""

    kept: Tensor
    handle: Any
    turn: int = 0
    """The place that was sent from last. Nobody reads the other one any more: all ranks have met since."""

    def view(self, rank: int, which: int, like: Tensor, dtype: torch.dtype) -> Tensor:
        """Place `which` of a rank, as a tensor of this shape."""
        apart = self.kept.shape[1] // dtype.itemsize
        return self.handle.get_buffer(rank, like.shape, dtype, which * apart)


_PLACES: dict[tuple[Group, int], _Places] = {}
"""By group and lane."""


def places_bytes() -> int:
    """Bytes of this GPU's memory that tensors travel through. They are kept for the next call."""
    return sum(places.kept.nbytes for places in _PLACES.values())


def clear_places() -> None:
    """Free that memory; every rank of the group does it."""
    if _PLACES:
        torch.cuda.synchronize()
        _PLACES.clear()


@functools.cache
def _reach_each_other(group: Group) -> bool:
    """Whether all ranks are GPUs of one host that read each other's memory."""
    of_host, of_all = (os.environ.get(name) for name in ("LOCAL_WORLD_SIZE", "WORLD_SIZE"))
    if dist.get_backend(group) != "nccl" or of_host != of_all:
        return False
    own, gpus = torch.cuda.current_device(), range(torch.cuda.device_count())
    return all(own == other or torch.cuda.can_device_access_peer(own, other) for other in gpus)


def _places_for(group: Group, size: int, device: torch.device, lane: int) -> _Places:
    """The places of a lane, with room for `size` bytes."""
    known = _PLACES.get((group, lane))
    if known is None or known.kept.shape[1] < size:
        torch.cuda.synchronize()
        kept = symmetric_memory.empty(2, -(-size // 256) * 256, dtype=torch.uint8, device=device)
        known = _PLACES[group, lane] = _Places(kept, symmetric_memory.rendezvous(kept, group))
    return known


def _next_place(group: Group, like: Tensor, lane: int) -> Tensor:
    """Room for float32 numbers of this shape, from where the next pull of the lane sends them uncopied."""
    places = _places_for(group, 4 * like.numel(), like.device, lane)
    return places.view(dist.get_rank(group), 1 - places.turn, like, torch.float32)


def zeros_to_send(group: Group, like: Tensor, lane: int) -> Tensor:
    """Float32 zeros of this shape, which the next `Travel` of the lane takes without a copy if it pulls."""
    if like.is_cuda and _reach_each_other(group):
        return _next_place(group, like, lane).zero_()
    return torch.zeros_like(like, dtype=torch.float32)


def _pull(group: Group, tensor: Tensor, lane: int, before: int) -> tuple[Tensor, Tensor]:
    """This rank's other place, and the place of the rank before, once all tensors are in place."""
    places = _places_for(group, tensor.nbytes, tensor.device, lane)
    places.turn = turn = 1 - places.turn
    rank, limit = dist.get_rank(group), group._get_backend(tensor.device).options._timeout
    own = places.view(rank, turn, tensor, tensor.dtype)
    if tensor.data_ptr() != own.data_ptr():  # it is not there yet
        own.copy_(tensor)
    places.handle.barrier(channel=0, timeout_ms=int(1e3 * limit.total_seconds()))
    theirs = places.view(before, turn, tensor, tensor.dtype)
    return places.view(rank, 1 - turn, tensor, tensor.dtype), theirs


class Travel:
    """A tensor on its way to the next rank, while one from the rank before arrives.

    GPUs of one host pull it with their copy engines, which leaves all multiprocessors to the kernels: on
    eight H200 with 8k tokens each a forward pass takes 7.6 ms, and 10.2 with NCCL's kernels beside it. The
    second travel after it in the same `lane` overwrites what arrived. Other GPUs send with NCCL, on a stream
    of its own; gloo sends from the host's memory.
    """

    def __init__(self, group: Group, tensor: Tensor, log: Log, owner: int, lane: int = 0) -> None:
        rank, world = dist.get_rank(group), dist.get_world_size(group)
        self._log, self._owner, self._device = log, owner, tensor.device
        on_gpus = tensor.is_cuda and dist.get_backend(group) != "gloo"
        self._stream = _stream(tensor.device) if on_gpus else None
        self._waiter: threading.Thread | None = None
        self._error: RuntimeError | None = None
        if self._stream is not None and _reach_each_other(group):
            self._sent = tensor
            self._taken, theirs = _pull(group, tensor, lane, (rank - 1) % world)
            self._on_its_stream(lambda: self._taken.copy_(theirs))
            return
        after, before = (dist.get_global_rank(group, (rank + step) % world) for step in (1, -1))
        self._sent = tensor if self._stream else tensor.cpu()
        self._taken = torch.empty_like(self._sent)
        operations = [
            dist.P2POp(dist.isend, self._sent, after, group),
            dist.P2POp(dist.irecv, self._taken, before, group),
        ]
        if self._stream is not None:
            self._on_its_stream(lambda: [work.wait() for work in dist.batch_isend_irecv(operations)])
            return
        self._begin, self._works = log.mark(), dist.batch_isend_irecv(operations)
        self._end = Mark()
        if log.is_on:  # a thread sees when it arrived, while this one computes
            self._waiter = threading.Thread(target=self._wait)
            self._waiter.start()

    def _on_its_stream(self, move: Callable[[], Any]) -> None:
        assert self._stream is not None
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._begin = self._log.mark()
            move()
            self._end = self._log.mark()
            self._done = torch.cuda.Event()
            self._done.record()

    def _wait(self) -> None:
        try:
            for work in self._works:
                work.wait()
        except RuntimeError as error:
            self._error = error
        self._end.host_ns = time.monotonic_ns()

    def arrived(self) -> Tensor:
        """The tensor of the rank before. Raises what torch.distributed raises if a rank is lost."""
        if self._stream is not None:
            torch.cuda.current_stream().wait_event(self._done)
        elif self._waiter is not None:
            self._waiter.join()
        else:
            self._wait()
        if self._error is not None:
            raise self._error
        size = self._sent.numel() * self._sent.element_size()
        self._log.add("transfer", self._owner, self._begin, self._end, size)
        return self._taken.to(self._device)


def gathered(group: Group, tensor: Tensor, log: Log) -> list[Tensor]:
    """The tensors of all ranks, in their order; they have the same shape."""
    by_host = tensor.is_cuda and dist.get_backend(group) == "gloo"
    sent = (tensor.cpu() if by_host else tensor).contiguous()
    begin = log.mark()
    parts = [torch.empty_like(sent) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, sent, group=group)
    size = (len(parts) - 1) * sent.numel() * sent.element_size()
    log.add("transfer", -1, begin, log.mark(), size)
    return [part.to(tensor.device) for part in parts]


def exchanged(group: Group, parts: list[Tensor], log: Log) -> list[Tensor]:
    """The part that each rank has for this one, for the parts that this one has for each."""
    by_host = parts[0].is_cuda and dist.get_backend(group) == "gloo"
    sent = [part.cpu() if by_host else part for part in parts]
    begin = log.mark()
    taken = [torch.empty_like(part) for part in sent]
    if dist.get_backend(group) == "gloo":  # it has no all_to_all
        _one_by_one(group, sent, taken)
    else:
        dist.all_to_all(taken, sent, group=group)
    size = (len(sent) - 1) * sent[0].numel() * sent[0].element_size()
    log.add("transfer", -1, begin, log.mark(), size)
    return [part.to(parts[0].device) for part in taken]


def _one_by_one(group: Group, sent: list[Tensor], taken: list[Tensor]) -> None:
    rank = dist.get_rank(group)
    others = [(each, dist.get_global_rank(group, each)) for each in range(len(sent)) if each != rank]
    taken[rank].copy_(sent[rank])
    sends = [dist.isend(sent[each], peer, group) for each, peer in others]
    for work in sends + [dist.irecv(taken[each], peer, group) for each, peer in others]:
        if work is not None:
            work.wait()


def summed_parts(group: Group, parts: Tensor) -> Tensor:
    """Of tensors (ranks, ...) the sum over the ranks of this rank's part."""
    rank = dist.get_rank(group)
    if dist.get_backend(group) == "gloo":
        whole = parts.cpu()
        dist.all_reduce(whole, group=group)
        return whole[rank].to(parts.device)
    own = torch.empty_like(parts[0])
    dist.reduce_scatter_tensor(own, parts.contiguous(), group=group)
    return own
