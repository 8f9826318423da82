"""Masks and scores beyond the band, inside a kernel: the plan of tiles, the mask of a pair, changed scores.

`mods` is a `Mods`, None without a pattern; FIXED.PATTERN says what of a pattern is compiled into the kernel.
"""

import functools
import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from kernels.primitives.tile_io import load_rows, positions_of
from kernels.problem.expression import Node
from kernels.problem.pattern import Pattern, plan_of

import triton
import triton.language as tl


class Mods(NamedTuple):
    """What a kernel takes of a pattern. Tensors that it has no use for are empty."""

    lists: torch.Tensor
    """int32: `Plan.tiles_of`, for the tiles that stay in this kernel."""
    per_head: int
    per_tile: int
    """Elements of `lists` from one head, and from one tile, to the next."""
    stretches: torch.Tensor
    stretches_per_head: int
    """int32: `Plan.stretches_of`, and the elements from one head to the next."""
    documents: torch.Tensor
    """int32 (kv_len,): the number of each position's document."""
    slopes: torch.Tensor
    sinks: torch.Tensor
    """float32 (q_heads,)"""
    q_heads: int
    first_position: int
    """Position of the first query among the keys."""
    cap: float
    inverse_cap: float
    inverse_scale: float
    """Scores in a kernel lack the scale: these are softcap / scale, scale / softcap and 1 / scale."""


@dataclass(frozen=True)
class Compiled:
    """What of a pattern is compiled into a kernel; by default nothing."""

    PLANNED: bool = False
    """Whether a plan lists the tiles that are visited."""
    MASK: Node | None = None
    """None if each row of the tile that stays sees one stretch of the others: its ends tell the mask.

    A window in documents, head_dim 64: 459 instructions a step of a cut tile instead of 655 (H200).
    """
    CUTS: tuple[bool, bool] = (False, False)
    """Whether some lists have partial tiles before the full ones, and after them."""
    IN_A_ROW: tuple[bool, bool, bool] = (False, False, False)
    """Whether the tiles of each part of the lists follow one another, so that its loop need not read them.

    With cuts on one side alone, this spares the loop of full tiles its spills: a prefix, head_dim 128, took
    0.58 ms and not 0.67 (H200).
    """
    SOFTCAP: bool = False
    ALIBI: bool = False
    BEFORE: bool = False
    """Whether ALiBi meets no key after its query: what a row loses as a whole can leave the loop."""
    SINK: bool = False

    @property
    def CHANGES_SCORES(self) -> bool:  # noqa: N802 (named like the constexprs beside it)
        """Whether scores are changed before the softmax."""
        return self.SOFTCAP or self.ALIBI


NO_PATTERN = Compiled()


def mods_of(
    pattern: Pattern | None, scale: float, block_m: int, block_n: int, device: torch.device, axis: int
) -> tuple[Compiled, Mods | None]:
    """What of a pattern is compiled into a kernel, and what it takes; `axis` is that of `Plan.tiles_of`."""
    if pattern is None:
        return NO_PATTERN, None
    compiled, tensors = _made_of(pattern, block_m, block_n, device, axis)
    lists, stretches, documents, slopes, sinks = tensors
    of_lists, of_stretches = (each.stride(0) if len(each) > 1 else 0 for each in (lists, stretches))
    cap = pattern.softcap or 1.0
    return compiled, Mods(
        *(lists, of_lists, lists.stride(1), stretches, of_stretches, documents, slopes, sinks),
        *(pattern.heads[1], pattern.first_position, cap / scale, scale / cap, 1 / scale),
    )


@functools.lru_cache(maxsize=16)
def _made_of(
    pattern: Pattern, block_m: int, block_n: int, device: torch.device, axis: int
) -> tuple[Compiled, tuple[torch.Tensor, ...]]:
    lists = stretches = documents = np.empty((0, 0, 0), np.int32)
    fixed: dict[str, Any] = {"ALIBI": bool(pattern.slopes), "SINK": bool(pattern.sinks)}
    fixed["BEFORE"] = fixed["ALIBI"] and pattern.band.right + pattern.rows_after <= 0
    if pattern.mask is not None:
        plan = plan_of(pattern, block_m, block_n)
        lists = np.pad(plan.tiles_of(axis), ((0, 0), (0, 0), (0, 1)))  # `ahead` may read past the end
        stretches, documents = plan.stretches_of(axis), pattern.document_of()
        first_full, end_full, end, *_ = np.moveaxis(lists, -1, 0)
        follows = np.diff(lists[..., 3:], axis=-1) == 1
        turn = np.arange(follows.shape[-1])
        of_part = [
            (turn >= begin[..., None]) & (turn + 1 < stop[..., None])
            for begin, stop in itertools.pairwise((0 * end, first_full, end_full, end))
        ]
        fixed |= {
            "MASK": None if len(stretches) else pattern.mask,
            "CUTS": (bool(first_full.any()), bool((end > end_full).any())),
            "IN_A_ROW": tuple(bool(follows[own].all()) for own in of_part),
        }
    values = (torch.tensor(numbers, dtype=torch.float32) for numbers in (pattern.slopes, pattern.sinks))
    tensors = (*map(torch.from_numpy, (lists, stretches, documents)), *values)
    compiled = Compiled(PLANNED=pattern.mask is not None, SOFTCAP=bool(pattern.softcap), **fixed)
    return compiled, tuple(tensor.to(device) for tensor in tensors)


@triton.jit
def visits_listed(mods, batch_head, tile):
    """A plan's list for a tile of a head; (first, first_full, end_full, end) of the turns through it."""
    listed = mods.lists + batch_head.to(tl.int64) * mods.per_head + tile * mods.per_tile
    first_full, end_full, end = tl.load(listed), tl.load(listed + 1), tl.load(listed + 2)
    return listed, first_full * 0, first_full, end_full, end


@triton.jit
def ahead(listed, first_turn, PART: tl.constexpr, FIXED: tl.constexpr):
    """How far tiles in a row lie ahead of the numbers of their turns; the list, if it has to be read."""
    if FIXED.PATTERN.IN_A_ROW[PART]:
        return tl.load(listed + 3 + first_turn) - first_turn
    else:
        return listed


@triton.jit
def tile_of(turn, listed):
    """The tile that a turn of the loop is about; `listed` is what `ahead` gave, None without a plan."""
    if listed is None:
        return turn
    elif listed.dtype.is_ptr():
        return tl.load(listed + 3 + turn)
    else:
        return turn + listed


@triton.jit
def evaluate(NODE: tl.constexpr, q, k, doc_q, doc_k, h, b):
    """A node of an expression on positions that broadcast, as `kernels.problem.expression.evaluate`."""
    OP: tl.constexpr = NODE.op
    LEFT: tl.constexpr = NODE.left
    RIGHT: tl.constexpr = NODE.right
    if OP == "number":
        return q * 0 + NODE.number
    elif OP == "q":
        return q
    elif OP == "k":
        return k
    elif OP == "doc(q)":
        return doc_q
    elif OP == "doc(k)":
        return doc_k
    elif OP == "h":
        return q * 0 + h
    elif OP == "b":
        return q * 0 + b
    elif OP == "not":
        return evaluate(LEFT, q, k, doc_q, doc_k, h, b) == 0
    elif OP == "abs":
        return tl.abs(evaluate(LEFT, q, k, doc_q, doc_k, h, b))
    else:
        left = evaluate(LEFT, q, k, doc_q, doc_k, h, b)
        right = evaluate(RIGHT, q, k, doc_q, doc_k, h, b)
        return combine(OP, left, right)


@triton.jit
def combine(OP: tl.constexpr, left, right):
    """An operation on two values. A divisor is positive; division rounds down, as in Python."""
    if OP == "and":
        return left & right
    elif OP == "or":
        return left | right
    elif OP == "==":
        return left == right
    elif OP == "<":
        return left < right
    elif OP == "<=":
        return left <= right
    elif OP == "+":
        return left + right
    elif OP == "-":
        return left - right
    elif OP == "*":
        return left * right
    elif OP == "%":
        return (left % right + right) % right
    else:
        return (left - (left % right + right) % right) // right


@triton.jit
def document_at(documents, positions, kv_len):
    """The number of the document of each position; -1 outside."""
    return tl.load(documents + positions, mask=(positions >= 0) & (positions < kv_len), other=-1)


class HeadMods(NamedTuple):
    """`Mods` of one head, and of the tile that stays: what a loop needs of them, loaded before it."""

    mods: Any
    document_of_stay: Any
    first_of_stay: Any
    end_of_stay: Any
    """(rows,): of each row of the tile that stays the document's number, or the ends of its stretch."""
    slope: Any
    origin: Any
    """The position among the keys from which `loss_of_rows` counts."""
    h: Any
    b: Any


@triton.jit
def mods_of_head(mods, batch_head, stays, band, KEYS_STAY: tl.constexpr, FIXED: tl.constexpr):
    """`stays` are the rows of the tile that stays."""
    h, b = batch_head % mods.q_heads, batch_head // mods.q_heads
    slope, origin = mods.inverse_scale, mods.first_position
    document, first, end = stays, stays, stays
    if FIXED.PATTERN.PLANNED and FIXED.PATTERN.MASK is None:
        rows = band.kv_len if KEYS_STAY else band.q_len
        stretches = mods.stretches + batch_head.to(tl.int64) * mods.stretches_per_head
        first = load_rows(stretches, stays, rows, 0)
        end = load_rows(stretches + rows, stays, rows, 0)
    elif FIXED.PATTERN.PLANNED and FIXED.PATTERN.MASK.asks_documents:
        positions = stays if KEYS_STAY else stays + mods.first_position
        document = document_at(mods.documents, positions, band.kv_len)
    if FIXED.PATTERN.ALIBI:
        slope = tl.load(mods.slopes + h) * mods.inverse_scale
        origin += tl.min(stays, axis=0)
    return HeadMods(mods, document, first, end, slope, origin, h, b)


@triton.jit
def pair_is_seen(stays, tile, own, kv_len, PART: tl.constexpr, KEYS_STAY: tl.constexpr, FIXED: tl.constexpr):
    """Whether each query sees each key, of the tile that stays, at `stays`, and a tile of this number.

    The tile that stays has the rows of the result.
    """
    MASK: tl.constexpr = FIXED.PATTERN.MASK
    BLOCK: tl.constexpr = FIXED.BLOCK_M if KEYS_STAY else FIXED.BLOCK_N
    if MASK is None:
        # Counted from a thread's first column (as in positions_of), columns are numbers in the code: with one
        # bound in part 0, 411 instructions a step of a cut tile instead of 505 (head_dim 128, H200).
        offs = tl.arange(0, BLOCK)
        first_column, column = (tile * BLOCK + (offs & 6))[None, :], (offs & ~6)[None, :]
        seen = column >= own.first_of_stay[:, None] - first_column
        if PART != 0:  # else each row sees all of a later tile
            seen &= column < own.end_of_stay[:, None] - first_column
        return seen
    else:
        streamed = positions_of(tile, BLOCK, tl.int32)
        offs_m, offs_n = (streamed, stays) if KEYS_STAY else (stays, streamed)
        q, k = offs_m + own.mods.first_position, offs_n
        document = q if KEYS_STAY else k
        if MASK.asks_documents:
            document = document_at(own.mods.documents, document, kv_len)
        of_stay = own.document_of_stay[:, None]
        if KEYS_STAY:
            return evaluate(MASK, q[None, :], k[:, None], document[None, :], of_stay, own.h, own.b)
        else:
            return evaluate(MASK, q[:, None], k[None, :], of_stay, document[None, :], own.h, own.b)


@triton.jit
def tanh(x):
    """Hyperbolic tangent by a rational function, off by 5e-7 at most: minimax up to 8, where 1 is as near.

    By an exponential, a softcap took 1.1 times as long on an H200. 1 / q is rsqrt(q) squared, five
    instructions less than Triton's division.
    """
    x = tl.clamp(x, -8.0, 8.0, propagate_nan=tl.PropagateNan.ALL)
    u = x * x
    p = x * (1 + u * (0.12925662 + u * (0.0029510222 + u * 1.14284076e-05)))
    q = 1 + u * (0.46258876 + u * (0.023815548 + u * (0.00023866894 + u * 2.459206e-07)))
    r = tl.rsqrt(q)
    return p * r * r


@triton.jit
def loss_of_rows(queries, own):
    """What ALiBi takes from each row of full tiles whose keys all lie before it.

    It is the same for all keys, so `change_scores` leaves it to the softmax, which subtracts a number of each
    row anyway.
    """
    return own.slope * (queries + own.mods.first_position - own.origin).to(tl.float32)


@triton.jit
def change_scores(scores, stays, streamed, own, KEYS_STAY: tl.constexpr, FIXED: tl.constexpr, loss=None):
    """Scores without their scale, capped and with ALiBi; and the derivative of the cap, for the gradients.

    Their rows are those of the tile that stays, at `stays`; `streamed` is the number of the other tile. They
    still have to lose a `loss` of each row.
    """
    derivative = scores
    if FIXED.PATTERN.SOFTCAP:
        capped = tanh(scores * own.mods.inverse_cap)
        derivative = 1 - capped * capped
        scores = capped * own.mods.cap
    if FIXED.PATTERN.ALIBI:  # positions as float32, which holds them: to convert each pair takes longer
        BLOCK: tl.constexpr = FIXED.BLOCK_M if KEYS_STAY else FIXED.BLOCK_N
        if loss is not None:
            scores += own.slope * positions_of(streamed, BLOCK, tl.float32, own.origin)[None, :]
        else:
            shift = -own.mods.first_position if KEYS_STAY else own.mods.first_position
            here, there = (stays + shift).to(tl.float32), positions_of(streamed, BLOCK, tl.float32)
            scores -= own.slope * tl.abs(here[:, None] - there[None, :])
    return scores, derivative
