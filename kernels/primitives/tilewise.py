"""Algorithms without a Triton kernel of ours run here in torch, tile by tile, and give the same Trace as the kernels do.

Bytes are counted from the very slices that a step reads and writes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from kernels.device.backend import device_info, utc_now
from kernels.primitives.recorder import BUFFER_LIMIT_BYTES
from kernels.primitives.softmax import BACKEND
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.trace.trace import ACC_LIMIT_BYTES, LaunchInfo, Trace

ROW_FIELDS = ("row_max", "row_sum", "row_share", "output_distance")


class StepLog:
    """What a run reads, writes and holds, step by step. Reads before a program's first step count for that step."""

    def __init__(
        self, problem: AttentionProblem, kernels: tuple[str, ...], tensors: tuple[str, ...], steps: int
    ) -> None:
        """Raises InvalidProblem for a run of too many steps to record."""
        needed = steps * problem.block_m * 4 * len(ROW_FIELDS)
        if needed > BUFFER_LIMIT_BYTES:
            accepted = f"its trace would have {steps:,} steps and take {needed / 1e9:.1f} GB, at most {BUFFER_LIMIT_BYTES / 1e9:.1f} GB is recorded"
            raise InvalidProblem(
                "q_len", problem.q_len, accepted, "Choose larger tiles, fewer heads or a shorter sequence."
            )
        self._problem, self._kernels, self._tensors = problem, kernels, tensors
        self._where: list[tuple[int, ...]] = []
        self._bytes: list[np.ndarray] = []
        self._rows: dict[str, list[np.ndarray]] = {field: [] for field in ROW_FIELDS}
        self._accs: list[np.ndarray | None] = []
        self._pending = self._no_bytes()
        self._keeps_acc = steps * problem.block_m * problem.head_dim * 4 <= ACC_LIMIT_BYTES

    def programs(self) -> Iterator[tuple[int, int, int, int, slice]]:
        """(program, batch, head, query tile, its rows) of every query tile of every head."""
        problem = self._problem
        for program in range(problem.batch * problem.q_heads * problem.q_tiles):
            batch_head, q_tile = divmod(program, problem.q_tiles)
            yield program, *divmod(batch_head, problem.q_heads), q_tile, tile(q_tile, problem.block_m)
            self._open = False

    def step(self, kernel: int, program: int, kv_tile: int) -> None:
        """Begin the next tile step of a program."""
        batch_head, q_tile = divmod(program, self._problem.q_tiles)
        self._where.append((kernel, program, batch_head, q_tile, kv_tile))
        self._bytes.append(self._pending)
        for values in self._rows.values():
            values.append(np.full(self._problem.block_m, np.nan, np.float32))
        self._accs.append(None)
        self._pending = self._no_bytes()
        self._open = True

    _open = False

    def _no_bytes(self) -> np.ndarray:
        return np.zeros((2, len(self._tensors)), np.int64)

    def read(self, name: str, values: torch.Tensor) -> torch.Tensor:
        """Count a read of `values`, and give them back in float32, as matrix units sum."""
        self._count(0, name, values)
        return values.float()

    def write(self, name: str, target: torch.Tensor, values: torch.Tensor) -> None:
        """Round `values` to the type of `target`, store them there, and count the write."""
        self._count(1, name, target)
        target.copy_(values)

    def _count(self, direction: int, name: str, values: torch.Tensor) -> None:
        counts = self._bytes[-1] if self._open else self._pending
        counts[direction, self._tensors.index(name)] += values.numel() * values.element_size()

    def rows(self, acc: torch.Tensor | None = None, **fields: torch.Tensor) -> None:
        """One value a row of the step's query tile, by the name of the field of Trace; and the accumulator after the step."""
        for name, values in fields.items():
            self._rows[name][-1][: len(values)] = values.float().cpu().numpy()
        if acc is not None:
            self._accs[-1] = acc.float().cpu().numpy()

    def trace(self, algorithm: str, output: torch.Tensor, lse: torch.Tensor) -> Trace:
        """The Trace of everything logged."""
        kernel, program, batch_head, q_tile, kv_tile = np.array(self._where, np.int32).T
        self._distances(output, batch_head, q_tile)
        counts = np.stack(self._bytes)
        rows = {field: np.stack(values) for field, values in self._rows.items()}
        return Trace(
            problem=self._problem,
            algorithm=algorithm,
            device=device_info(BACKEND),
            kernels=self._kernels,
            launches=(LaunchInfo(0, 0),) * len(self._kernels),
            recorded_at=utc_now(),
            tensors=self._tensors,
            kernel=kernel.astype(np.int8),
            program=program,
            batch_head=batch_head,
            q_tile=q_tile,
            kv_tile=kv_tile,
            tensor_bytes_read=counts[:, 0],
            tensor_bytes_written=counts[:, 1],
            output=output.float().cpu().numpy(),
            lse=lse.float().cpu().numpy(),
            acc=self._stacked_acc(),
            **{field: values for field, values in rows.items() if not np.isnan(values).all()},
        )

    def _distances(self, output: torch.Tensor, batch_head: np.ndarray, q_tile: np.ndarray) -> None:
        """|accumulator - final output|, largest column, of the steps that have an accumulator."""
        final = output.float().cpu().numpy().reshape(-1, self._problem.q_len, self._problem.head_dim)
        for step, acc in enumerate(self._accs):
            if acc is not None:
                distance = np.abs(
                    acc - final[batch_head[step], tile(q_tile[step], self._problem.block_m)]
                ).max(axis=1)
                self._rows["output_distance"][step][: len(distance)] = distance

    def _stacked_acc(self) -> np.ndarray | None:
        if not self._keeps_acc:
            return None
        stacked = np.full(
            (len(self._accs), self._problem.block_m, self._problem.head_dim), np.nan, np.float32
        )
        for step, acc in enumerate(self._accs):
            if acc is not None:
                stacked[step, : len(acc)] = acc
        return stacked


def tile(index: int, block: int) -> slice:
    """The rows of a tile; a slice stops by itself at the end of a ragged one."""
    return slice(index * block, (index + 1) * block)
