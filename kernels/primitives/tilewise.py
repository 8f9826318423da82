"""Logs algorithms that run in torch, tile by tile, and makes the same Trace of them as of a kernel.

Bytes are counted from the slices that a step reads and writes.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from kernels.device.backend import device_info, utc_now
from kernels.device.runtime import BACKEND, DEVICE
from kernels.primitives.recorder import matrix_buffers, refuse_long_traces
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_inputs
from kernels.trace.algorithm import Algorithm
from kernels.trace.trace import ACC_LIMIT_BYTES, LaunchInfo, Trace

ROW_FIELDS = ("row_max", "row_sum", "row_share")


class Program(NamedTuple):
    number: int
    batch: int
    head: int
    rows: slice


class StepLog:
    """What a run reads, writes and holds, step by step.

    Reads before a program's first step count for that step.
    """

    def __init__(self, algorithm: Algorithm, problem: AttentionProblem) -> None:
        """Raises InvalidProblem if the run has too many steps to record."""
        steps = algorithm.steps(problem)
        refuse_long_traces(problem, steps, steps * problem.block_m * 4 * len(ROW_FIELDS))
        self._algorithm, self._problem = algorithm, problem
        self._step, self._open = -1, False
        requests = (request for kernel in algorithm.kernels for request in kernel.requests)
        self._tensors = tuple(dict.fromkeys(tensor for tensor, _ in requests))
        self._where = np.zeros((5, steps), np.int32)
        self._bytes = np.zeros((2, steps, len(self._tensors)), np.int64)
        self._rows = {field: np.full((steps, problem.block_m), np.nan, np.float32) for field in ROW_FIELDS}
        shape = (steps, problem.block_m, problem.head_dim)
        self._keeps_acc = math.prod(shape) * 4 <= ACC_LIMIT_BYTES
        self._acc = np.full(shape if self._keeps_acc else 0, np.nan, np.float32)
        self._matrices: dict[str, torch.Tensor] = {}
        for kernel in algorithm.kernels:
            buffers = matrix_buffers(kernel, problem, steps, problem.block_m, None) or ()
            recorded = kernel.figure.recorded if kernel.figure else ()
            self._matrices |= {each.name: held for each, held in zip(recorded, buffers, strict=False)}

    def programs(self) -> Iterator[Program]:
        problem = self._problem
        for number in range(problem.heads * problem.q_tiles):
            batch_head, q_tile = divmod(number, problem.q_tiles)
            yield Program(number, *divmod(batch_head, problem.q_heads), tile_rows(q_tile, problem.block_m))
            self._open = False

    def step(self, kernel: int, program: Program, kv_tile: int) -> None:
        """Begin the next tile step of a program; `kernel` is an index into the algorithm's kernels."""
        self._step, self._open = self._step + 1, True
        place = divmod(program.number, self._problem.q_tiles)
        self._where[:, self._step] = kernel, program.number, *place, kv_tile

    def read(self, name: str, values: torch.Tensor) -> torch.Tensor:
        """Count a read of `values`, and return them in float32, the type in which matrix units add."""
        self._count(0, name, values)
        return values.float()

    def write(self, name: str, target: torch.Tensor, values: torch.Tensor) -> None:
        """Round `values` to the type of `target`, store them there, and count the write."""
        self._count(1, name, target)
        target.copy_(values)

    def _count(self, direction: int, name: str, values: torch.Tensor) -> None:
        step = self._step if self._open else self._step + 1
        self._bytes[direction, step, self._tensors.index(name)] += values.numel() * values.element_size()

    def rows(self, acc: torch.Tensor | None = None, **fields: torch.Tensor) -> None:
        """Log the accumulator, and by the fields' names in Trace one value per row of the query tile."""
        for name, values in fields.items():
            self._rows[name][self._step, : len(values)] = values.float().cpu().numpy()
        if acc is not None and self._keeps_acc:
            self._acc[self._step, : len(acc)] = acc.float().cpu().numpy()

    def show(self, matrices: dict[str, torch.Tensor]) -> None:
        """Log matrices of the step's figure, if the tiles are small enough for numbers."""
        for name, values in matrices.items():
            if (held := self._matrices.get(name)) is not None:
                held[self._step, : values.shape[0], : values.shape[1]] = values

    def trace(self, output: torch.Tensor, lse: torch.Tensor, **gradients: torch.Tensor) -> Trace:
        """The Trace of everything that was logged."""
        kernels = self._algorithm.kernels
        kernel, program, batch_head, q_tile, kv_tile = self._where
        results = {"output": output, "lse": lse} | gradients
        final: dict[str, Any] = {name: each.float().cpu().numpy() for name, each in results.items()}
        steps: dict[str, Any] = {
            field: values for field, values in self._rows.items() if not np.isnan(values).all()
        }
        steps |= {"batch_head": batch_head, "q_tile": q_tile, "kv_tile": kv_tile}
        if self._keeps_acc:
            steps["acc"] = self._acc
        return Trace(
            problem=self._problem,
            algorithm=self._algorithm.name,
            device=device_info(BACKEND),
            kernels=tuple(kernel.name for kernel in kernels),
            launches=(LaunchInfo(0, 0),) * len(kernels),
            recorded_at=utc_now(),
            tensors=self._tensors,
            kernel=kernel.astype(np.int8),
            program=program,
            tensor_bytes_read=self._bytes[0],
            tensor_bytes_written=self._bytes[1],
            matrices={name: each.cpu().numpy() for name, each in self._matrices.items()} or None,
            **final,
            **steps,
        )


@dataclass(frozen=True)
class Tilewise:
    """A runner of a forward pass with the mask and the tiles of a problem."""

    entry: Algorithm
    fill: Callable[..., None]
    """Takes a StepLog, the problem, query, key and value; logs the steps, and fills O and lse."""

    def run_traced(self, problem: AttentionProblem) -> Trace:
        """Run the steps on the problem's own inputs. Raises InvalidProblem if there are too many."""
        hbm, out, lse = self._run(problem, *make_inputs(problem, DEVICE))
        return hbm.trace(out, lse)

    def forward(self, problem: AttentionProblem, *inputs: torch.Tensor) -> tuple[torch.Tensor, None]:
        """O; lse is not a result of these algorithms."""
        return self._run(problem, *inputs)[1], None

    def _run(
        self, problem: AttentionProblem, *inputs: torch.Tensor
    ) -> tuple[StepLog, torch.Tensor, torch.Tensor]:
        hbm, out = StepLog(self.entry, problem), torch.empty_like(inputs[0])
        lse = torch.empty(problem.q_shape[:3], device=out.device)
        self.fill(hbm, problem, *inputs, out, lse)
        return hbm, out, lse


def tile_rows(index: int, block: int) -> slice:
    """The rows of a tile. The slice may reach past the end of the matrix."""
    return slice(index * block, (index + 1) * block)
