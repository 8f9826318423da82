"""What a kernel writes down under its constexpr TRACE: the buffers, and the Triton primitives that fill them.

A program owns `max_steps` consecutive slots and fills one slot per tile step, so the buffers keep the order
of its steps. Slots that stay at batch_head = -1 were not used.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from kernels.device.runtime import DEVICE
from kernels.primitives.marks import mark
from kernels.primitives.numbers import INTERPRETED, LN2
from kernels.primitives.tile_io import tile_bytes
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.trace.algorithm import BLOCK_TABLE, Kernel
from kernels.trace.trace import ACC_LIMIT_BYTES, MATRICES_LIMIT_BYTES, READABLE_BLOCK, READABLE_HEAD_DIM

import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer, smid

REQUEST_COLUMNS = tl.constexpr(16)
ROW_COLUMNS = tl.constexpr(3)
BUFFER_LIMIT_BYTES = 1 << 30
"""A trace whose row buffers would be larger is refused."""


class TraceBuffers(NamedTuple):
    """Device buffers of one traced launch. `slots` is programs x max_steps."""

    where: torch.Tensor
    """int32 (slots, 3): batch_head, q_tile, kv_tile; -1 if the step has no such tile."""
    rows: torch.Tensor
    """float32 (slots, ROW_COLUMNS, rows)"""
    requested: torch.Tensor
    """int32 (slots, REQUEST_COLUMNS): bytes asked for."""
    clock: torch.Tensor
    """int64 (slots, 3): start and end on the GPU's global timer in ns, and the SM; -1 in the interpreter."""
    acc: torch.Tensor | None
    """float32 (slots, rows, BLOCK_D): the first accumulator after the step; None if it is not recorded."""
    acc_2: torch.Tensor | None
    acc_3: torch.Tensor | None
    """The same of its second and its third one."""
    matrices: tuple[torch.Tensor, ...] | None
    """float32 (slots, rows, columns) each: what the program has in hand in the phases of a step, in the order
    of the kernel's figure. None if the tiles are too large to be read number by number. If `row` is given,
    (slots, 1, columns) each, of which those that are not cut along the query tile mean nothing."""
    page: torch.Tensor | None
    """int32 (slots,): the page that the block table gave; None for a kernel without one."""
    row: int | None
    """Offset in each query tile of the only row whose numbers are recorded; None for all rows."""


@dataclass(frozen=True)
class Recorder:
    """One traced launch: the kernel's entry, which says what the columns mean, and the buffers."""

    kernel: Kernel
    problem: AttentionProblem
    rows: int
    """Rows of all query tiles: the queries, or those of several heads packed together."""
    block_m: int
    """Rows of a query tile; the problem's, unless the kernel has its own."""
    max_steps: int
    buffers: TraceBuffers

    def rows_exist(self, steps: dict[str, np.ndarray], tile: str = "q_tile") -> np.ndarray:
        """bool (steps, block): which rows of each step's query tile, or key tile, lie inside the matrix."""
        block, total = self.block_m, self.rows
        if tile == "kv_tile":
            block, total = self.problem.block_n, self.problem.kv_len
        return np.maximum(steps[tile], 0)[:, None] * block + np.arange(block) < total


def make_recorder(
    kernel: Kernel,
    problem: AttentionProblem,
    *,
    rows: int | None = None,
    grid: tuple[int, int] | None = None,
    block_m: int | None = None,
    row: int | None = None,
) -> Recorder:
    """Buffers on the device. Float buffers start as NaN, so that values that no program wrote are noticed.

    `rows` (the queries, if it is None) are the rows of all query tiles. `grid` are the programs and the most
    steps of each: if it is None, there is a program per tile that stays, and a step per tile that visits it.
    Accumulators are recorded if they need at most ACC_LIMIT_BYTES. With a `row`, an offset in the query
    tiles, the numbers of this row are recorded, however large the tiles are. Raises InvalidProblem for a run
    with too many steps to trace.
    """
    block_m, (programs, max_steps) = block_m or problem.block_m, grid or _grid_of(kernel, problem)
    slots, block_d = programs * max_steps, triton.next_power_of_2(problem.head_dim)
    refuse_long_traces(problem, slots, slots * block_m * ROW_COLUMNS.value * 4)
    blocks = [block_m if each.tile == "q_tile" else problem.block_n for each in kernel.sums]
    keeps_acc = slots * sum(blocks) * block_d * 4 <= ACC_LIMIT_BYTES

    def full(shape: tuple[int, ...], value: float, dtype: torch.dtype) -> torch.Tensor:
        return torch.full(shape, value, dtype=dtype, device=DEVICE)

    accs = [
        full((slots, block, block_d), float("nan"), torch.float32) if keeps_acc else None for block in blocks
    ]
    accs += [None] * (3 - len(accs))
    buffers = TraceBuffers(
        where=full((slots, 3), -1, torch.int32),
        rows=full((slots, ROW_COLUMNS.value, block_m), float("nan"), torch.float32),
        requested=full((slots, REQUEST_COLUMNS.value), 0, torch.int32),
        clock=full((slots, 3), -1, torch.int64),
        acc=accs[0],
        acc_2=accs[1],
        acc_3=accs[2],
        matrices=matrix_buffers(kernel, problem, slots, block_m, row),
        page=full((slots,), -1, torch.int32) if (BLOCK_TABLE, "read") in kernel.requests else None,
        row=row,
    )
    return Recorder(kernel, problem, rows or problem.q_len, block_m, max_steps, buffers)


def _grid_of(kernel: Kernel, problem: AttentionProblem) -> tuple[int, int]:
    if kernel.stays == "kv_tile":
        return problem.key_heads * problem.kv_tiles, problem.group_size * problem.q_tiles
    return problem.heads * problem.q_tiles, problem.kv_tiles if kernel.step else 1


def matrix_buffers(
    kernel: Kernel, problem: AttentionProblem, slots: int, block_m: int, row: int | None
) -> tuple[torch.Tensor, ...] | None:
    """Buffers for the matrices of the kernel's figure; None if it has none, or if they would be too large."""
    block_d = triton.next_power_of_2(problem.head_dim)
    is_large = max(block_m, problem.block_n) > READABLE_BLOCK or block_d > READABLE_HEAD_DIM
    if kernel.figure is None or (is_large and row is None):
        return None
    sizes = {"q_tile": block_m, "kv_tile": problem.block_n, "head_dim": block_d, "one": 1}
    slots_of = [kernel.figure.slot(matrix.slot) for matrix in kernel.figure.recorded]
    shapes = [(slots, sizes[slot.rows] if row is None else 1, sizes[slot.columns]) for slot in slots_of]
    if sum(map(math.prod, shapes)) * 4 > MATRICES_LIMIT_BYTES:
        return None
    return tuple(torch.full(shape, float("nan"), dtype=torch.float32, device=DEVICE) for shape in shapes)


def refuse_long_traces(problem: AttentionProblem, steps: int, needed_bytes: int) -> None:
    """Raise InvalidProblem if a trace of `steps` steps needs more buffers than BUFFER_LIMIT_BYTES."""
    if needed_bytes > BUFFER_LIMIT_BYTES:
        limit = f"at most {BUFFER_LIMIT_BYTES / 1e9:.1f} GB is recorded"
        accepted = f"its trace could have {steps:,} steps and take {needed_bytes / 1e9:.1f} GB, {limit}"
        remedy = "Choose larger tiles, fewer heads or a shorter sequence."
        raise InvalidProblem("q_len", problem.q_len, accepted, remedy)


def columns_of(kernel: Kernel, way: str, *tensors: str) -> tuple[tl.constexpr, ...]:
    """Columns of `TraceBuffers.requested` for these tensors, by way of "read" or "write"."""
    return tuple(tl.constexpr(kernel.column(tensor, way)) for tensor in tensors)


def matrix_numbers(kernel: Kernel, *names: str) -> tuple[tl.constexpr, ...]:
    """Places in `TraceBuffers.matrices` of these matrices of the kernel's figure."""
    assert kernel.figure is not None
    recorded = [matrix.name for matrix in kernel.figure.recorded]
    return tuple(tl.constexpr(recorded.index(name)) for name in names)


class Log(NamedTuple):
    """Where a program writes down its steps and marks. What is not written leaves no code.

    A kernel makes it itself: in Triton 3.6 a function cannot return a None in a tuple.
    """

    where: tl.tensor | None
    """Buffer of the trace; None if nothing is recorded. Triton 3.6 cannot ask of the whole trace if it is
    None, as it holds a None."""
    trace: Any
    """The TraceBuffers."""
    slot: tl.tensor
    """A step's slot is this plus the number of its tile."""
    lane: tl.tensor | None
    """The program's lane, whose turns are numbered as the tiles."""


@triton.jit
def record_turn(log, tile):
    """The step about this tile begins: its start, the SM, and the first mark of its turn."""
    if log.where is not None:
        record_start(log.trace, log.slot + tile)
    mark(log.lane, tile, 0)


@triton.jit
def record_made(log, tile, values, NUMBER: tl.constexpr, MARK: tl.constexpr = None):
    """The step about this tile has made a matrix: its place in the figure, and the mark that says when."""
    if MARK is not None:
        mark(log.lane, tile, MARK)
    if log.where is not None:
        record_matrix(log.trace, log.slot + tile, values, NUMBER)


@triton.jit
def record_where(trace, slot, batch_head, q_tile, kv_tile):
    """Record which head and tiles the step of this slot is about."""
    base = trace.where + slot.to(tl.int64) * 3
    tl.store(base, batch_head)
    tl.store(base + 1, q_tile)
    tl.store(base + 2, kv_tile)


@triton.jit
def record_bytes(trace, slot, n_bytes, columns):
    """Record the requested bytes of each of these columns, which stand for a tensor and a direction."""
    for i in tl.static_range(len(columns)):
        tl.store(trace.requested + slot.to(tl.int64) * REQUEST_COLUMNS + columns[i], n_bytes)


@triton.jit
def record_stored(
    log, step, columns, tile, n_rows, BLOCK: tl.constexpr, FIXED: tl.constexpr, MARK: tl.constexpr = None
):
    """Tiles of so many rows were stored after this step: their bytes, and the mark that says when."""
    if MARK is not None:
        mark(log.lane, step, MARK)
    if log.where is not None:
        n_bytes = tile_bytes(tile, n_rows, BLOCK, FIXED.ITEMSIZE, FIXED)
        record_bytes(log.trace, log.slot + step, n_bytes, columns)


@triton.jit
def record_rows(trace, slot, values, COLUMN: tl.constexpr):
    """Record one value per row in column COLUMN, which stands for a field of Trace."""
    BLOCK: tl.constexpr = values.shape[0]
    row = trace.rows + slot.to(tl.int64) * (ROW_COLUMNS * BLOCK) + COLUMN * BLOCK
    tl.store(row + tl.arange(0, BLOCK), values)


@triton.jit
def record_state(trace, slot, m, l, alpha):
    """Record the online softmax after a step: row_max, row_sum and alpha. m is in base-2 units."""
    record_rows(trace, slot, m * LN2, 0)
    record_rows(trace, slot, l, 1)
    record_rows(trace, slot, alpha, 2)


@triton.jit
def record_acc(buffer, slot, acc):
    """Record an accumulator after the step in `buffer`, one of the trace's, if it is there."""
    if buffer is not None:
        ROWS: tl.constexpr = acc.shape[0]
        COLUMNS: tl.constexpr = acc.shape[1]
        offsets = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
        tl.store(buffer + slot.to(tl.int64) * (ROWS * COLUMNS) + offsets, acc)


@triton.jit
def record_matrix(trace, slot, values, NUMBER: tl.constexpr):
    """Record a matrix that the step has in hand, or its picked row, if the trace holds it."""
    if trace.matrices is not None:
        if trace.row is None:
            record_acc(trace.matrices[NUMBER], slot, values)
        else:
            record_row(trace.matrices[NUMBER], slot, values, trace.row)


@triton.jit
def record_matrices(trace, slot, values, numbers):
    """`record_matrix` of several, each with its number."""
    for i in tl.static_range(len(numbers)):
        record_matrix(trace, slot, values[i], numbers[i])


@triton.jit
def record_row(buffer, slot, values, row):
    """Record one row of a matrix."""
    ROWS: tl.constexpr = values.shape[0]
    COLUMNS: tl.constexpr = values.shape[1]
    columns = tl.zeros((ROWS, 1), tl.int32) + tl.arange(0, COLUMNS)[None, :]
    is_picked = (tl.arange(0, ROWS)[:, None] == row) & (columns < COLUMNS)  # shaped as the values
    tl.store(buffer + slot.to(tl.int64) * COLUMNS + columns, values, mask=is_picked)


@triton.jit
def record_start(trace, slot):
    """Record the SM and the start of a step. The interpreter has neither a timer nor SMs."""
    if not INTERPRETED:
        tl.store(trace.clock + slot.to(tl.int64) * 3, globaltimer())
        tl.store(trace.clock + slot.to(tl.int64) * 3 + 2, smid().to(tl.int64))


@triton.jit
def record_end(trace, slot):
    """Record the end of a step."""
    if not INTERPRETED:
        tl.store(trace.clock + slot.to(tl.int64) * 3 + 1, globaltimer())


@triton.jit
def record_times(trace, slot, start):
    """Record the SM, the start and the end of a step that began at `start`."""
    record_start(trace, slot)
    tl.store(trace.clock + slot.to(tl.int64) * 3, start)
    record_end(trace, slot)
