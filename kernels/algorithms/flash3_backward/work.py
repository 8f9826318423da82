"""Which key tile a program takes, and the query tiles that visit it."""

from typing import NamedTuple

from kernels.problem import tiles

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

last_tiles_first = gluon.jit(tiles.last_tiles_first)
first_visiting_tile = gluon.jit(tiles.first_visiting_tile)
end_visiting_tile = gluon.jit(tiles.end_visiting_tile)
first_full_visiting_tile = gluon.jit(tiles.first_full_visiting_tile)
end_full_visiting_tile = gluon.jit(tiles.end_full_visiting_tile)

SIZES = (
    *("q_heads", "kv_heads", "group_size", "heads_in_turn", "padded_rows"),
    *("q_len", "kv_len", "left", "right"),
)
"""Arguments that are sizes: none is compiled in, so that one compiled kernel serves every shape."""


class Heads(NamedTuple):
    """Heads and rows of the problem."""

    q_heads: int
    kv_heads: int
    group_size: int
    in_turn: int
    """Key heads that take turns in the launch order."""
    padded_rows: int
    """Rows per head of lse, of D and of the sum of dQ: whole query tiles."""


class Item(NamedTuple):
    """A key tile of one head, and the query tiles of each query head that visit it."""

    batch: gl.tensor
    kv_head: gl.tensor
    kv_tile: gl.tensor
    first: gl.tensor
    end: gl.tensor
    """Query tiles [first, end) visit; none may."""
    first_full: gl.tensor
    end_full: gl.tensor
    """Query tiles [first_full, end_full) need no mask."""
    group_size: gl.tensor
    q_heads: gl.tensor
    padded_rows: gl.tensor


@gluon.jit
def take_item(heads, band, FIXED: gl.constexpr):
    """The item of this program: in a head, from the first key tile up, the longest first under causality."""
    BLOCK_M: gl.constexpr = FIXED.BLOCK_M
    BLOCK_N: gl.constexpr = FIXED.BLOCK_N
    kv_tiles = gl.cdiv(band.kv_len, BLOCK_N)
    all_heads = gl.num_programs(0) // kv_tiles
    batch_head, from_end = last_tiles_first(gl.program_id(0), heads.in_turn, kv_tiles, all_heads)
    kv_tile = kv_tiles - 1 - from_end
    batch = batch_head // heads.kv_heads
    end = end_visiting_tile(kv_tile, band, BLOCK_M, BLOCK_N)
    first = gl.minimum(first_visiting_tile(kv_tile, band, BLOCK_M, BLOCK_N), end)
    first_full = first_full_visiting_tile(kv_tile, band, BLOCK_M, BLOCK_N)
    end_full = end_full_visiting_tile(kv_tile, band, BLOCK_M, BLOCK_N)
    if FIXED.RAGGED:
        end_full = gl.where(kv_tile == kv_tiles - 1, 0, end_full)
    first_full = gl.minimum(gl.maximum(first_full, first), end)
    end_full = gl.minimum(gl.maximum(end_full, first_full), end)
    return Item(
        batch,
        batch_head - batch * heads.kv_heads,
        kv_tile,
        first,
        end,
        first_full,
        end_full,
        heads.group_size,
        heads.q_heads,
        heads.padded_rows,
    )


WHOLE = gl.constexpr(1)
"""The span of the query tiles of which every row sees every key."""


@gluon.jit
def tiles_of_span(item, SPAN: gl.constexpr):
    """Query tiles [begin, end) of a span of an item: those cut by the right bound, the whole ones, the rest.

    The rest is cut by the left bound or by the end of the keys.
    """
    if SPAN < WHOLE:
        return item.first, item.first_full
    elif SPAN == WHOLE:
        return item.first_full, item.end_full
    else:
        return item.end_full, item.end
