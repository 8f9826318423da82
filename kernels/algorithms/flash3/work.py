"""Which query tiles a persistent program takes, one after the other."""

from typing import NamedTuple

from kernels.problem import tiles

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

first_visited_tile = gluon.jit(tiles.first_visited_tile)
end_visited_tile = gluon.jit(tiles.end_visited_tile)
first_full_tile = gluon.jit(tiles.first_full_tile)
end_full_tile = gluon.jit(tiles.end_full_tile)


class Divisor(NamedTuple):
    """A number to divide by. The quotient is the high word of a product, shifted right. See `divisor`."""

    number: int
    multiplier: int
    shift: int


class Work(NamedTuple):
    """The work that programs share: each takes the units `program + turn * programs`. See `work_units`."""

    pairs: int
    """Units with a smaller number are two query tiles of one head each."""
    units: int
    q_tiles: int
    per_head: Divisor
    """Units per head, without the middle tile of an odd number of tiles."""
    q_heads: Divisor

    def arguments(self) -> dict[str, int]:
        """The numbers by the names of the kernel's arguments."""
        numbers = {"pairs": self.pairs, "units": self.units, "q_tiles": self.q_tiles}
        for name, by in (("per_head", self.per_head), ("q_heads", self.q_heads)):
            numbers |= {name: by.number, f"{name}_multiplier": by.multiplier, f"{name}_shift": by.shift}
        return numbers


class Item(NamedTuple):
    """A query tile of one head, as one warpgroup sees it, and the key tiles that it visits."""

    batch: gl.tensor
    head: gl.tensor
    q_tile: gl.tensor
    first_q: gl.tensor
    """First query row of the warpgroup."""
    first: gl.tensor
    end: gl.tensor
    """Key tiles [first, end) are visited; at least one, which is wholly masked if the rows see no key."""
    own_end: gl.tensor
    """Key tiles [own_end, end) are hidden from the rows of this warpgroup. None are, up to head_dim 128."""
    first_full: gl.tensor
    end_full: gl.tensor
    """Key tiles [first_full, end_full) need no mask."""


def divisor(number: int) -> Divisor:
    """The divisor for `number` (1 to 2^31), for dividends from 0 to 2^31 - 1.

    Granlund and Montgomery 1994. The multiplier is rounded up. It is given as a signed 32-bit number, because
    Triton would make a larger one a 64-bit number.
    """
    if number == 1:
        return Divisor(number, 0, 0)
    shift = (number - 1).bit_length() - 1
    multiplier = -(-(1 << 32 + shift) // number)
    return Divisor(number, multiplier if multiplier < 1 << 31 else multiplier - (1 << 32), shift)


def work_units(batch: int, q_heads: int, q_tiles: int, bounds_right: bool) -> Work:
    """The units of work of a launch.

    With a right bound, later query tiles visit more key tiles. Then a unit is a pair of query tiles of one
    head, the first with the last and so on, so that all units are the same work. After the `pairs` come the
    middle tiles, if the number of tiles is odd. Without a right bound a unit is one query tile.

    Single tiles, each to the program with least work so far, the longest of two to four heads first, would
    lose 0.2 % of the SMs' time by count, and not 3 to 5 %. Read from a table (H200) that was 1 to 3 % faster
    with 16,384 keys, and 1 to 6 % slower with 4,096; of all heads at once up to 12 % slower, presumably
    because their K and V do not fit the L2 cache.
    """
    heads = batch * q_heads
    in_pairs = bounds_right and q_tiles > 1
    per_head = q_tiles // 2 if in_pairs else q_tiles
    pairs = heads * per_head if in_pairs else 0
    units = pairs + heads * (q_tiles % 2) if in_pairs else heads * q_tiles
    return Work(pairs, units, q_tiles, divisor(per_head), divisor(q_heads))


@gluon.jit
def divide(number, by):
    """number // by.number, without the long sequence of a division."""
    return gl.where(by.multiplier == 0, number, gl.umulhi(number, by.multiplier) >> by.shift)


@gluon.jit
def query_tile_of(unit, second, work):
    """(batch, head, query tile) of a unit of work, or of its second half."""
    in_turn = (unit < work.pairs) | (work.pairs == 0)
    turn = divide(unit, work.per_head)
    position = unit - turn * work.per_head.number
    batch_head = gl.where(in_turn, turn, unit - work.pairs)
    of_pair = gl.where(second, position, work.q_tiles - 1 - position)
    q_tile = gl.where(in_turn, of_pair, work.q_tiles // 2)
    batch = divide(batch_head, work.q_heads)
    return batch, batch_head - batch * work.q_heads.number, q_tile


@gluon.jit
def next_unit(unit, second, work):
    """The unit, and whether its second half, that this program takes after this one."""
    stays = (unit < work.pairs) & (second == False)  # noqa: E712 (a tensor)
    return gl.where(stays, unit, unit + gl.num_programs(0)), stays


@gluon.jit
def take_item(unit, second, work, band, GROUP: gl.constexpr, FIXED: gl.constexpr):
    """The item of a unit of work, or of its second half, for the warpgroup GROUP."""
    BLOCK_M: gl.constexpr = FIXED.BLOCK_M
    BLOCK_N: gl.constexpr = FIXED.BLOCK_N
    batch, head, q_tile = query_tile_of(unit, second, work)
    first = gl.minimum(first_visited_tile(q_tile, band, BLOCK_M, BLOCK_N), gl.cdiv(band.kv_len, BLOCK_N) - 1)
    end = gl.maximum(end_visited_tile(q_tile, band, BLOCK_M, BLOCK_N), first + 1)
    own_end = end
    if FIXED.WIDE and FIXED.BOUND_RIGHT:
        own_end = end_visited_tile(q_tile * FIXED.GROUPS + GROUP, band, FIXED.ROWS, BLOCK_N)
        own_end = gl.minimum(gl.maximum(own_end, first + 1), end)
    return Item(
        batch,
        head,
        q_tile,
        q_tile * BLOCK_M + GROUP * FIXED.ROWS,
        first,
        end,
        own_end,
        first_full_tile(q_tile, band, BLOCK_M, BLOCK_N),
        end_full_tile(q_tile, band, BLOCK_M, BLOCK_N),
    )


@gluon.jit
def of_item(item, work):
    """The number of an item's query tile through all heads."""
    return (item.batch * work.q_heads.number + item.head) * work.q_tiles + item.q_tile
