"""Masks and scores beyond the band, inside a kernel: the plan of tiles, the mask of a pair, changed scores.

`mods` is a `Mods`, None without a pattern; FIXED.PATTERN says what of it is compiled into the kernel.
"""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
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
    """int32 (3, kv_len): the number of each position's document, and where that begins and ends."""
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


SAME_DOCUMENT = "same document"


@dataclass(frozen=True)
class Compiled:
    """What of a pattern is compiled into a kernel."""

    MASK: Node | None
    """`doc(q) == doc(k)` is SAME_DOCUMENT: bounds of the document that stays tell it, no load per tile.

    On an H200 packed documents of head_dim 64 took 0.19 ms instead of 0.23.
    """
    SAME_DOCUMENT: bool
    NUMBERS: bool
    """Whether the mask asks for numbers of documents otherwise."""
    SOFTCAP: bool
    ALIBI: bool
    SINK: bool


@functools.lru_cache(maxsize=16)
def compiled_of(pattern: Pattern | None) -> Compiled | None:
    """What of a pattern is compiled into a kernel; None without a pattern."""
    if pattern is None:
        return None
    mask = _with_same_document(pattern.mask)
    asks = (mask is not None and SAME_DOCUMENT in mask.names(), mask is not None and mask.asks_documents)
    return Compiled(mask, *asks, bool(pattern.softcap), bool(pattern.slopes), bool(pattern.sinks))


def _with_same_document(node: Node | None) -> Node | None:
    if node is None:
        return None
    left, right = _with_same_document(node.left), _with_same_document(node.right)
    if node.op == "==" and left and right and {left.op, right.op} == {"doc(q)", "doc(k)"}:
        return Node(SAME_DOCUMENT)
    return Node(node.op, left, right, node.number)


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
        number, ends = pattern.document_of(), np.cumsum((0, *pattern.documents))
        bounds = (ends[number], np.append(ends[1:], pattern.kv_len)[number])
        documents = torch.from_numpy(np.stack([number, *bounds]).astype(np.int32))
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
def evaluate(NODE: tl.constexpr, q, k, doc_q, doc_k, same, h, b):
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
    elif OP == "same document":
        return same
    elif OP == "h":
        return q * 0 + h
    elif OP == "b":
        return q * 0 + b
    elif OP == "not":
        return evaluate(LEFT, q, k, doc_q, doc_k, same, h, b) == 0
    elif OP == "abs":
        return tl.abs(evaluate(LEFT, q, k, doc_q, doc_k, same, h, b))
    else:
        left = evaluate(LEFT, q, k, doc_q, doc_k, same, h, b)
        right = evaluate(RIGHT, q, k, doc_q, doc_k, same, h, b)
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
def document_at(documents, positions, kv_len, WHAT: tl.constexpr):
    """Of the document of each position its number (0), begin (1) or end (2); -1 outside."""
    inside = (positions >= 0) & (positions < kv_len)
    return tl.load(documents + WHAT * kv_len + positions, mask=inside, other=-1)


class HeadMods(NamedTuple):
    """`Mods` of one head, and of the tile that stays: what a loop needs of them, loaded before it."""

    documents: Any
    document_of_stay: Any
    begin_of_stay: Any
    end_of_stay: Any
    """(positions,): of each position of the tile that stays the document's number, begin and end."""
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
    slope = mods.inverse_scale
    document, begin, end = positions, positions, positions
    if FIXED.PATTERN.NUMBERS:
        document = document_at(mods.documents, positions, kv_len, 0)
    if FIXED.PATTERN.SAME_DOCUMENT:
        begin = document_at(mods.documents, positions, kv_len, 1)
        end = document_at(mods.documents, positions, kv_len, 2)
    if FIXED.PATTERN.ALIBI:
        slope = tl.load(mods.slopes + h) * mods.inverse_scale
    documents = (mods.documents, document, begin, end)
    return HeadMods(*documents, slope, h, b, mods.first_position, mods.cap, mods.inverse_cap)


@triton.jit
def pair_is_seen(offs_m, offs_n, own, kv_len, KEYS_STAY: tl.constexpr, FIXED: tl.constexpr):
    """Whether each query sees each key; the tile that stays has the rows of the result."""
    MASK: tl.constexpr = FIXED.PATTERN.MASK
    q, k = offs_m + own.first_position, offs_n
    streamed = q if KEYS_STAY else k
    document = streamed
    if FIXED.PATTERN.NUMBERS:
        document = document_at(own.documents, streamed, kv_len, 0)
    stays = own.document_of_stay[:, None]
    same = (streamed[None, :] >= own.begin_of_stay[:, None]) & (streamed[None, :] < own.end_of_stay[:, None])
    if KEYS_STAY:
        return evaluate(MASK, q[None, :], k[:, None], document[None, :], stays, same, own.h, own.b)
    else:
        return evaluate(MASK, q[:, None], k[None, :], stays, document[None, :], same, own.h, own.b)


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
