"""Triton primitives that every kernel shares: tile loads and stores, number formats, the mask, the online softmax.

Scores are kept in base-2 units inside the kernels (`scale * log2(e)` is folded into one factor), because the GPU has
an exp2 instruction and no exp. Traces and lse are written in natural units.
"""

from __future__ import annotations

from kernels.device.backend import choose_backend
from kernels.device.interpreter import patch_once_per_launch

BACKEND = choose_backend()

import triton  # noqa: E402  (Triton reads TRITON_INTERPRET, which choose_backend sets, when it is imported)
import triton.language as tl  # noqa: E402

INTERPRETED = tl.constexpr(BACKEND == "interpreter")
if INTERPRETED.value:
    patch_once_per_launch()
LN2 = tl.constexpr(0.6931471805599453)
LOG2E = tl.constexpr(1.4426950408889634)


def pure(function):
    """Make a plain integer function callable from a kernel: compiled on a GPU, called as it is by the interpreter."""
    return function if INTERPRETED.value else triton.jit(function)


@triton.jit
def tile_view(tensor, strides, batch, head, n_rows, USE_TMA: tl.constexpr):
    """One head of a (batch, heads, n_rows, head_dim) tensor as `load_tile` and `store_tile` take it.

    `tensor` is a descriptor where the layout allows one (see launch.can_use_tma), else a pointer.
    """
    if USE_TMA:
        source = tensor
    else:
        source = tensor + batch.to(tl.int64) * strides[0] + head.to(tl.int64) * strides[1]
    return source, batch, head, n_rows, strides[2], strides[3]


@triton.jit
def tile_offsets(first_row, n_rows, HEAD_DIM: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_D: tl.constexpr):
    """Row and column indices of a tile, and which of them lie inside the matrix."""
    offs_row = first_row + tl.arange(0, BLOCK_ROWS)
    offs_d = tl.arange(0, BLOCK_D)
    return offs_row, offs_d, offs_row < n_rows, offs_d < HEAD_DIM


@triton.jit
def load_tile(
    view,
    first_row,
    HEAD_DIM: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_D: tl.constexpr,
    USE_TMA: tl.constexpr,
):
    """(BLOCK_ROWS, BLOCK_D) tile from row `first_row` on; zero outside the matrix."""
    source, batch, head, n_rows, stride_row, stride_d = view
    if USE_TMA:
        tile = source.load([batch, head, first_row, 0]).reshape((BLOCK_ROWS, BLOCK_D))
    else:
        offs_row, offs_d, row_inside, d_inside = tile_offsets(
            first_row, n_rows, HEAD_DIM, BLOCK_ROWS, BLOCK_D
        )
        addresses = (
            source + offs_row.to(tl.int64)[:, None] * stride_row + offs_d.to(tl.int64)[None, :] * stride_d
        )
        tile = tl.load(addresses, mask=row_inside[:, None] & d_inside[None, :], other=0.0)
    return from_memory(tile)


@triton.jit
def store_tile(
    view,
    tile,
    first_row,
    HEAD_DIM: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_D: tl.constexpr,
    DTYPE: tl.constexpr,
    USE_TMA: tl.constexpr,
):
    """Round a float32 (BLOCK_ROWS, BLOCK_D) tile to DTYPE and write what lies inside the matrix."""
    target, batch, head, n_rows, stride_row, stride_d = view
    if USE_TMA:
        target.store([batch, head, first_row, 0], to_memory(tile, DTYPE).reshape((1, 1, BLOCK_ROWS, BLOCK_D)))
    else:
        offs_row, offs_d, row_inside, d_inside = tile_offsets(
            first_row, n_rows, HEAD_DIM, BLOCK_ROWS, BLOCK_D
        )
        addresses = (
            target + offs_row.to(tl.int64)[:, None] * stride_row + offs_d.to(tl.int64)[None, :] * stride_d
        )
        tl.store(addresses, to_memory(tile, DTYPE), mask=row_inside[:, None] & d_inside[None, :])


@triton.jit
def tile_bytes(
    first_row,
    n_rows,
    HEAD_DIM: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ITEMSIZE: tl.constexpr,
):
    """Bytes that `load_tile` or `store_tile` asks for: the elements that their masks leave, times ITEMSIZE."""
    _, _, row_inside, d_inside = tile_offsets(first_row, n_rows, HEAD_DIM, BLOCK_ROWS, BLOCK_D)
    return tl.sum(row_inside.to(tl.int32), axis=0) * tl.sum(d_inside.to(tl.int32), axis=0) * ITEMSIZE


@triton.jit
def load_rows(ptr, offs, n_rows, other):
    """One float32 value a row, `other` past the end."""
    return tl.load(ptr + offs, mask=offs < n_rows, other=other)


@triton.jit
def store_rows(ptr, offs, n_rows, values):
    """Write one value a row that exists."""
    tl.store(ptr + offs, values, mask=offs < n_rows)


@triton.jit
def from_memory(tile):
    """The tile as the dot products take it. The interpreter has no bfloat16 arithmetic, so it widens it to float32."""
    if INTERPRETED and tile.dtype == tl.bfloat16:
        tile = tile.to(tl.float32)
    return tile


@triton.jit
def to_memory(tile, DTYPE: tl.constexpr):
    """Round float32 to DTYPE, to nearest even. The interpreter's own conversion to bfloat16 truncates on some versions."""
    if INTERPRETED and DTYPE == tl.bfloat16:
        bits = tile.to(tl.uint32, bitcast=True)
        bits = bits + 0x7FFF + ((bits >> 16) & 1)
        tile = (bits >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    else:
        tile = tile.to(DTYPE)
    return tile


@triton.jit
def to_operand(tile, DTYPE: tl.constexpr):
    """Round a float32 tile to DTYPE, ready to be an operand of a dot product."""
    return from_memory(to_memory(tile, DTYPE))


@triton.jit
def matmul(a, b, acc, PRECISION: tl.constexpr):
    """acc + a @ b in float32. Tiles under 16 wide are below the tensor cores' least size: multiply and add those."""
    if a.shape[0] < 16 or b.shape[0] < 16 or b.shape[1] < 16:
        # Summed over the last axis: over a middle axis of 4, Triton 3.6 gave wrong sums on an H200.
        acc += tl.sum(a.to(tl.float32)[:, None, :] * tl.trans(b).to(tl.float32)[None, :, :], axis=2)
    else:
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    return acc


@triton.jit
def mask_scores(
    scores,
    offs_m,
    first_k,
    q_len,
    kv_len,
    left,
    right,
    BOUND_LEFT: tl.constexpr,
    BOUND_RIGHT: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Set the scores (rows, BLOCK_N) of keys that do not exist, or that query `offs_m` does not see, to -inf."""
    offs_n = first_k + tl.arange(0, BLOCK_N)
    diagonal = offs_m + (kv_len - q_len)
    visible = (offs_n < kv_len)[None, :]
    if BOUND_RIGHT:
        visible = visible & (offs_n[None, :] <= diagonal[:, None] + right)
    if BOUND_LEFT:
        visible = visible & (offs_n[None, :] >= diagonal[:, None] - left)
    return tl.where(visible, scores, float("-inf"))


@triton.jit
def new_row_max(m, scores, scale_log2):
    """Row max `m` after this tile, in scaled base-2 units; scale_log2 >= 0 lets the scale follow the maximum."""
    return tl.maximum(m, tl.max(scores, axis=1) * scale_log2)


@triton.jit
def finite_or_zero(m):
    """The row max as a shift: a row that has seen no key has m = -inf, and -inf - -inf would be NaN."""
    return tl.where(m == float("-inf"), 0.0, m)


@triton.jit
def load_lse(
    lse_ptr, offs_m, q_len, kv_len, left, right, BOUND_LEFT: tl.constexpr, BOUND_RIGHT: tl.constexpr
):
    """lse of the rows in base 2; +inf for rows without a key and past the end, so that their P is 0."""
    lse = load_rows(lse_ptr, offs_m, q_len, float("inf")) * LOG2E
    if BOUND_LEFT or BOUND_RIGHT:
        diagonal = offs_m + (kv_len - q_len)
        lse = tl.where((diagonal + right >= 0) & (diagonal - left < kv_len), lse, float("inf"))
    return lse


@triton.jit
def mask_transposed(
    tile_t, offs_m, offs_n, q_len, kv_len, left, right, BOUND_LEFT: tl.constexpr, BOUND_RIGHT: tl.constexpr
):
    """Zero a (keys, queries) tile where the query does not see the key. Keys past the end are zero rows of K and need no mask."""
    diagonal = offs_m + (kv_len - q_len)
    visible = (offs_n >= 0)[:, None]
    if BOUND_RIGHT:
        visible = visible & (offs_n[:, None] <= diagonal[None, :] + right)
    if BOUND_LEFT:
        visible = visible & (offs_n[:, None] >= diagonal[None, :] - left)
    return tl.where(visible, tile_t, 0.0)
