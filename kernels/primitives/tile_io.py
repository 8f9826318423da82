"""Loads and stores of tiles and rows, and the bytes that they request. FIXED is a `fixed.Fixed`."""

from typing import Any, NamedTuple

from kernels.primitives.marks import mark
from kernels.primitives.numbers import from_memory, to_memory

import triton
import triton.language as tl


class TileView(NamedTuple):
    """One head of a (batch, heads, n_rows, head_dim) tensor, cut into tiles of rows."""

    source: Any
    """A descriptor of the tensor, or a pointer to the head."""
    batch: tl.tensor
    head: tl.tensor
    n_rows: tl.tensor
    stride_row: tl.tensor
    stride_d: tl.tensor


class Stream(NamedTuple):
    """Tiles that are streamed past the one that stays. In the lane, if there is one, each sets a mark of the
    turn of its number as soon as it is loaded."""

    view: TileView
    lane: tl.tensor | None
    mark: tl.tensor


@triton.jit
def tile_view(tensor, strides, batch, head, n_rows, FIXED: tl.constexpr):
    """The tiles of one head of `tensor`, which is a descriptor if FIXED.USE_TMA, else a pointer."""
    if FIXED.USE_TMA:
        source = tensor
    else:
        source = tensor + batch.to(tl.int64) * strides[0] + head.to(tl.int64) * strides[1]
    return TileView(source, batch, head, n_rows, strides[2], strides[3])


@triton.jit
def tile_offsets(first_row, n_rows, BLOCK_ROWS: tl.constexpr, FIXED: tl.constexpr):
    """Row and column indices of a tile, and which of them lie inside the matrix."""
    offs_row = first_row + tl.arange(0, BLOCK_ROWS)
    offs_d = tl.arange(0, FIXED.BLOCK_D)
    return offs_row, offs_d, offs_row < n_rows, offs_d < FIXED.HEAD_DIM


@triton.jit
def positions_of(tile, BLOCK_ROWS: tl.constexpr, DTYPE: tl.constexpr, origin=0):
    """Positions, from `origin` on, of the rows of a tile that are columns of a product; int32 or float32.

    A thread has the columns 8 i + 2 (thread % 4) + {0, 1} of a product. Added up as they are, each takes a
    register before a loop and through it. So what differs between threads, bits 1 and 2, joins the tile.
    """
    offs = tl.arange(0, BLOCK_ROWS)
    return (tile * BLOCK_ROWS - origin + (offs & 6)).to(DTYPE) + (offs & ~6).to(DTYPE)


@triton.jit
def load_tile(view, tile, BLOCK_ROWS: tl.constexpr, FIXED: tl.constexpr):
    """(BLOCK_ROWS, BLOCK_D) tile of this number; zero outside the matrix."""
    return load_from(view, tile * BLOCK_ROWS, BLOCK_ROWS, FIXED)


@triton.jit
def load_from(view, first_row, BLOCK_ROWS: tl.constexpr, FIXED: tl.constexpr):
    """`load_tile` of the tile that begins at this row."""
    BLOCK_D: tl.constexpr = FIXED.BLOCK_D
    if FIXED.USE_TMA:
        loaded = view.source.load([view.batch, view.head, first_row, 0])
        loaded = loaded.reshape((BLOCK_ROWS, BLOCK_D))
    else:
        offs_row, offs_d, row_inside, d_inside = tile_offsets(first_row, view.n_rows, BLOCK_ROWS, FIXED)
        offsets = (
            offs_row.to(tl.int64)[:, None] * view.stride_row + offs_d.to(tl.int64)[None, :] * view.stride_d
        )
        loaded = tl.load(view.source + offsets, mask=row_inside[:, None] & d_inside[None, :], other=0.0)
    return from_memory(loaded)


@triton.jit
def load_paged(view, page, strides, tile, BLOCK_ROWS: tl.constexpr, FIXED: tl.constexpr):
    """`load_tile` of a tile that is this page of a pool (pages, heads, BLOCK_ROWS, head_dim), by pointers.

    What lies past the end of the sequence in its last page is not loaded. Without a page (None) the tensor
    is whole.
    """
    if page is None:
        loaded = load_tile(view, tile, BLOCK_ROWS, FIXED)
    else:
        source = view.source + (page - view.batch).to(tl.int64) * strides[0]
        n_rows = view.n_rows - tile * BLOCK_ROWS
        in_page = TileView(source, page, view.head, n_rows, view.stride_row, view.stride_d)
        loaded = load_tile(in_page, 0, BLOCK_ROWS, FIXED)
    return loaded


@triton.jit
def load_streamed(stream, tile, BLOCK_ROWS: tl.constexpr, FIXED: tl.constexpr):
    """`load_tile` of a stream."""
    loaded = load_tile(stream.view, tile, BLOCK_ROWS, FIXED)
    mark(stream.lane, tile, stream.mark)
    return loaded


@triton.jit
def store_tile(view, values, tile, DTYPE: tl.constexpr, FIXED: tl.constexpr):
    """Round a float32 (rows, BLOCK_D) tile to DTYPE and write what lies inside the matrix."""
    BLOCK_ROWS: tl.constexpr = values.shape[0]
    BLOCK_D: tl.constexpr = values.shape[1]
    if FIXED.USE_TMA:
        rounded = to_memory(values, DTYPE).reshape((1, 1, BLOCK_ROWS, BLOCK_D))
        view.source.store([view.batch, view.head, tile * BLOCK_ROWS, 0], rounded)
    else:
        offs_row, offs_d, row_inside, d_inside = tile_offsets(
            tile * BLOCK_ROWS, view.n_rows, BLOCK_ROWS, FIXED
        )
        offsets = (
            offs_row.to(tl.int64)[:, None] * view.stride_row + offs_d.to(tl.int64)[None, :] * view.stride_d
        )
        tl.store(
            view.source + offsets, to_memory(values, DTYPE), mask=row_inside[:, None] & d_inside[None, :]
        )


@triton.jit
def tile_bytes(tile, n_rows, BLOCK_ROWS: tl.constexpr, ITEMSIZE: tl.constexpr, FIXED: tl.constexpr):
    """Bytes that `load_tile` or `store_tile` requests: ITEMSIZE times the elements inside the matrix."""
    _, _, row_inside, d_inside = tile_offsets(tile * BLOCK_ROWS, n_rows, BLOCK_ROWS, FIXED)
    return tl.sum(row_inside.to(tl.int32), axis=0) * tl.sum(d_inside.to(tl.int32), axis=0) * ITEMSIZE


@triton.jit
def row_bytes(tile, n_rows, BLOCK_ROWS: tl.constexpr):
    """Bytes that `load_rows` or `store_rows` requests: one float32 per row that exists."""
    return tl.sum((tile * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS) < n_rows).to(tl.int32), axis=0) * 4


@triton.jit
def load_rows(ptr, offs, n_rows, other):
    """One float32 value per row, `other` past the end."""
    return tl.load(ptr + offs, mask=offs < n_rows, other=other)


@triton.jit
def store_rows(ptr, offs, n_rows, values):
    """Write one value per row that exists."""
    tl.store(ptr + offs, values, mask=offs < n_rows)
