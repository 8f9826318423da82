"""What a kernel did, step by step, as NumPy arrays, and the file format for it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernels.device.backend import DeviceInfo
from kernels.file_format import ArrayFile
from kernels.problem import AttentionProblem
from kernels.trace.observed import Observed
from kernels.trace.sample import Sample

ACC_LIMIT_BYTES = 64 << 20
"""Accumulators are recorded if those of all steps together are at most this large."""

READABLE_BLOCK = 16
"""Tiles with at most so many rows and keys are recorded number by number ..."""
READABLE_HEAD_DIM = 64
"""... if their rows are at most this long ..."""
MATRICES_LIMIT_BYTES = 32 << 20
"""... and if the matrices of all steps together are at most this large."""
MATRIX_PREFIX = "matrix "
"""Starts the names of matrices in a file."""

PER_STEP = ("kernel", "program", "batch_head", "q_tile", "kv_tile", "page", "sm", "start_ns", "end_ns")
PER_ROW = ("row_max", "row_sum", "alpha", "row_share", "weight")
"""Fields of Trace with one value per step, and with one per step and row."""


@dataclass(frozen=True)
class LaunchInfo:
    """How a kernel was launched. Shared memory and registers are the compiler's; 0 in the interpreter."""

    num_warps: int
    num_stages: int
    shared_bytes: int = 0
    registers: int = 0


@dataclass(frozen=True, eq=False)
class Trace(ArrayFile):
    """Every tile step of one run, ordered by program and, within a program, by time.

    `steps` below is the number of entries. A program that visits no tile, because the mask leaves it none,
    has one entry with kv_tile = -1, in which it writes zeros. Rows past the end of a ragged query tile are
    NaN.
    """

    FORMAT = "flash-attention-trace"
    VERSIONS = (5, 4, 3, 2, 1)  # older files hold less: no sample, no matrices, no picked row, no pages

    problem: AttentionProblem
    algorithm: str
    """Name of its entry in `kernels.algorithms`."""
    device: DeviceInfo
    kernels: tuple[str, ...]
    """Names of the kernels, in launch order."""
    launches: tuple[LaunchInfo, ...]
    recorded_at: str
    """UTC date and time, ISO 8601."""
    tensors: tuple[str, ...]
    """Names of the tensors that bytes are counted for."""
    kernel: np.ndarray
    """int8 (steps,): index into `kernels`."""
    program: np.ndarray
    """int32 (steps,): linear id of the program inside its launch."""
    batch_head: np.ndarray
    """int32 (steps,): batch * q_heads + head."""
    q_tile: np.ndarray
    """int32 (steps,)"""
    kv_tile: np.ndarray
    """int32 (steps,)"""
    tensor_bytes_read: np.ndarray
    """int64 (steps, tensors): bytes that the step's loads asked for."""
    tensor_bytes_written: np.ndarray
    """int64 (steps, tensors): bytes that the step's stores asked for."""
    page: np.ndarray | None = None
    """int32 (steps,): the page of the pools that the step's tile of K and V lies in, as the block table gave
    it, -1 for a step without a tile; None if K and V lie whole."""
    row_max: np.ndarray | None = None
    """float32 (steps, block_m): running max of the scaled scores after the step, natural log units."""
    row_sum: np.ndarray | None = None
    """float32 (steps, block_m): running sum of exp(score - row_max)."""
    alpha: np.ndarray | None = None
    """float32 (steps, block_m): exp(old row max - new row max), the factor on the old sum and accumulator."""
    row_share: np.ndarray | None = None
    """float32 (steps, block_m): backward, the row sums of the recomputed tile of P."""
    weight: np.ndarray | None = None
    """float32 (steps, block_m): combine, exp(lse of the part - lse), the weight of the part in each row."""
    acc: np.ndarray | None = None
    """float32 (steps, block_m, head_dim): the accumulator of O or dQ after the step. None if those of all
    steps would be larger than ACC_LIMIT_BYTES."""
    acc_dk: np.ndarray | None = None
    """float32 (steps, block_n, head_dim): backward, dK of the key tile after the step."""
    acc_dv: np.ndarray | None = None
    """float32 (steps, block_n, head_dim): backward, dV of the key tile after the step."""
    matrices: dict[str, np.ndarray] | None = None
    """float32 (steps, rows, columns) each, by the names in the figures of the kernels: what a step had in
    hand in its phases. NaN if a step does not make it. None unless the tiles are small or a row is picked."""
    matrix_row: int | None = None
    """Offset in each query tile of the only row that the matrices hold, as their only row; None if they hold
    all. What is not cut along the query tile is then left out, and the row of `acc` is among them."""
    sm: np.ndarray | None = None
    """int32 (steps,): streaming multiprocessor; None in the interpreter."""
    start_ns: np.ndarray | None = None
    """int64 (steps,): on the GPU's global timer, from the first start of the run; None in the interpreter."""
    end_ns: np.ndarray | None = None
    """int64 (steps,)"""
    output: np.ndarray | None = None
    """float32 (batch, q_heads, q_len, head_dim); exact, since widened from the kernel's type."""
    lse: np.ndarray | None = None
    """float32 (batch, q_heads, q_len): log of the sum of exponentials of the scaled scores."""
    delta: np.ndarray | None = None
    """float32 (batch, q_heads, q_len): backward, D = rowsum(O * dO)."""
    d_query: np.ndarray | None = None
    """float32 (batch, q_heads, q_len, head_dim): gradients, of backward."""
    d_key: np.ndarray | None = None
    """float32 (batch, kv_heads, kv_len, head_dim)"""
    d_value: np.ndarray | None = None
    """float32 (batch, kv_heads, kv_len, head_dim)"""
    sample: Sample | None = None
    """The part of the run that was traced; None for all of it. Of a sample, the results above hold the traced
    heads and queries alone, and have the shapes of `sample.part(problem)` with so many queries."""
    observed: Observed | None = None
    """What is known of the kernel if it is a user's own; None for an algorithm of the registry."""

    @property
    def steps(self) -> int:
        return len(self.program)

    @property
    def ran(self) -> AttentionProblem:
        """The problem whose inputs it ran on: of a sample, its heads alone."""
        return self.sample.part(self.problem) if self.sample else self.problem

    @property
    def bytes_read(self) -> np.ndarray:
        """int64 (steps,): requested bytes of all loads."""
        return self.tensor_bytes_read.sum(axis=1)

    @property
    def bytes_written(self) -> np.ndarray:
        """int64 (steps,): requested bytes of all stores."""
        return self.tensor_bytes_written.sum(axis=1)

    @property
    def total_bytes(self) -> int:
        """Requested bytes of the whole run, loads and stores."""
        return int(self.tensor_bytes_read.sum() + self.tensor_bytes_written.sum())

    @property
    def result_bytes(self) -> int:
        results = (self.output, self.d_query, self.d_key, self.d_value)
        return sum(result.nbytes for result in results if result is not None)

    def without_acc(self) -> "Trace":
        """The same trace without the accumulators, which make up most of its size.

        They stay if the tiles are small enough to be shown number by number.
        """
        if self.matrices is not None and self.matrix_row is None:
            return self
        return replace(self, acc=None, acc_dk=None, acc_dv=None)

    def without_results(self) -> "Trace":
        """The same trace without output and gradients, for recordings that are only shown; lse and D stay."""
        return replace(self, output=None, d_query=None, d_key=None, d_value=None)

    def arrays(self) -> dict[str, np.ndarray]:
        """The matrices become arrays of their own."""
        matrices = {MATRIX_PREFIX + name: values for name, values in (self.matrices or {}).items()}
        return matrices | ArrayFile.arrays(replace(self, matrices=None))

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> "Trace":
        """The trace of a file's arrays. Raises UnreadableFile."""
        named = [name for name in arrays if name.startswith(MATRIX_PREFIX)]
        matrices = {name.removeprefix(MATRIX_PREFIX): arrays[name] for name in named}
        others = {name: array for name, array in arrays.items() if name not in named}
        return super().from_arrays(others | ({"matrices": matrices} if matrices else {}))
