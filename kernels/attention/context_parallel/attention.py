"""Attention over a sequence that is shared out over ranks.

Each rank holds its part of Q, K and V, and gets its part of O. Three ways to bring queries and keys together:

ring        K and V travel from rank to rank, while the present chunk is computed (Liu et al. 2023)
all_gather  every rank gets all of K and V at once
all_to_all  every rank gets all positions of some heads (Jacobs et al. 2023, "Ulysses")

The partial results of chunks are merged by their lse. Backward, dK and dV travel with their chunk.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor

from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.dispatch import sweeps_of_parts
from kernels.attention.context_parallel.log import NO_LOG, Log
from kernels.attention.context_parallel.shards import shard, unshard
from kernels.attention.context_parallel.transport import (
    Travel,
    agree,
    exchanged,
    gathered,
    summed_parts,
    zeros_to_send,
)
from kernels.attention.operators import launch_backward, launch_forward
from kernels.primitives.merge import MOST_PARTS, Part, merged, state_dtype
from kernels.primitives.replay import repeat
from kernels.problem import Band
from kernels.problem.ranks import Runs, Share, runs_of, shares_between

if TYPE_CHECKING:
    from kernels.algorithms.flash3_backward.launch import SweepsOfParts

Method = Literal["ring", "all_gather", "all_to_all"]
D_KV_LANE = 1
ALL = -1
"""Stands for the owner of a chunk if it is about the keys of all ranks."""


@dataclass(frozen=True)
class World:
    """The ranks that share a sequence out, and what is asked of them."""

    group: dist.ProcessGroup
    layout: str
    left: int | None
    right: int | None
    """Bounds of the mask around the diagonal; None leaves a side open."""
    scale: float
    log: Log = NO_LOG

    rank = property(lambda self: dist.get_rank(self.group))
    size = property(lambda self: dist.get_world_size(self.group))

    def runs(self, rank: int, tensor: Tensor) -> Runs:
        """The positions of a rank whose part is as long as this one."""
        return runs_of(rank, self.size, tensor.shape[2] * self.size, self.layout)

    def shares(self, query: Tensor, key: Tensor, owner: int) -> tuple[Share, ...]:
        """What this rank's queries see of `owner`'s keys."""
        offset = (key.shape[2] - query.shape[2]) * self.size  # the last query sees the last key
        runs = self.runs(self.rank, query), self.runs(owner, key)
        return shares_between(*runs, self.left, self.right, offset)

    @contextmanager
    def noted(self, kind: str, owner: int, share: Share) -> Iterator[None]:
        begin = self.log.mark()
        yield
        self.log.add(kind, owner, begin, self.log.mark(), share=share)


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
    check: bool = True,
    log: Log = NO_LOG,
) -> Tensor | tuple[Tensor, Tensor]:
    """`flash_attention` of this rank's part of the sequence, differentiable.

    query is (batch, q_heads, q_len / ranks, head_dim), key and value (batch, kv_heads, kv_len / ranks,
    head_dim); every rank calls it with parts of the same shapes and type, made by `shard`. `mesh` is a
    one-dimensional DeviceMesh or a process group; None for all ranks. A causal mask and a `window` are
    aligned to the bottom right of the whole sequence. "all_to_all" needs numbers of heads that the ranks
    divide. With `check` the ranks first tell each other what they ask for, which takes about a millisecond;
    without it, calls that differ end at the time limit of the group. `log` notes what this rank did and when.
    Returns this rank's part of O, and with `return_lse` of lse, float32.

    Raises ValueError on every rank alike, with what was given and what is accepted, and what
    torch.distributed raises if a rank is lost.
    """
    group = _group_of(mesh)
    left, right = window or (None, None)
    scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
    world = World(group, layout, left, 0 if is_causal else right, scale, log)
    tensors = (query, key, value)
    asked = (*((tuple(t.shape), str(t.dtype)) for t in tensors), method, layout, left, world.right, scale)
    if check:
        agree(group, asked, _refusal(world, tensors, method, enable_gqa))
    out, lse = _METHODS[method](query, key, value, world)
    return (out, lse) if return_lse else out


def context_parallel_decode(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mesh: Any = None,
    scale: float | None = None,
    return_lse: bool = False,
    check: bool = True,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention of the same few queries on every rank to keys that are shared out over the ranks.

    query is (batch, q_heads, q_len, head_dim), key and value (batch, kv_heads, n, head_dim), where n may
    differ from rank to rank and be 0. Every query sees every key. Each rank returns the whole O, and with
    `return_lse` lse, float32. Not differentiable. `check` and what it raises
    are as in `context_parallel_attention`.
    """
    group = _group_of(mesh)
    scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
    asked = (tuple(query.shape), str(query.dtype), key.shape[1], scale)
    if check:
        agree(group, asked, _shape_refusal((query, key, value), enable_gqa=True))
    band = Band.of(query.shape[2], key.shape[2])
    part, part_lse = repeat(launch_forward, (query, key, value), (band.left, band.right, scale))
    own = torch.cat((part.float(), part_lse[..., None]), -1)  # one message
    parts = [
        Part(0, part[..., :-1].contiguous(), part[..., -1].contiguous())
        for part in gathered(group, own, NO_LOG)
    ]
    out, lse = merged(parts, query.shape[2], query.dtype)
    return (out, lse) if return_lse else out


def _group_of(mesh: Any) -> dist.ProcessGroup:
    group = mesh.get_group() if hasattr(mesh, "get_group") else (mesh or dist.group.WORLD)
    if group is None:
        raise ValueError(
            "no process group; call torch.distributed.init_process_group first (torchrun does not)"
        )
    return group


def _refusal(world: World, tensors: tuple[Tensor, Tensor, Tensor], method: str, enable_gqa: bool) -> str:
    """Why this rank's call is not accepted; "" if it is."""
    if method not in _METHODS:
        return f"method={method!r} is not accepted: expected one of {', '.join(_METHODS)}"
    if reason := _shape_refusal(tensors, enable_gqa):
        return reason
    query, key, _ = tensors
    if method == "all_to_all" and key.shape[1] % world.size:
        return f"all_to_all needs a multiple of {world.size} key heads, given {key.shape[1]}; choose ring"
    try:
        for tensor in (query, key):
            world.runs(world.rank, tensor)
    except ValueError as error:
        return str(error)
    return ""


def _shape_refusal(tensors: tuple[Tensor, Tensor, Tensor], enable_gqa: bool) -> str:
    query, key, value = tensors
    if any(tensor.dim() != 4 for tensor in tensors) or key.shape != value.shape:
        return f"shapes {[tuple(t.shape) for t in tensors]}; expected (batch, heads, length, head_dim)"
    if len({tensor.dtype for tensor in tensors}) > 1 or query.shape[3] != key.shape[3]:
        return "query, key and value differ in type or head_dim; expected the same"
    heads, kv_heads = query.shape[1], key.shape[1]
    if heads % kv_heads or (heads != kv_heads and not enable_gqa):
        return f"key has {kv_heads} heads; expected {heads}, or with enable_gqa=True a divisor of it"
    return ""


def _attend(world: World, q: Tensor, kv: Tensor, owner: int) -> Iterator[Part]:
    """What the queries see of `owner`'s keys."""
    for share in world.shares(q, kv[0], owner):
        rows, keys, band = share.rows, share.keys, share.band
        given = (q[:, :, rows], kv[0, :, :, keys], kv[1, :, :, keys])
        with world.noted("attend", owner, share):
            out, lse = repeat(launch_forward, given, (band.left, band.right, world.scale))
        world.log.saw(share, lse)
        yield Part(rows.start, out, lse)


def _nothing(query: Tensor) -> Part:
    """The result of queries that see no key."""
    lse = torch.full(query.shape[:3], float("-inf"), dtype=torch.float32, device=query.device)
    return Part(0, torch.zeros_like(query), lse)


Chunks = Iterator[tuple[int, Tensor]]
"""The owner of each chunk of keys, and its K and V (2, batch, kv_heads, length, head_dim)."""


def _round_the_ring(world: World, held: Tensor) -> Chunks:
    """The next chunk travels while the caller computes with this one."""
    for step in range(world.size):
        world.log.go_to(step)
        owner = (world.rank - step) % world.size
        travel = Travel(world.group, held, world.log, owner) if step + 1 < world.size else None
        yield owner, held
        held = travel.arrived() if travel else held


def _all_at_once(world: World, own: Tensor) -> Chunks:
    world.log.go_to(0)
    parts = gathered(world.group, own, world.log)
    for step in range(world.size):
        world.log.go_to(step)
        owner = (world.rank - step) % world.size
        yield owner, parts[owner]


class _AddedUp:
    """Gradients of queries that see one part of the keys after the other, by whichever kernels fit.

    Each dQ is added to a float32 sum.
    """

    def __init__(self, inputs: BackwardInputs) -> None:
        self._inputs = inputs
        self._sum = torch.zeros_like(inputs.query, dtype=torch.float32)

    def of_keys(self, rows: slice, key: Tensor, value: Tensor, band: Band) -> tuple[Tensor, Tensor]:
        """dK and dV of keys that these rows see; dQ is kept."""
        given = self._inputs
        d_lse = None if given.d_lse is None else given.d_lse[:, :, rows].contiguous()
        query, out, d_out = (tensor[:, :, rows] for tensor in (given.query, given.out, given.d_out))
        tensors = (query, key, value, out, given.lse[:, :, rows].contiguous(), d_out, d_lse)
        d_rows, d_key, d_value = repeat(launch_backward, tensors, (band.left, band.right, given.scale))
        self._sum[:, :, rows] += d_rows
        return d_key, d_value

    def of_queries(self) -> Tensor:
        """dQ of all parts."""
        return self._sum.to(self._inputs.query.dtype)


def _in_parts(inputs: BackwardInputs, runs: Runs) -> "_AddedUp | SweepsOfParts":
    """Gradients of inputs whose keys are one of the parts, which all rows see, or those of some `runs`."""
    lengths = [run.length for run in runs]
    d_lse = None if inputs.d_lse is None else inputs.d_lse.contiguous()
    inputs = replace(inputs, lse=inputs.lse.contiguous(), d_lse=d_lse)
    return sweeps_of_parts(inputs, lengths) or _AddedUp(inputs)


class _ByChunks(torch.autograd.Function):
    """Attention to one chunk of keys after the other. Chunks are fetched again for the gradients."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, world: World, in_ring: bool
    ) -> tuple[Tensor, Tensor]:
        ctx.world, ctx.in_ring, rows = world, in_ring, query.shape[2]
        parts: list[Part] = []
        ctx.chunks = _round_the_ring if in_ring else _all_at_once
        for owner, kv in ctx.chunks(world, torch.stack((key, value))):
            parts += _attend(world, query, kv, owner)
            world.log.after_step()
            if len(parts) >= MOST_PARTS:
                parts = [Part(0, *merged(parts, rows, state_dtype(query.dtype)))]
        begin = world.log.mark()
        out, lse = merged(parts or [_nothing(query)], rows, query.dtype)
        world.log.add("merge", ALL, begin, world.log.mark())
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_out: Tensor | None, d_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        query, key, value, out, lse = ctx.saved_tensors
        world, d_out = ctx.world, torch.zeros_like(out) if d_out is None else d_out
        part = Band.of(query.shape[2], key.shape[2])
        given = BackwardInputs(query, key, value, out, lse, d_out, part, world.scale, d_lse)
        gradients = _in_parts(given, world.runs(world.rank, query))
        travel: Travel | None = None
        by_owner: dict[int, Tensor] = {}
        for owner, kv in ctx.chunks(world, torch.stack((key, value))):
            parts = []
            for share in world.shares(query, key, owner):
                keys, values = kv[:, :, :, share.keys]
                with world.noted("attend", owner, share):
                    parts.append((share, gradients.of_keys(share.rows, keys, values, share.band)))
            if travel:
                d_kv = travel.arrived()
            elif ctx.in_ring:
                d_kv = zeros_to_send(world.group, kv, D_KV_LANE)
            else:
                d_kv = torch.zeros_like(kv, dtype=torch.float32)
            for share, of_share in parts:
                with world.noted("merge", owner, share):
                    for kept, added in zip(d_kv, of_share, strict=True):
                        kept[:, :, share.keys] += added
            if ctx.in_ring:  # dK and dV follow their chunk, and after the last step reach its owner
                is_whole = owner == (world.rank + 1) % world.size
                sent = d_kv.to(key.dtype) if is_whole else d_kv
                travel = Travel(world.group, sent, world.log, owner, D_KV_LANE)
            else:
                by_owner[owner] = d_kv
        begin = world.log.mark()
        d_query = gradients.of_queries()
        world.log.add("merge", ALL, begin, world.log.mark())
        if travel:
            d_kv = travel.arrived()
        else:
            whole = torch.stack([by_owner[owner] for owner in range(world.size)])
            d_kv = summed_parts(world.group, whole)
        # a copy, because the next call's gradients travel through the same places
        return d_query, *d_kv.to(key.dtype, copy=True), None, None


class _ByHeads(torch.autograd.Function):
    """Attention to all positions by some heads."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, world: World) -> tuple[Tensor, Tensor]:
        q, k, v = (_to_heads(tensor, world) for tensor in (query, key, value))
        rows, keys = q.shape[2], k.shape[2]
        band = Band.of(rows, keys, world.left, world.right)
        share = Share(slice(0, rows), slice(0, keys), band)
        with world.noted("attend", ALL, share):
            out, lse = repeat(launch_forward, (q, k, v), (band.left, band.right, world.scale))
        ctx.world, ctx.share = world, share
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.set_materialize_grads(False)
        return _to_positions(out, world), _to_positions(lse[..., None], world)[..., 0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_out: Tensor | None, d_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        saved, world = ctx.saved_tensors, ctx.world
        d_out = torch.zeros_like(saved[3]) if d_out is None else _to_heads(d_out, world)
        more = None if d_lse is None else _to_heads(d_lse[..., None], world)[..., 0].contiguous()
        with world.noted("attend", ALL, ctx.share):
            band = ctx.share.band
            gradients = repeat(launch_backward, (*saved, d_out, more), (band.left, band.right, world.scale))
        return *(_to_positions(gradient, world) for gradient in gradients), None


def _to_heads(tensor: Tensor, world: World) -> Tensor:
    """From a part of all heads to all positions of some."""
    parts = [part.contiguous() for part in tensor.chunk(world.size, dim=1)]
    return unshard(exchanged(world.group, parts, world.log), world.layout)


def _to_positions(tensor: Tensor, world: World) -> Tensor:
    """From all positions of some heads to a part of all."""
    parts = [shard(tensor, rank, world.size, world.layout) for rank in range(world.size)]
    return torch.cat(exchanged(world.group, parts, world.log), dim=1)


_METHODS: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "ring": lambda *given: _ByChunks.apply(*given, True),
    "all_gather": lambda *given: _ByChunks.apply(*given, False),
    "all_to_all": _ByHeads.apply,
}
