"""Which query tiles a persistent program takes, one after the other. A unit is a query tile of one head."""

from typing import NamedTuple

import torch

from kernels.problem import Band, tiles

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

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
    """The units that programs share, in the order in which they take them. See `work_of`."""

    units: int
    claims: bool
    """Whether a program that is done claims the next unit from a counter; else units go in turn."""
    q_tiles: Divisor
    in_turn: Divisor
    """Heads that take turns."""
    q_heads: Divisor

    def arguments(self) -> dict[str, int]:
        """The numbers by the names of the kernel's arguments."""
        numbers = {"units": self.units, "q_tiles": self.q_tiles.number, "in_turn": self.in_turn.number}
        for name, by in (("q_tiles", self.q_tiles), ("in_turn", self.in_turn), ("q_heads", self.q_heads)):
            numbers |= {f"{name}_multiplier": by.multiplier, f"{name}_shift": by.shift}
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


KEPT_BYTES = 24 << 20
"""Of K and V of the heads that take turns: half of an H200's L2 cache. 40 MB was 1 to 4 % slower."""


def claims_units(units, programs, bounds_right, kv_len):
    """Whether programs claim units: of more than programs, with a right bound or many keys. See `work_of`."""
    return (units > programs) & (bounds_right | (kv_len > 2048))


are_claimed = gluon.jit(claims_units)


def work_of(query: torch.Tensor, key: torch.Tensor, block_m: int, band: Band, programs: int) -> Work:
    """The work of a launch of so many programs.

    With a right bound, later query tiles visit more key tiles. So some heads take turns, each from its last
    query tile down, and a program that is done claims the next one. Pairs of a long and a short tile, given
    out in advance, were 1 to 4 % slower with 16,384 keys (H200), presumably because SMs differ in speed.
    Without a right bound all units are as long; with 512 or 1,024 keys to claim them was up to 3 % slower.
    """
    batch, q_heads, q_len, _ = query.shape
    heads, q_tiles = batch * q_heads, -(-q_len // block_m)
    fit = KEPT_BYTES * heads // (2 * key.numel() * key.element_size()) if band.bounds_right else 1
    in_turn = next(count for count in range(max(1, min(fit, heads)), 0, -1) if heads % count == 0)
    claims = claims_units(heads * q_tiles, programs, band.bounds_right, band.kv_len)
    return Work(heads * q_tiles, claims, divisor(q_tiles), divisor(in_turn), divisor(q_heads))


@gluon.jit
def divide(number, by):
    """number // by.number, without the long sequence of a division."""
    return gl.where(by.multiplier == 0, number, gl.umulhi(number, by.multiplier) >> by.shift)


@gluon.jit
def query_tile_of(unit, work, FIXED: gl.constexpr):
    """(batch, head, query tile) of a unit of work."""
    tiles = divide(unit, work.in_turn)
    turns = divide(tiles, work.q_tiles)
    q_tile = tiles - turns * work.q_tiles.number
    batch_head = unit - (tiles - turns) * work.in_turn.number
    if FIXED.BOUND_RIGHT:  # the longest first
        q_tile = work.q_tiles.number - 1 - q_tile
    batch = divide(batch_head, work.q_heads)
    return batch, batch_head - batch * work.q_heads.number, q_tile


@gluon.jit
def claim_next(unit, turn, beside, work, band, FIXED: gl.constexpr):
    """The unit that the program takes after this one, for the warp that loads. See `next_unit`."""
    following = unit + gl.num_programs(0)
    claims = work.claims
    if FIXED.LANES:  # a program whose lanes are full leaves the rest to the others
        is_full = claims & (turn + gl.cdiv(band.kv_len, FIXED.BLOCK_N) + 1 >= beside.trace.turns)
        following = gl.where(is_full, work.units, following)
        claims = claims & (is_full == False)  # noqa: E712 (a tensor)
    if claims:
        following = gl.num_programs(0) + gl.atomic_add(beside.counter, 1, sem="relaxed")
    return following


@gluon.jit
def tell_unit(rings, items, unit, FIXED: gl.constexpr):
    """Leave a unit for the warpgroups, which take it after `items` others, once its Q is there."""
    LAYOUT: gl.constexpr = gl.BlockedLayout([1], [32], [1], [0])
    rings.units.index(items % (FIXED.Q_STAGES + 1)).store(gl.full([1], unit, gl.int32, LAYOUT))


@gluon.jit
def tell_end(rings, items, unit, FIXED: gl.constexpr):
    """Tell the warpgroups, which wait for another Q, that there is none."""
    GROUPS: gl.constexpr = FIXED.GROUPS
    tell_unit(rings, items, unit, FIXED)
    for group in gl.static_range(GROUPS):
        slot = (items % FIXED.Q_STAGES) * GROUPS + group
        mbarrier.wait(rings.q.empty.index(slot), (items // FIXED.Q_STAGES + 1) & 1)
        mbarrier.arrive(rings.q.full.index(slot))


@gluon.jit
def next_unit(unit, items, rings, work, GROUP: gl.constexpr, FIXED: gl.constexpr):
    """The unit that a warpgroup takes after `items` others; `work.units` or more if none is left."""
    LAYOUT: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    following = unit + gl.num_programs(0)
    if work.claims:
        slot = (items % FIXED.Q_STAGES) * FIXED.GROUPS + GROUP
        mbarrier.wait(rings.q.full.index(slot), (items // FIXED.Q_STAGES) & 1)
        following = gl.max(rings.units.index(items % (FIXED.Q_STAGES + 1)).load(LAYOUT), axis=0)
    return following


@gluon.jit
def take_item(unit, work, band, GROUP: gl.constexpr, FIXED: gl.constexpr):
    """The item of a unit of work for the warpgroup GROUP."""
    BLOCK_M: gl.constexpr = FIXED.BLOCK_M
    BLOCK_N: gl.constexpr = FIXED.BLOCK_N
    batch, head, q_tile = query_tile_of(unit, work, FIXED)
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
    return (item.batch * work.q_heads.number + item.head) * work.q_tiles.number + item.q_tile
