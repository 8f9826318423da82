"""What a kernel writes down under its constexpr TRACE: buffers, the Triton primitives that fill them, and how a Trace is made of them.

A program owns `max_steps` consecutive slots and fills one slot a tile step, so the buffers keep the order in which each
program ran. Slots left at batch_head = -1 were not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from kernels.device.backend import device_info, utc_now
from kernels.primitives.softmax import BACKEND, INTERPRETED
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.trace.trace import ACC_LIMIT_BYTES, LaunchInfo, Trace

import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer, smid

DEVICE = "cuda" if BACKEND == "cuda" else "cpu"
REQUEST_COLUMNS = tl.constexpr(16)
ROW_COLUMNS = tl.constexpr(3)
BUFFER_LIMIT_BYTES = 1 << 30
"""A trace whose row buffers would be larger is refused."""


class TraceBuffers(NamedTuple):
    """Device buffers of one traced launch. `slots` is programs x max_steps; accumulators that are not recorded have one entry."""

    where: torch.Tensor
    """int32 (slots, 3): batch_head, q_tile, kv_tile. -1: the program visited no such tile in this step."""
    rows: torch.Tensor
    """float32 (slots, ROW_COLUMNS, rows)"""
    requested: torch.Tensor
    """int32 (slots, REQUEST_COLUMNS): bytes asked for."""
    clock: torch.Tensor
    """int64 (slots, 3): start and end on the GPU's global timer in ns, and the SM; -1 in the interpreter."""
    acc: torch.Tensor
    """float32 (slots, rows, BLOCK_D): an accumulator after the step."""
    acc_2: torch.Tensor
    """The same for a kernel with two accumulators."""


class TileRows(NamedTuple):
    """The rows that a record is about: the field of Trace it becomes, what counts its tiles, rows of a tile and of all tiles."""

    field: str
    tile: str
    """"q_tile" or "kv_tile"."""
    block: int
    total: int

    def exist(self, steps: dict[str, np.ndarray]) -> np.ndarray:
        """bool (steps, block): rows of the step's tile that lie inside the matrix."""
        return np.maximum(steps[self.tile], 0)[:, None] * self.block + np.arange(self.block) < self.total


@dataclass(frozen=True)
class Recorder:
    """One traced launch: what its columns mean, and the buffers."""

    kernel: str
    requests: tuple[tuple[str, str], ...]
    """(tensor, "read" or "write") of each column of `requested`."""
    row_fields: tuple[str, ...]
    """The field of Trace that each column of `rows` becomes."""
    rows: TileRows
    """The rows that `row_fields` are about; its own field is empty."""
    accumulators: tuple[TileRows, ...]
    max_steps: int
    buffers: TraceBuffers

    @property
    def with_acc(self) -> bool:
        """Whether the kernel is to record its accumulators."""
        return bool(self.accumulators) and self.buffers.acc.shape[0] == self.buffers.where.shape[0]


def make_recorder(
    kernel: str, requests: tuple, row_fields: tuple, rows: TileRows, accumulators: tuple[TileRows, ...], programs: int, max_steps: int, head_dim: int
) -> Recorder:  # fmt: skip
    """Buffers on the device; float buffers start as NaN so that a value nobody wrote is seen.

    Raises InvalidProblem for a run with too many steps to trace. Accumulators are recorded up to ACC_LIMIT_BYTES.
    """
    slots, block_d = programs * max_steps, triton.next_power_of_2(head_dim)
    if (needed := slots * rows.block * ROW_COLUMNS.value * 4) > BUFFER_LIMIT_BYTES:
        accepted = f"its trace could have {slots:,} steps and would take {needed / 1e9:.1f} GB, at most {BUFFER_LIMIT_BYTES / 1e9:.1f} GB is recorded"
        raise InvalidProblem(
            "q_len", rows.total, accepted, "Choose larger tiles, fewer heads or a shorter sequence."
        )
    acc_slots = (
        slots if slots * sum(acc.block for acc in accumulators) * block_d * 4 <= ACC_LIMIT_BYTES else 1
    )

    def full(shape: tuple[int, ...], value: float, dtype: torch.dtype) -> torch.Tensor:
        return torch.full(shape, value, dtype=dtype, device=DEVICE)

    accs = [full((acc_slots, acc.block, block_d), float("nan"), torch.float32) for acc in accumulators]
    accs += [full((1, 1, 1), float("nan"), torch.float32)] * (2 - len(accs))
    buffers = TraceBuffers(
        where=full((slots, 3), -1, torch.int32),
        rows=full((slots, ROW_COLUMNS.value, rows.block), float("nan"), torch.float32),
        requested=full((slots, REQUEST_COLUMNS.value), 0, torch.int32),
        clock=full((slots, 3), -1, torch.int64),
        acc=accs[0],
        acc_2=accs[1],
    )
    return Recorder(kernel, requests, row_fields, rows, accumulators, max_steps, buffers)


def assemble(
    problem: AttentionProblem,
    algorithm: str,
    launches: list[tuple[Recorder, LaunchInfo]],
    **results: torch.Tensor,
) -> Trace:
    """The Trace of one or more launches, in launch order. `results` are output tensors by the name of their field in Trace."""
    tensors = tuple(dict.fromkeys(tensor for recorder, _ in launches for tensor, _ in recorder.requests))
    parts = [_used_steps(recorder, problem, tensors) for recorder, _ in launches]
    fields = {name for part in parts for name in part}
    steps = {
        name: _concatenate([part.get(name) for part in parts], [len(part["program"]) for part in parts])
        for name in fields
    }
    if "acc" in steps and algorithm in ("flash1", "flash2"):
        steps["output_distance"] = _output_distance(
            steps, results["output"].float().cpu().numpy(), problem, normalised=algorithm == "flash1"
        )
    if algorithm.startswith("backward") and {"acc", "acc_dk", "acc_dv"} & set(steps):
        steps["gradient_distance"] = _gradient_distance(
            steps, results, problem, scaled=algorithm == "backward_q_outer"
        )
    if (clock := steps.pop("clock")) is not None and (clock[:, 0] >= 0).any():
        first = clock[:, 0].min()
        steps |= {
            "sm": clock[:, 2].astype(np.int32),
            "start_ns": clock[:, 0] - first,
            "end_ns": clock[:, 1] - first,
        }
    return Trace(
        problem=problem,
        algorithm=algorithm,
        device=device_info(BACKEND),
        kernels=tuple(recorder.kernel for recorder, _ in launches),
        launches=tuple(launch for _, launch in launches),
        recorded_at=utc_now(),
        tensors=tensors,
        kernel=np.repeat(np.arange(len(parts), dtype=np.int8), [len(part["program"]) for part in parts]),
        **{name: tensor.float().cpu().numpy() for name, tensor in results.items()},
        **steps,
    )


def _used_steps(
    recorder: Recorder, problem: AttentionProblem, tensors: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """The slots of a launch that were used, as arrays by the name of their field in Trace; "clock" is (steps, 3)."""
    where = recorder.buffers.where.cpu().numpy()
    used = np.flatnonzero(where[:, 0] >= 0)
    batch_head, q_tile, kv_tile = where[used].T
    steps = {
        "program": (used // recorder.max_steps).astype(np.int32),
        "batch_head": batch_head,
        "q_tile": q_tile,
        "kv_tile": kv_tile,
        "clock": recorder.buffers.clock.cpu().numpy()[used],
    }
    requested = recorder.buffers.requested.cpu().numpy()[used].astype(np.int64)
    for direction, field in (("read", "tensor_bytes_read"), ("write", "tensor_bytes_written")):
        columns = [
            [at for at, request in enumerate(recorder.requests) if request == (tensor, direction)]
            for tensor in tensors
        ]
        steps[field] = np.stack([requested[:, at].sum(axis=1) for at in columns], axis=1)
    rows = recorder.buffers.rows.cpu().numpy()[used]
    exist = recorder.rows.exist(steps)
    for column, field in enumerate(recorder.row_fields):
        steps[field] = np.where(exist, rows[:, column], np.float32("nan"))
    if recorder.with_acc:
        for acc, buffer in zip(
            recorder.accumulators, (recorder.buffers.acc, recorder.buffers.acc_2), strict=False
        ):
            values = buffer.cpu().numpy()[used][:, :, : problem.head_dim]
            steps[acc.field] = np.where(acc.exist(steps)[:, :, None], values, np.float32("nan"))
    return steps


def _concatenate(parts: list[np.ndarray | None], counts: list[int]) -> np.ndarray:
    """The parts one after the other; a launch that does not have the field fills its steps with NaN."""
    shape = next(part.shape[1:] for part in parts if part is not None)
    filled = [
        np.full((count, *shape), np.nan, np.float32) if part is None else part
        for part, count in zip(parts, counts, strict=True)
    ]
    return np.concatenate(filled)


def _output_distance(
    steps: dict[str, np.ndarray], output: np.ndarray, problem: AttentionProblem, normalised: bool
) -> np.ndarray:
    """float32 (steps, block_m): max over columns of |output so far - final output|; a row without a key so far counts as 0."""
    padded = np.full(
        (problem.batch * problem.q_heads, problem.q_tiles * problem.block_m, problem.head_dim),
        np.nan,
        np.float32,
    )
    padded[:, : problem.q_len] = output.reshape(-1, problem.q_len, problem.head_dim)
    final = padded.reshape(-1, problem.q_tiles, problem.block_m, problem.head_dim)[
        steps["batch_head"], steps["q_tile"]
    ]
    row_sum = steps["row_sum"][:, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        partial = steps["acc"] if normalised else np.where(row_sum == 0, 0, steps["acc"] / row_sum)
    return np.abs(partial - final).max(axis=2)


def _gradient_distance(
    steps: dict[str, np.ndarray], results: dict[str, torch.Tensor], problem: AttentionProblem, scaled: bool
) -> np.ndarray:
    """float32 (steps, 3): largest |sum so far - final| of the step's tile of dQ, dK and dV. Sums of dQ and dK lack the scale unless `scaled`."""
    group, factor = problem.q_heads // problem.kv_heads, 1.0 if scaled else problem.scale
    sums = (
        ("acc", "d_query", "q_tile", problem.block_m, 1, factor),
        ("acc_dk", "d_key", "kv_tile", problem.block_n, group, factor),
        ("acc_dv", "d_value", "kv_tile", problem.block_n, group, 1.0),
    )
    distance = np.full((len(steps["program"]), 3), np.nan, np.float32)
    for column, (acc, result, tile, block, heads_a_sum, scale) in enumerate(sums):
        if acc not in steps:
            continue
        final = results[result].float().cpu().numpy().reshape(-1, *results[result].shape[2:])
        for step in np.flatnonzero(np.isfinite(steps[acc][:, 0, 0])):
            first = steps[tile][step] * block
            rows = final[steps["batch_head"][step] // heads_a_sum, first : first + block]
            distance[step, column] = np.abs(steps[acc][step, : len(rows)] * scale - rows).max()
    return distance


@triton.jit
def record_where(trace, slot, batch_head, q_tile, kv_tile):
    """Name the tile that slot `slot` is about."""
    base = trace.where + slot.to(tl.int64) * 3
    tl.store(base, batch_head)
    tl.store(base + 1, q_tile)
    tl.store(base + 2, kv_tile)


@triton.jit
def record_bytes(trace, slot, n_bytes, COLUMN: tl.constexpr):
    """Bytes asked for of the tensor, and in the direction, that column COLUMN stands for."""
    tl.store(trace.requested + slot.to(tl.int64) * REQUEST_COLUMNS + COLUMN, n_bytes)


@triton.jit
def record_rows(trace, slot, values, COLUMN: tl.constexpr, BLOCK: tl.constexpr):
    """One value a row, for the field that column COLUMN stands for."""
    tl.store(
        trace.rows + slot.to(tl.int64) * (ROW_COLUMNS * BLOCK) + COLUMN * BLOCK + tl.arange(0, BLOCK), values
    )


@triton.jit
def record_acc(buffer, slot, acc, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr):
    """An accumulator after the step, into trace.acc or trace.acc_2."""
    offsets = tl.arange(0, BLOCK)[:, None] * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    tl.store(buffer + slot.to(tl.int64) * (BLOCK * BLOCK_D) + offsets, acc)


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
