"""Modelled bytes and FLOPs of standard attention: three kernels forward, five backward."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.problem import AttentionProblem

SOFTMAX_FLOPS = 3
"""Operations per element of S in softmax: subtract, exponential, divide.

Chu, Liu and Lin 2026, "Memory Versus Computation".
"""


@dataclass(frozen=True)
class Stage:
    """One kernel: bytes it moves between HBM and SRAM, and its floating-point operations."""

    name: str
    bytes_read: int
    bytes_written: int
    flops: int

    @property
    def bytes_moved(self) -> int:
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """Arithmetic intensity, FLOP per byte."""
        return self.flops / self.bytes_moved


def standard_stages(problem: AttentionProblem) -> tuple[Stage, Stage, Stage]:
    """S = Q K^T, P = softmax(S), O = P V as three kernels; S and P are written to HBM and read back.

    Dao et al. 2022, algorithm 0; Chu, Liu and Lin 2026, eq 30: 4 T^2 accesses for S and P. The mask saves
    no work: S is computed whole.
    """
    square = problem.heads * problem.q_len * problem.kv_len
    row_block = problem.heads * problem.q_len * problem.head_dim * problem.itemsize
    key_block = problem.heads * problem.kv_len * problem.head_dim * problem.itemsize
    matrix = square * problem.itemsize
    product = 2 * square * problem.head_dim
    return (
        Stage("S = Q Kᵀ", row_block + key_block, matrix, product),
        Stage("P = softmax(S)", matrix, matrix, SOFTMAX_FLOPS * square),
        Stage("O = P V", matrix + key_block, row_block, product),
    )


def standard_ledger(problem: AttentionProblem, direction: str = "forward") -> dict[str, int]:
    """Bytes by tensor, reads and writes together.

    Forward, the stages of `standard_stages`. Backward, five kernels: dV = P^T dO, dP = dO V^T,
    dS = P * (dP - rowsum(P * dP)), dQ = dS K, dK = dS^T Q. P is read twice, dP written and read, dS written
    and read twice (Dao et al. 2022, algorithm 3; Chu, Liu and Lin 2026, section 3: 7 T^2 accesses).
    """
    rows = problem.heads * problem.q_len * problem.head_dim * problem.itemsize
    keys = problem.heads * problem.kv_len * problem.head_dim * problem.itemsize
    matrix = problem.heads * problem.q_len * problem.kv_len * problem.itemsize
    if direction == "forward":
        return {"Q": rows, "K": keys, "V": keys, "S": 2 * matrix, "P": 2 * matrix, "O": rows}
    squares = {"P": 2 * matrix, "dP": 2 * matrix, "dS": 3 * matrix}
    return {"Q": rows, "K": keys, "V": keys, **squares, "dO": 2 * rows, "dQ": rows, "dK": keys, "dV": keys}


def standard_bytes(problem: AttentionProblem, direction: str = "forward") -> int:
    """Bytes of the whole pass: the sum over its ledger."""
    return sum(standard_ledger(problem, direction).values())
