"""What a kernel writes down under its constexpr TRACE: buffers, and the Triton primitives that fill them.

A program owns `max_steps` consecutive slots and fills one slot a tile step, so the buffers keep the order in which each
program ran. Slots left at batch_head = -1 were not used.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import torch

from kernels.backend import device_info
from kernels.problem import AttentionProblem
from kernels.softmax import BACKEND, INTERPRETED
from kernels.trace import ACC_LIMIT_BYTES, LaunchInfo, Trace

import triton  # isort: skip
import triton.language as tl  # isort: skip
from triton.language.extra.cuda import globaltimer, smid  # isort: skip


class TraceBuffers(NamedTuple):
    """Device buffers of one traced launch. `slots` is programs x max_steps; `acc` has one entry where it is not recorded."""

    where: torch.Tensor
    """int32 (slots, 3): batch_head, q_tile, kv_tile. kv_tile -1: the program visited no tile."""
    rows: torch.Tensor
    """float32 (slots, 3, BLOCK_M): row max, row sum, rescale factor."""
    requested: torch.Tensor
    """int32 (slots, tensors): bytes asked for, loads and stores alike."""
    clock: torch.Tensor
    """int64 (slots, 3): start and end on the GPU's global timer in ns, and the SM; -1 in the interpreter."""
    acc: torch.Tensor
    """float32 (slots, BLOCK_M, BLOCK_D): the accumulator after the step."""


DEVICE = "cuda" if BACKEND == "cuda" else "cpu"


def allocate(programs: int, max_steps: int, n_tensors: int, block_m: int, block_d: int) -> TraceBuffers:
    """Empty buffers on the device; float buffers start as NaN so that a value nobody wrote is seen."""
    slots = programs * max_steps
    with_acc = slots * block_m * block_d * 4 <= ACC_LIMIT_BYTES

    def full(shape: tuple[int, ...], value: float, dtype: torch.dtype) -> torch.Tensor:
        return torch.full(shape, value, dtype=dtype, device=DEVICE)

    return TraceBuffers(
        where=full((slots, 3), -1, torch.int32),
        rows=full((slots, 3, block_m), float("nan"), torch.float32),
        requested=full((slots, n_tensors), 0, torch.int32),
        clock=full((slots, 3), -1, torch.int64),
        acc=full((slots if with_acc else 1, block_m, block_d), float("nan"), torch.float32),
    )


def collect(
    buffers: TraceBuffers, problem: AttentionProblem, algorithm: str, max_steps: int, tensors: tuple[str, ...], written: tuple[str, ...],
    output: torch.Tensor, lse: torch.Tensor, launch: LaunchInfo,
) -> Trace:  # fmt: skip
    """Gather the slots that were used into a Trace. `written` names the tensors that the kernel stores, the others it loads."""
    where = buffers.where.cpu().numpy()
    used = np.flatnonzero(where[:, 0] >= 0)
    batch_head, q_tile, kv_tile = where[used].T
    inside = q_tile[:, None] * problem.block_m + np.arange(problem.block_m) < problem.q_len
    rows = np.where(inside[:, None], buffers.rows.cpu().numpy()[used], np.float32("nan"))
    requested = buffers.requested.cpu().numpy()[used].astype(np.int64)
    is_written = np.array([name in written for name in tensors])
    clock = buffers.clock.cpu().numpy()[used]
    timed = bool((clock[:, 0] >= 0).any())
    output, lse = output.float().cpu().numpy(), lse.cpu().numpy()
    acc = distance = None
    if buffers.acc.shape[0] == len(where):
        acc = np.where(inside[:, :, None], buffers.acc.cpu().numpy()[used][:, :, : problem.head_dim], np.float32("nan"))
        distance = _output_distance(acc, rows[:, 1], output, problem, batch_head, q_tile)
    return Trace(
        problem=problem,
        algorithm=algorithm,
        device=device_info(BACKEND),
        launch=launch,
        recorded_at=datetime.now(UTC).isoformat(timespec="seconds"),
        tensors=tensors,
        program=(used // max_steps).astype(np.int32),
        batch_head=batch_head,
        q_tile=q_tile,
        kv_tile=kv_tile,
        row_max=rows[:, 0],
        row_sum=rows[:, 1],
        alpha=rows[:, 2],
        tensor_bytes_read=requested * ~is_written,
        tensor_bytes_written=requested * is_written,
        output=output,
        lse=lse,
        acc=acc,
        output_distance=distance,
        sm=clock[:, 2].astype(np.int32) if timed else None,
        start_ns=clock[:, 0] - clock[:, 0].min() if timed else None,
        end_ns=clock[:, 1] - clock[:, 0].min() if timed else None,
    )


def _output_distance(
    acc: np.ndarray, row_sum: np.ndarray, output: np.ndarray, problem: AttentionProblem, batch_head: np.ndarray, q_tile: np.ndarray
) -> np.ndarray:
    """float32 (steps, block_m): max over columns of |acc / row_sum - final output|; a row without a key so far counts as 0."""
    padded = np.full((problem.batch * problem.q_heads, problem.q_tiles * problem.block_m, problem.head_dim), np.nan, np.float32)
    padded[:, : problem.q_len] = output.reshape(-1, problem.q_len, problem.head_dim)
    final = padded.reshape(-1, problem.q_tiles, problem.block_m, problem.head_dim)[batch_head, q_tile]
    with np.errstate(divide="ignore", invalid="ignore"):
        partial = np.where(row_sum[:, :, None] == 0, 0, acc / row_sum[:, :, None])
    return np.abs(partial - final).max(axis=2)


@triton.jit
def record_where(trace, slot, batch_head, q_tile, kv_tile):
    """Name the tile that slot `slot` is about."""
    base = trace.where + slot.to(tl.int64) * 3
    tl.store(base, batch_head)
    tl.store(base + 1, q_tile)
    tl.store(base + 2, kv_tile)


@triton.jit
def record_bytes(trace, slot, n_bytes, TENSOR: tl.constexpr, N_TENSORS: tl.constexpr):
    """Bytes asked for of tensor number TENSOR in this step."""
    tl.store(trace.requested + slot.to(tl.int64) * N_TENSORS + TENSOR, n_bytes)


@triton.jit
def record_rows(trace, slot, values, COLUMN: tl.constexpr, BLOCK_M: tl.constexpr):
    """One value a row: column 0 row max (natural log units), 1 row sum, 2 rescale factor."""
    tl.store(trace.rows + slot.to(tl.int64) * (3 * BLOCK_M) + COLUMN * BLOCK_M + tl.arange(0, BLOCK_M), values)


@triton.jit
def record_acc(trace, slot, acc, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr):
    """The accumulator after the step."""
    offsets = tl.arange(0, BLOCK_M)[:, None] * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    tl.store(trace.acc + slot.to(tl.int64) * (BLOCK_M * BLOCK_D) + offsets, acc)


@triton.jit
def record_start(trace, slot):
    """SM and start of a step. The interpreter has neither timer nor SM."""
    if not INTERPRETED:
        tl.store(trace.clock + slot.to(tl.int64) * 3, globaltimer())
        tl.store(trace.clock + slot.to(tl.int64) * 3 + 2, smid().to(tl.int64))


@triton.jit
def record_end(trace, slot):
    """End of a step."""
    if not INTERPRETED:
        tl.store(trace.clock + slot.to(tl.int64) * 3 + 1, globaltimer())
