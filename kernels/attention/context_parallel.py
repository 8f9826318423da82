"""Attention over a sequence that is shared out over ranks (context parallelism), on torch.distributed.

Each rank holds its part of Q, K and V, and gets its part of O. Three ways to bring queries and keys together:

ring        K and V travel from rank to rank, while the present chunk is computed (Liu et al. 2023)
all_gather  every rank gets all of K and V at once
all_to_all  every rank gets all positions of some heads (Jacobs et al. 2023, "Ulysses")

The partial results of chunks are merged by their lse. Backward, dK and dV travel with their chunk.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.dispatch import attention_forward, attention_gradients
from kernels.attention.sequence_layout import Run, band_between, runs_of, shard, unshard

Method = Literal["ring", "all_gather", "all_to_all"]


@dataclass(frozen=True)
class World:
    """The ranks that share a sequence out, and what is asked of them."""

    group: dist.ProcessGroup
    layout: str
    left: int | None
    right: int | None
    """Bounds of the mask around the diagonal; None leaves a side open."""
    scale: float

    rank = property(lambda self: dist.get_rank(self.group))
    size = property(lambda self: dist.get_world_size(self.group))

    def peer(self, step: int) -> int:
        """The global rank that lies so many ranks further in the ring."""
        return dist.get_global_rank(self.group, (self.rank + step) % self.size)

    def runs(self, rank: int, tensor: Tensor) -> tuple[Run, ...]:
        """The positions of a rank whose part is as long as this one."""
        return runs_of(rank, self.size, tensor.shape[2] * self.size, self.layout)


def context_parallel_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mesh: Any = None,
    method: Method = "ring",
    layout: str = "zigzag",
    is_causal: bool = False,
    window: tuple[int | None, int | None] | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """`flash_attention` of this rank's part of the sequence, differentiable.

    query is (batch, q_heads, q_len / ranks, head_dim), key and value (batch, kv_heads, kv_len / ranks,
    head_dim); every rank calls it with parts of the same shapes and type, made by `sequence_layout.shard`.
    `mesh` is a one-dimensional DeviceMesh or a process group; None for all ranks. A causal mask and a
    `window` are aligned to the bottom right of the whole sequence. "all_to_all" needs numbers of heads that
    the ranks divide. Returns this rank's part of O, and with `return_lse` of lse, float32.

    Raises ValueError on every rank alike, with what was given and what is accepted, and what
    torch.distributed raises if a rank is lost.
    """
    group = mesh.get_group() if hasattr(mesh, "get_group") else (mesh or dist.group.WORLD)
    if group is None:
        raise ValueError(
            "no process group; call torch.distributed.init_process_group first (torchrun does not)"
        )
    left, right = window or (None, None)
    scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
    world = World(group, layout, left, 0 if is_causal else right, scale)
    _refuse(world, (query, key, value), method, enable_gqa)
    out, lse = _METHODS[method](query, key, value, world)
    return (out, lse) if return_lse else out


def _refuse(world: World, tensors: tuple[Tensor, Tensor, Tensor], method: str, enable_gqa: bool) -> None:
    """Raise the same ValueError on all ranks if the call of one of them is not accepted."""
    query, key, value = tensors
    given = (*(tuple(tensor.shape) for tensor in tensors), str(query.dtype), str(key.dtype), str(value.dtype))
    calls: list[Any] = [None] * world.size
    asked = (given, method, world.layout, world.left, world.right, world.scale)
    dist.all_gather_object(calls, (asked, _own_reason(world, tensors, method, enable_gqa)), group=world.group)
    for rank, (_, reason) in enumerate(calls):
        if reason:
            raise ValueError(f"rank {rank}: {reason}")
    for rank, (other, _) in enumerate(calls):
        if other != calls[0][0]:
            raise ValueError(
                f"rank {rank} asks for {other}, rank 0 for {calls[0][0]}; expected the same on all"
            )


def _own_reason(world: World, tensors: tuple[Tensor, Tensor, Tensor], method: str, enable_gqa: bool) -> str:
    """Why this rank's call is not accepted; "" if it is."""
    query, key, value = tensors
    if method not in _METHODS:
        return f"method={method!r} is not accepted: expected one of {', '.join(_METHODS)}"
    if any(tensor.dim() != 4 for tensor in tensors) or key.shape != value.shape:
        return f"shapes {[tuple(t.shape) for t in tensors]}; expected (batch, heads, length, head_dim)"
    if len({tensor.dtype for tensor in tensors}) > 1 or query.shape[3] != key.shape[3]:
        return "query, key and value differ in type or head_dim; expected the same"
    heads, kv_heads = query.shape[1], key.shape[1]
    if heads % kv_heads or (heads != kv_heads and not enable_gqa):
        return f"key has {kv_heads} heads; expected {heads}, or with enable_gqa=True a divisor of it"
    if method == "all_to_all" and kv_heads % world.size:
        return f"all_to_all needs a multiple of {world.size} key heads, given {kv_heads}; choose ring"
    try:
        for tensor in (query, key):
            world.runs(world.rank, tensor)
    except ValueError as error:
        return str(error)
    return ""


def merge(out: Tensor, lse: Tensor, more: Tensor, more_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Two partial results of the same rows as one: O (..., head_dim) and lse (...), in the type of the first.

    Each counts by its share of the sum of exponentials; a part that saw no key has lse -inf.
    """
    whole = torch.logaddexp(lse, more_lse.to(lse.dtype))
    shift = torch.where(whole == float("-inf"), 0.0, whole)
    first, second = (torch.exp(part - shift)[..., None] for part in (lse, more_lse))
    return out * first + more.to(out.dtype) * second, whole


def _pairs(world: World, query: Tensor, key: Tensor, owner: int) -> list[tuple[slice, slice, Any]]:
    """The parts of this rank's queries and of `owner`'s keys that meet: slices of rows, and their band."""
    found = []
    offset = (key.shape[2] - query.shape[2]) * world.size  # the last query sees the last key
    q_first = 0
    for queries in world.runs(world.rank, query):
        k_first = 0
        for keys in world.runs(owner, key):
            band = band_between(queries, keys, world.left, world.right, offset)
            rows = slice(q_first, q_first + queries.length)
            if band is not None:
                found.append((rows, slice(k_first, k_first + keys.length), band))
            k_first += keys.length
        q_first += queries.length
    return found


def _attend(world: World, state: tuple[Tensor, Tensor], q: Tensor, k: Tensor, v: Tensor, owner: int) -> None:
    """Merge what the queries see of `owner`'s keys into the state (O, lse), in place."""
    out, lse = state
    for rows, keys, band in _pairs(world, q, k, owner):
        part = attention_forward(q[:, :, rows], k[:, :, keys], v[:, :, keys], band=band, scale=world.scale)
        out[:, :, rows], lse[:, :, rows] = merge(out[:, :, rows], lse[:, :, rows], *part)


def _differentiate(
    world: World,
    saved: tuple[Tensor, ...],
    d_out: Tensor,
    d_lse: Tensor | None,
    k: Tensor,
    v: Tensor,
    owner: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """(dQ, dK, dV) in float32 of what the queries see of `owner`'s keys, by the lse of all keys."""
    q, out, lse = saved
    d_query, d_key, d_value = (torch.zeros_like(tensor, dtype=torch.float32) for tensor in (q, k, v))
    for rows, keys, band in _pairs(world, q, k, owner):
        o, row_lse, do = (tensor[:, :, rows] for tensor in (out, lse, d_out))
        more = None if d_lse is None else d_lse[:, :, rows].contiguous()
        tensors = (q[:, :, rows], k[:, :, keys], v[:, :, keys], o, row_lse.contiguous(), do)
        gradients = attention_gradients(BackwardInputs(*tensors, band, world.scale, more))
        places = ((d_query, rows), (d_key, keys), (d_value, keys))
        for (total, place), gradient in zip(places, gradients, strict=True):
            total[:, :, place] += gradient.float()
    return d_query, d_key, d_value


def _start(world: World, tensors: list[Tensor]) -> tuple[list[Tensor], list[Any]]:
    """Send tensors to the next rank and take those of the rank before: buffers, and what to wait for."""
    taken = [torch.empty_like(tensor) for tensor in tensors]
    sends = [dist.P2POp(dist.isend, tensor, world.peer(1), world.group) for tensor in tensors]
    takes = [dist.P2POp(dist.irecv, tensor, world.peer(-1), world.group) for tensor in taken]
    return taken, dist.batch_isend_irecv(sends + takes)


def _finish(works: list[Any]) -> None:
    for work in works:
        work.wait()


def _no_result(query: Tensor) -> tuple[Tensor, Tensor]:
    """O and lse before the first chunk, in a type whose roundings do not add up to those of query's."""
    dtype = torch.float64 if query.dtype == torch.float32 else torch.float32
    lse = torch.full(query.shape[:3], float("-inf"), dtype=dtype, device=query.device)
    return torch.zeros_like(query, dtype=dtype), lse


Chunks = Iterator[tuple[int, Tensor, Tensor]]
"""The owner of each chunk of keys, and its K and V."""


def _round_the_ring(world: World, key: Tensor, value: Tensor) -> Chunks:
    """The next chunk travels while the caller computes with this one."""
    held = [key.contiguous(), value.contiguous()]
    for step in range(world.size):
        taken, works = _start(world, held) if step + 1 < world.size else (held, [])
        yield (world.rank - step) % world.size, held[0], held[1]
        _finish(works)
        held = taken


def _all_at_once(world: World, key: Tensor, value: Tensor) -> Chunks:
    found = []
    for tensor in (key.contiguous(), value.contiguous()):
        parts = [torch.empty_like(tensor) for _ in range(world.size)]
        dist.all_gather(parts, tensor, group=world.group)
        found.append(parts)
    yield from zip(range(world.size), *found, strict=True)


class _ByChunks(torch.autograd.Function):
    """Attention to one chunk of keys after the other. Chunks are fetched again for the gradients."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, world: World, in_ring: bool
    ) -> tuple[Tensor, Tensor]:
        ctx.world, ctx.in_ring, state = world, in_ring, _no_result(query)
        ctx.chunks = _round_the_ring if in_ring else _all_at_once
        for owner, k, v in ctx.chunks(world, key, value):
            _attend(world, state, query, k, v, owner)
        out, lse = state[0].to(query.dtype), state[1].float()
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_out: Tensor | None, d_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, value, out, lse = ctx.saved_tensors
        world, d_out = ctx.world, torch.zeros_like(out) if d_out is None else d_out
        d_query = torch.zeros_like(query, dtype=torch.float32)
        d_keys = torch.zeros(2, *key.shape, dtype=torch.float32, device=key.device)  # dK and dV of a chunk
        of_owners = [d_keys] * world.size
        for owner, k, v in ctx.chunks(world, key, value):
            more, *of_keys = _differentiate(world, (query, out, lse), d_out, d_lse, k, v, owner)
            d_query += more
            if ctx.in_ring:  # they travel with their chunk, and after the last step reach its owner
                (d_keys,), works = _start(world, [d_keys + torch.stack(of_keys)])
                _finish(works)
            else:
                of_owners[owner] = torch.stack(of_keys)
        if not ctx.in_ring:
            summed = torch.stack(of_owners)
            dist.all_reduce(summed, group=world.group)
            d_keys = summed[world.rank]
        return d_query.to(query.dtype), *d_keys.to(key.dtype), None, None


class _Exchange(torch.autograd.Function):
    """Positions for heads: from a part of all heads to all positions of some, or back."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, world: World, to_heads: bool) -> Tensor:
        ctx.world, ctx.to_heads = world, to_heads
        return _exchanged(tensor, world, to_heads)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _exchanged(gradient, ctx.world, not ctx.to_heads), None, None


def _exchanged(tensor: Tensor, world: World, to_heads: bool) -> Tensor:
    if to_heads:
        sent = [part.contiguous() for part in tensor.chunk(world.size, dim=1)]
    else:
        sent = [shard(tensor, rank, world.size, world.layout) for rank in range(world.size)]
    taken = [torch.empty_like(part) for part in sent]
    dist.all_to_all(taken, sent, group=world.group)
    return unshard(taken, world.layout) if to_heads else torch.cat(taken, dim=1)


def _all_to_all(query: Tensor, key: Tensor, value: Tensor, world: World) -> tuple[Tensor, Tensor]:
    from kernels.attention.flash_attention import flash_attention

    q, k, v = (_Exchange.apply(tensor, world, True) for tensor in (query, key, value))
    asked = {"window": (world.left, world.right), "scale": world.scale, "enable_gqa": True}
    out, lse = flash_attention(q, k, v, return_lse=True, **asked)
    return _Exchange.apply(out, world, False), _Exchange.apply(lse[..., None], world, False)[..., 0]


_METHODS: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "ring": lambda *given: _ByChunks.apply(*given, True),
    "all_gather": lambda *given: _ByChunks.apply(*given, False),
    "all_to_all": _all_to_all,
}
