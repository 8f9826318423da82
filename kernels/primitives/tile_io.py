"""Loads and stores of tiles and rows, and the bytes that they request."""

from __future__ import annotations

from kernels.primitives.numbers import from_memory, to_memory

import triton
import triton.language as tl


@triton.jit
def tile_view(tensor, strides, batch, head, n_rows, USE_TMA: tl.constexpr):
    """One head of a (batch, heads, n_rows, head_dim) tensor as `load_tile` and `store_tile` take it.

    `tensor` is a descriptor if the layout allows one (see launch.can_use_tma), else a pointer.
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
        offsets = offs_row.to(tl.int64)[:, None] * stride_row + offs_d.to(tl.int64)[None, :] * stride_d
        tile = tl.load(source + offsets, mask=row_inside[:, None] & d_inside[None, :], other=0.0)
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
        offsets = offs_row.to(tl.int64)[:, None] * stride_row + offs_d.to(tl.int64)[None, :] * stride_d
        tl.store(target + offsets, to_memory(tile, DTYPE), mask=row_inside[:, None] & d_inside[None, :])


@triton.jit
def tile_bytes(
    first_row,
    n_rows,
    HEAD_DIM: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ITEMSIZE: tl.constexpr,
):
    """Bytes that `load_tile` or `store_tile` requests: ITEMSIZE times the elements inside the matrix."""
    _, _, row_inside, d_inside = tile_offsets(first_row, n_rows, HEAD_DIM, BLOCK_ROWS, BLOCK_D)
    return tl.sum(row_inside.to(tl.int32), axis=0) * tl.sum(d_inside.to(tl.int32), axis=0) * ITEMSIZE


@triton.jit
def row_bytes(first_row, n_rows, BLOCK_ROWS: tl.constexpr):
    """Bytes that `load_rows` or `store_rows` requests: one float32 per row that exists."""
    return tile_bytes(first_row, n_rows, 1, BLOCK_ROWS, 1, 4)


@triton.jit
def load_rows(ptr, offs, n_rows, other):
    """One float32 value per row, `other` past the end."""
    return tl.load(ptr + offs, mask=offs < n_rows, other=other)


@triton.jit
def store_rows(ptr, offs, n_rows, values):
    """Write one value per row that exists."""
    tl.store(ptr + offs, values, mask=offs < n_rows)
