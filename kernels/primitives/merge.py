"""Merges partial results of the same rows, each by its share of the sum of exponentials."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernels.device.runtime import running_on
from kernels.primitives.numbers import to_memory
from kernels.primitives.online_softmax import finite_or_zero, share_of
from kernels.primitives.replay import launch, repeat

import triton
import triton.language as tl

ROWS = 64
MOST_PARTS = 5
"""Parts that are kept before they are merged: one merge of many moves fewer bytes than many of two."""


class Part(NamedTuple):
    """A partial result, contiguous, of the rows from `first` on; lse is -inf if a row sees no key."""

    first: int
    out: Tensor
    lse: Tensor


@triton.jit
def _merge(
    out_ptr,
    lse_ptr,
    outs,
    lses,
    firsts,
    counts,
    n_rows,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ACC: tl.constexpr,
):
    """One tile of rows of one head: program (row tile, batch and head)."""
    head = tl.program_id(1).to(tl.int64)
    rows, offs_d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)
    largest = tl.full((BLOCK_M,), float("-inf"), ACC)
    for part in tl.static_range(len(outs)):
        largest = tl.maximum(largest, _lse(lses[part], rows - firsts[part], counts[part], head, ACC))
    shift, total = finite_or_zero(largest), tl.zeros((BLOCK_M,), ACC)
    for part in tl.static_range(len(outs)):
        total += tl.exp(_lse(lses[part], rows - firsts[part], counts[part], head, ACC) - shift)
    whole = largest + tl.log(total)
    acc, unweighted = tl.zeros((BLOCK_M, BLOCK_D), ACC), tl.zeros((BLOCK_M, BLOCK_D), ACC)
    for part in tl.static_range(len(outs)):
        own = rows - firsts[part]
        inside = ((own >= 0) & (own < counts[part]))[:, None] & (offs_d < HEAD_DIM)[None, :]
        at = (head * counts[part] + own)[:, None] * HEAD_DIM + offs_d[None, :]
        o = tl.load(outs[part] + at, mask=inside, other=0.0).to(ACC)
        lse = _lse(lses[part], own, counts[part], head, ACC)
        acc += tl.where((lse == float("-inf"))[:, None], 0.0, share_of(lse, whole)[:, None] * o)
        unweighted += o
    # Without a score above -inf O is 0 if the row sees no key, and NaN if it sees some, as in each part.
    acc = tl.where((whole == float("-inf"))[:, None], unweighted, acc)
    at = (head * n_rows + rows)[:, None] * HEAD_DIM + offs_d[None, :]
    inside = (rows < n_rows)[:, None] & (offs_d < HEAD_DIM)[None, :]
    tl.store(out_ptr + at, to_memory(acc, out_ptr.dtype.element_ty), mask=inside)
    tl.store(lse_ptr + head * n_rows + rows, whole, mask=rows < n_rows)


@triton.jit
def _lse(lse_ptr, own, count, head, ACC: tl.constexpr):
    """Of rows by their places in a part; -inf of those that it does not have."""
    known = (own >= 0) & (own < count)
    return tl.load(lse_ptr + head * count + own, mask=known, other=float("-inf")).to(ACC)


def state_dtype(dtype: torch.dtype) -> torch.dtype:
    """In which sums are kept so that their roundings do not add up to those of the inputs."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else torch.float64


def merged(parts: Sequence[Part], rows: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """O (batch, heads, rows, head_dim) in `dtype`, and lse: float32, or float64 with it."""
    if len(parts) == 1 and parts[0].out.dtype == dtype and parts[0].out.shape[2] == rows:
        return parts[0].out, parts[0].lse
    tensors = [tensor for part in parts for tensor in part[1:]]
    out, lse = repeat(_launch, tensors, (rows, dtype, tuple(part.first for part in parts)))
    return out, lse


def _launch(*given: Any) -> tuple[Tensor, Tensor]:
    *tensors, rows, dtype, firsts = given
    outs, lses = tuple(tensors[::2]), tuple(tensors[1::2])
    batch, heads, _, head_dim = outs[0].shape
    out = outs[0].new_empty((batch, heads, rows, head_dim), dtype=dtype)
    of_lse = torch.float64 if dtype == torch.float64 else torch.float32
    lse = lses[0].new_empty((batch, heads, rows), dtype=of_lse)
    with running_on(out):
        launch(
            _merge,
            (triton.cdiv(rows, ROWS), batch * heads),
            out,
            lse,
            outs,
            lses,
            firsts,
            tuple(part.shape[2] for part in outs),
            rows,
            HEAD_DIM=head_dim,
            BLOCK_M=ROWS,
            BLOCK_D=triton.next_power_of_2(head_dim),
            ACC=tl.float64 if state_dtype(dtype) == torch.float64 else tl.float32,
        )
    return out, lse
