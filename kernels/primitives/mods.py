"""Masks and scores beyond the band, inside a kernel: the plan of tiles, the mask of a pair, changed scores.

`mods` is a `Mods`, None without a pattern; FIXED.PATTERN says what of it is compiled into the kernel.
"""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from kernels.primitives.numbers import LOG2E
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
    documents: torch.Tensor
    """int32 (kv_len,): the document of each position."""
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
    """What of a pattern is compiled into a kernel."""

    MASK: Node | None
    DOCUMENTS: bool
    SOFTCAP: bool
    ALIBI: bool
    SINK: bool


def compiled_of(pattern: Pattern | None) -> Compiled | None:
    """What of a pattern is compiled into a kernel; None without a pattern."""
    if pattern is None:
        return None
    has_documents = pattern.mask is not None and pattern.mask.asks_documents
    given = (bool(pattern.softcap), bool(pattern.slopes), bool(pattern.sinks))
    return Compiled(pattern.mask, has_documents, *given)


def mods_of(
    pattern: Pattern | None, scale: float, block_m: int, block_n: int, device: torch.device, axis: int = 1
) -> Mods | None:
    """What a kernel takes of the pattern; `axis` is 1 if its query tiles stay, 2 if its key tiles do."""
    if pattern is None:
        return None
    lists, documents, slopes, sinks = _tensors_of(pattern, block_m, block_n, device, axis)
    sizes = (lists.stride(0) if len(lists) > 1 else 0, lists.stride(1)) if lists.dim() == 3 else (0, 0)
    cap = pattern.softcap or 1.0
    return Mods(
        *(lists, *sizes, documents, slopes, sinks, pattern.heads[1], pattern.first_position),
        *(cap / scale, scale / cap, 1 / scale),
    )


@functools.lru_cache(maxsize=16)
def _tensors_of(
    pattern: Pattern, block_m: int, block_n: int, device: torch.device, axis: int
) -> tuple[torch.Tensor, ...]:
    lists = torch.empty(0, dtype=torch.int32)
    documents = lists
    if pattern.mask is not None:
        lists = torch.from_numpy(plan_of(pattern, block_m, block_n).tiles_of(axis))
        documents = torch.from_numpy(pattern.document_of())
    values = (torch.tensor(numbers, dtype=torch.float32) for numbers in (pattern.slopes, pattern.sinks))
    return tuple(tensor.to(device) for tensor in (lists, documents, *values))


@triton.jit
def listed_tiles(mods, batch_head, tile):
    """The plan's list of the tiles that visit the tile of a head, or that it visits."""
    return mods.lists + batch_head.to(tl.int64) * mods.per_head + tile * mods.per_tile


@triton.jit
def tile_of(turn, listed):
    """The tile that a turn of the loop is about: the turn's number, or what the list says."""
    if listed is None:
        return turn
    else:
        return tl.load(listed + 3 + turn)


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
    """The document of each position; -1 outside."""
    return tl.load(documents + positions, mask=(positions >= 0) & (positions < kv_len), other=-1)


class HeadMods(NamedTuple):
    """`Mods` of one head, and of the tile that stays: what a loop needs of them, loaded before it."""

    documents: Any
    document_of_stay: Any
    """(positions,): the document of each position of the tile that stays."""
    slope: Any
    h: Any
    b: Any
    first_position: Any
    cap: Any
    inverse_cap: Any


@triton.jit
def mods_of_head(mods, batch_head, positions, kv_len, FIXED: tl.constexpr):
    """`positions` are those of the tile that stays, among the keys."""
    h, b = batch_head % mods.q_heads, batch_head // mods.q_heads
    document, slope = positions, mods.inverse_scale
    if FIXED.PATTERN.DOCUMENTS:
        document = document_at(mods.documents, positions, kv_len)
    if FIXED.PATTERN.ALIBI:
        slope = tl.load(mods.slopes + h) * mods.inverse_scale
    return HeadMods(mods.documents, document, slope, h, b, mods.first_position, mods.cap, mods.inverse_cap)


@triton.jit
def pair_is_seen(offs_m, offs_n, own, kv_len, KEYS_STAY: tl.constexpr, FIXED: tl.constexpr):
    """Whether each query sees each key; the tile that stays has the rows of the result."""
    MASK: tl.constexpr = FIXED.PATTERN.MASK
    q, k = offs_m + own.first_position, offs_n
    streamed = q if KEYS_STAY else k
    document = streamed
    if FIXED.PATTERN.DOCUMENTS:
        document = document_at(own.documents, streamed, kv_len)
    stays = own.document_of_stay[:, None]
    if KEYS_STAY:
        return evaluate(MASK, q[None, :], k[:, None], document[None, :], stays, own.h, own.b)
    else:
        return evaluate(MASK, q[:, None], k[None, :], stays, document[None, :], own.h, own.b)


@triton.jit
def tanh(x):
    """Hyperbolic tangent by one exponential; near 0, where that would cancel, by its series."""
    size = tl.abs(x)
    small = tl.exp2(size * (-2 * LOG2E))
    far = (1 - small) / (1 + small)
    square = x * x
    series = 1 + square * (
        -0.33333334 + square * (0.13333334 + square * (-0.05396825 + square * 0.021869488))
    )
    return tl.where(size < 0.25, x * series, tl.where(x < 0, -far, far))


@triton.jit
def change_scores(scores, offs_m, offs_n, own, KEYS_STAY: tl.constexpr, FIXED: tl.constexpr):
    """Scores without their scale, capped and with ALiBi; and the derivative of the cap, for the gradients.

    Their rows are those of the tile that stays.
    """
    derivative = scores
    if FIXED.CHANGES_SCORES:
        if FIXED.PATTERN.SOFTCAP:
            capped = tanh(scores * own.inverse_cap)
            derivative = 1 - capped * capped
            scores = capped * own.cap
        if FIXED.PATTERN.ALIBI:  # positions as float32, which holds them: to convert each pair takes longer
            q, k = (offs_m + own.first_position).to(tl.float32), offs_n.to(tl.float32)
            distance = k[:, None] - q[None, :] if KEYS_STAY else q[:, None] - k[None, :]
            scores -= own.slope * tl.abs(distance)
    return scores, derivative


@triton.jit
def with_derivative(d_scores, derivative, FIXED: tl.constexpr):
    """Gradients of changed scores as gradients of the scores before."""
    if FIXED.PATTERN.SOFTCAP:
        d_scores = d_scores * derivative
    return d_scores


@triton.jit
def start_of_rows(m, l, batch_head, mods, FIXED: tl.constexpr):
    """The state of rows before their first tile: a sink is a key that was seen, and has no value."""
    if FIXED.PATTERN.SINK:
        m = l + tl.load(mods.sinks + batch_head % mods.q_heads) * LOG2E
        l = l + 1
    return m, l
