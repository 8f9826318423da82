"""Which tiles a kernel visits: the functions of `kernels.problem.tiles`, callable from kernels."""

from collections.abc import Callable
from typing import Any

from kernels.device import runtime
from kernels.problem import tiles

import triton
import triton.language as tl


def pure(function: Callable[..., Any]) -> Callable[..., Any]:
    """A plain integer function for use in kernels: compiled for a GPU, unchanged for the interpreter."""
    return function if runtime.INTERPRETED else triton.jit(function)


first_visited_tile = pure(tiles.first_visited_tile)
end_visited_tile = pure(tiles.end_visited_tile)
first_full_tile = pure(tiles.first_full_tile)
end_full_tile = pure(tiles.end_full_tile)
first_visiting_tile = pure(tiles.first_visiting_tile)
end_visiting_tile = pure(tiles.end_visiting_tile)
first_full_visiting_tile = pure(tiles.first_full_visiting_tile)
end_full_visiting_tile = pure(tiles.end_full_visiting_tile)
last_tiles_first = pure(tiles.last_tiles_first)


@triton.jit
def visited_by_query_tile(q_tile, band, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """(first, first_full, end_full, end) of the key tiles of a query tile, as in tiles.VisitedTiles."""
    first = first_visited_tile(q_tile, band, BLOCK_M, BLOCK_N)
    end = end_visited_tile(q_tile, band, BLOCK_M, BLOCK_N)
    first_full = first_full_tile(q_tile, band, BLOCK_M, BLOCK_N)
    end_full = max(end_full_tile(q_tile, band, BLOCK_M, BLOCK_N), first_full)
    return first, first_full, end_full, end


@triton.jit
def visiting_key_tile(kv_tile, band, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """(first, first_full, end_full, end) of the query tiles that visit a key tile."""
    first = first_visiting_tile(kv_tile, band, BLOCK_M, BLOCK_N)
    end = end_visiting_tile(kv_tile, band, BLOCK_M, BLOCK_N)
    first_full = first_full_visiting_tile(kv_tile, band, BLOCK_M, BLOCK_N)
    end_full = max(end_full_visiting_tile(kv_tile, band, BLOCK_M, BLOCK_N), first_full)
    return first, first_full, end_full, end


@triton.jit
def part_of_tiles(first, first_full, end_full, end, PART: tl.constexpr):
    """[from, to) of a part: 0 the tiles before the whole ones, 1 the whole ones, 2 those after them."""
    if PART == 0:
        from_tile, to_tile = first, first_full
    elif PART == 1:
        from_tile, to_tile = first_full, end_full
    else:
        from_tile, to_tile = end_full, end
    return from_tile, to_tile
