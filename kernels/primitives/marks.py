"""What a kernel writes down if it is given buffers for lanes: marks, by the SM's cycle counter.

A lane has a record per turn of its loop, with a place for each mark of its role (see trace/lanes.py). A mark
is the low 32 bits of the cycle counter and costs a few instructions. By how much marks change the time of the
kernel is measured with the lanes.

ptxas moves no wait for a product across a mark. Without marks it may move the wait before work that could run
beside the product. So a kernel waits where ptxas puts the wait. If it did not, lanes would show an overlap
that is only there with marks (tests/kernels/algorithms/test_compile.py compares both).
"""

from typing import NamedTuple

import torch

from kernels.device.runtime import DEVICE
from kernels.trace.lanes import LaneRole

import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer, smid

RECORD = tl.constexpr(16)
"""int32 numbers of a record."""
Q_TILE = tl.constexpr(14)
"""Place in a record of the query tile, numbered through all heads, plus 1; 0 if the turn has none."""
KV_TILE = tl.constexpr(15)
"""Place in a record of the key tile plus 1; 0 if the turn has none."""
CLOCK_COLUMNS = tl.constexpr(5)


class LaneBuffers(NamedTuple):
    """Device buffers of a launch with LANES."""

    marks: torch.Tensor
    """int32 (programs, lanes, turns, RECORD); 0 if a mark was not set."""
    clock: torch.Tensor
    """int64 (programs, CLOCK_COLUMNS): the global timer in ns and the cycle counter at the program's start,
    the same at its end, and the SM."""
    lanes: int
    turns: int


def make_lane_buffers(programs: int, lanes: int, turns: int) -> LaneBuffers:
    marks = torch.zeros((programs, lanes, turns, RECORD.value), dtype=torch.int32, device=DEVICE)
    clock = torch.zeros((programs, CLOCK_COLUMNS.value), dtype=torch.int64, device=DEVICE)
    return LaneBuffers(marks, clock, lanes, turns)


def mark_numbers(role: LaneRole, *names: str) -> tuple[tl.constexpr, ...]:
    """Places in a record of these marks of a role."""
    return tuple(tl.constexpr(role.number(name)) for name in names)


@triton.jit
def program_number():
    """This program's number in its launch, whose grid has one or two axes."""
    return tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)


@triton.jit
def lane_of(buffers, lane):
    """Address of the first record of a lane of this program."""
    number = program_number() * buffers.lanes + lane
    return buffers.marks + number.to(tl.int64) * (buffers.turns * RECORD)


@triton.jit
def mark(lane, turn, NUMBER: tl.constexpr):
    """Set a mark of a turn: all threads of the lane write down the cycle counter. No lane, no code.

    The address is computed in the assembly: outside, the compiler would keep one per mark in registers.
    """
    if lane is not None:
        tl.inline_asm_elementwise(
            """{
            .reg .u32 place;
            .reg .u64 address;
            mov.u32 $0, %clock;
            mad.lo.u32 place, $2, $4, $3;
            mad.wide.u32 address, place, 4, $1;
            st.global.u32 [address], $0;
            }""",
            "=r,l,r,r,r",
            [lane, turn, NUMBER, RECORD],
            dtype=tl.int32,
            is_pure=False,
            pack=1,
        )


@triton.jit
def mark_tile(lane, turn, q_tile, kv_tile):
    """Write down which tile a turn is about."""
    if lane is not None:
        tl.store(lane + turn * RECORD + Q_TILE, q_tile + 1)
        tl.store(lane + turn * RECORD + KV_TILE, kv_tile + 1)


@triton.jit
def mark_program(buffers, AT_END: tl.constexpr):
    """Write down both clocks at the start or at the end of a program, and the SM. No buffers, no code."""
    if buffers is not None:
        row = buffers.clock + program_number() * CLOCK_COLUMNS
        cycles = tl.inline_asm_elementwise(
            "mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
        )
        tl.store(row + 2 * AT_END, globaltimer())
        tl.store(row + 2 * AT_END + 1, cycles)
        tl.store(row + 4, smid().to(tl.int64))
