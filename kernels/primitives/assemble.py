"""Makes a Trace of the buffers of traced launches."""

import numpy as np
import torch

from kernels.device.backend import device_info, utc_now
from kernels.device.runtime import BACKEND
from kernels.primitives.recorder import Recorder
from kernels.problem import AttentionProblem
from kernels.trace.algorithm import Algorithm, Kernel
from kernels.trace.trace import MATRIX_PREFIX, LaunchInfo, Trace

Steps = dict[str, np.ndarray]
"""Arrays with one entry per step, by the name of their field in Trace."""


def assemble(
    algorithm: Algorithm,
    problem: AttentionProblem,
    launches: list[tuple[Recorder, LaunchInfo]],
    **results: torch.Tensor,
) -> Trace:
    """The Trace of one or more launches, in launch order.

    `results` are output tensors by the name of their field in Trace.
    """
    tensors = tuple(dict.fromkeys(name for recorder, _ in launches for name, _ in recorder.kernel.requests))
    final = {name: tensor.float().cpu().numpy() for name, tensor in results.items()}
    launched = [_used_steps(recorder, problem, tensors) for recorder, _ in launches]
    counts = [len(steps["program"]) for steps in launched]
    fields = dict.fromkeys(name for steps in launched for name in steps)
    joined = {name: _joined([steps.get(name) for steps in launched], counts) for name in fields}
    matrices = {name: joined.pop(name) for name in fields if name.startswith(MATRIX_PREFIX)}
    clock, page = joined.pop("clock"), joined.pop("page")
    if (page >= 0).any():
        joined["page"] = page
    if (clock[:, 0] >= 0).any():
        first = clock[:, 0].min()
        joined["sm"] = clock[:, 2].astype(np.int32)
        joined["start_ns"], joined["end_ns"] = clock[:, 0] - first, clock[:, 1] - first
    return Trace(
        problem=problem,
        algorithm=algorithm.name,
        device=device_info(BACKEND),
        kernels=tuple(recorder.kernel.name for recorder, _ in launches),
        launches=tuple(launch for _, launch in launches),
        recorded_at=utc_now(),
        tensors=tensors,
        kernel=np.repeat(np.arange(len(counts), dtype=np.int8), counts),
        sample=None,
        observed=None,
        matrices={name.removeprefix(MATRIX_PREFIX): each for name, each in matrices.items()} or None,
        matrix_row=launches[0][0].buffers.row if matrices else None,
        **final,
        **joined,
    )


def _used_steps(recorder: Recorder, problem: AttentionProblem, tensors: tuple[str, ...]) -> Steps:
    """The slots of a launch that were used; "clock" is (steps, 3), "page" -1 without a block table."""
    buffers = recorder.buffers
    where = buffers.where.cpu().numpy()
    used = np.flatnonzero(where[:, 0] >= 0)
    batch_head, q_tile, kv_tile = where[used].T
    steps = {
        "program": (used // recorder.max_steps).astype(np.int32),
        "batch_head": batch_head,
        "q_tile": q_tile,
        "kv_tile": kv_tile,
        "clock": buffers.clock.cpu().numpy()[used],
        "page": np.full(len(used), -1, np.int32),
    }
    if buffers.page is not None:
        steps["page"] = buffers.page.cpu().numpy()[used]
    requests = recorder.kernel.requests
    requested = buffers.requested.cpu().numpy()[used].astype(np.int64)
    for direction, field in (("read", "tensor_bytes_read"), ("write", "tensor_bytes_written")):
        counted = np.zeros((len(used), len(tensors)), np.int64)
        for column, (tensor, way) in enumerate(requests):
            if way == direction:
                counted[:, tensors.index(tensor)] += requested[:, column]
        steps[field] = counted
    rows, exist = buffers.rows.cpu().numpy()[used], recorder.rows_exist(steps)
    for column, field in enumerate(recorder.kernel.row_fields):
        steps[field] = np.where(exist, rows[:, column], np.float32("nan"))
    sums = (buffers.acc, buffers.acc_2, buffers.acc_3)
    for each, buffer in zip(recorder.kernel.sums, sums, strict=False):
        if buffer is not None:
            values = buffer.cpu().numpy()[used][:, :, : problem.head_dim]
            exist = recorder.rows_exist(steps, each.tile)
            steps[each.field] = np.where(exist[:, :, None], values, np.float32("nan"))
    if recorder.kernel.figure and buffers.matrices:
        for matrix, held in zip(recorder.kernel.figure.recorded, buffers.matrices, strict=True):
            slot = recorder.kernel.figure.slot(matrix.slot)
            if buffers.row is not None and slot.rows != "q_tile":
                continue
            width = problem.head_dim if slot.columns == "head_dim" else None
            steps[MATRIX_PREFIX + matrix.name] = held.cpu().numpy()[used][:, :, :width]
        if buffers.row is not None:
            steps |= _picked_sums(recorder.kernel, steps, buffers.row)
    return steps


def _picked_sums(kernel: Kernel, steps: Steps, row: int) -> Steps:
    """The picked row of the accumulators that the figure shows: a page gets them without their other rows."""
    assert kernel.figure is not None
    shown = {matrix.name for matrix in kernel.figure.matrices if matrix.is_field}
    fields = [each.field for each in kernel.sums if each.tile == "q_tile" and each.field in steps]
    return {MATRIX_PREFIX + name: steps[name][:, row : row + 1] for name in fields if name in shown}


def _joined(parts: list[np.ndarray | None], counts: list[int]) -> np.ndarray:
    shape = next(part.shape[1:] for part in parts if part is not None)
    pairs = zip(parts, counts, strict=True)
    return np.concatenate(
        [np.full((count, *shape), np.nan, np.float32) if part is None else part for part, count in pairs]
    )
