"""Modelled traffic and work of attention. Every number here is a formula; counted and measured numbers live elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernels.problem import AttentionProblem

if TYPE_CHECKING:
    from kernels.trace.trace import Trace

LSE_BYTES = 4
"""lse is float32 whatever the type of the inputs."""
BACKWARD_FLOPS = 2.5
"""Backward over forward: five matrix products instead of two."""


@dataclass(frozen=True)
class Stage:
    """One kernel of an algorithm: bytes it moves between HBM and SRAM, and its floating-point operations."""

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
    """S = Q K^T, P = softmax(S), O = P V as three kernels, with S and P written to HBM and read back.

    Dao et al. 2022 (FlashAttention), algorithm 0; Chu, Liu and Lin 2026, eq 30: 4 T^2 accesses for S and P. The mask
    saves nothing: S is computed whole. Softmax counts 3 operations an element (the same slides).
    """
    heads = problem.batch * problem.q_heads
    square = heads * problem.q_len * problem.kv_len
    row_block = heads * problem.q_len * problem.head_dim * problem.itemsize
    key_block = heads * problem.kv_len * problem.head_dim * problem.itemsize
    matrix = square * problem.itemsize
    product = 2 * square * problem.head_dim
    return (
        Stage("S = Q Kᵀ", row_block + key_block, matrix, product),
        Stage("P = softmax(S)", matrix, matrix, 3 * square),
        Stage("O = P V", matrix + key_block, row_block, product),
    )


def standard_bytes(problem: AttentionProblem) -> int:
    """Bytes of standard attention: the sum over its three kernels."""
    return sum(stage.bytes_moved for stage in standard_stages(problem))


def backward_standard_ledger(problem: AttentionProblem) -> dict[str, int]:
    """Bytes of the standard backward pass by tensor, reads and writes together, as five kernels:

    dV = P^T dO, dP = dO V^T, dS = P * (dP - rowsum(P * dP)), dQ = dS K, dK = dS^T Q. Dao et al. 2022, algorithm 3; Chu, Liu and
    Lin 2026, section 3: 7 T^2 accesses (P read twice, dP written and read, dS written and read twice).
    """
    heads = problem.batch * problem.q_heads
    rows, keys = (
        heads * length * problem.head_dim * problem.itemsize for length in (problem.q_len, problem.kv_len)
    )
    matrix = heads * problem.q_len * problem.kv_len * problem.itemsize
    return {
        "Q": rows,
        "K": keys,
        "V": keys,
        "P": 2 * matrix,
        "dP": 2 * matrix,
        "dS": 3 * matrix,
        "dO": 2 * rows,
        "dQ": rows,
        "dK": keys,
        "dV": keys,
    }


def backward_standard_bytes(problem: AttentionProblem) -> int:
    """Bytes of the standard backward pass: the sum over its ledger."""
    return sum(backward_standard_ledger(problem).values())


def standard_ledger(problem: AttentionProblem) -> dict[str, int]:
    """Bytes of standard attention by tensor, reads and writes together: S and P each cross the bus twice."""
    score, softmax, product = standard_stages(problem)
    row_block = product.bytes_written
    key_block = score.bytes_read - row_block
    return {
        "Q": row_block,
        "K": key_block,
        "V": key_block,
        "S": 2 * score.bytes_written,
        "P": 2 * softmax.bytes_written,
        "O": row_block,
    }


def compulsory_bytes(problem: AttentionProblem, direction: str = "forward") -> int:
    """Least bytes of a forward pass: Q, K and V read once, O and lse written once; and of a backward pass:
    Q, K, V, O, dO and lse read once, dQ, dK and dV written once.
    """
    rows = problem.batch * problem.q_heads * problem.q_len
    keys = problem.batch * problem.kv_heads * problem.kv_len
    times = 2 if direction == "forward" else 4
    return times * (rows + keys) * problem.head_dim * problem.itemsize + rows * LSE_BYTES


def forward_flops(problem: AttentionProblem) -> int:
    """4 b h q_len kv_len d, half of it when causal: the convention of FlashAttention's benchmarks."""
    flops = 4 * problem.batch * problem.q_heads * problem.q_len * problem.kv_len * problem.head_dim
    return flops // 2 if problem.is_causal else flops


def attention_flops(problem: AttentionProblem, direction: str) -> float:
    """Floating-point operations of a pass, by FlashAttention's count: backward 2.5 times forward."""
    return forward_flops(problem) * (BACKWARD_FLOPS if direction == "backward" else 1.0)


@dataclass(frozen=True)
class SramPart:
    """One block that a program keeps on the chip."""

    name: str
    bytes: int
    place: str
    """"shared memory" or "registers": where a Hopper kernel keeps it."""


def sram_parts(problem: AttentionProblem, kernel: str = "_attn_fwd") -> tuple[SramPart, ...]:
    """What one program of a kernel (a name of Trace.kernels) keeps on the chip, with the bytes of its tiles (one pipeline stage).

    Dao 2023, algorithms 1 and 2, line by line; the torch algorithms by their own lines. Sums, scores and row state are float32.
    """
    m, n, d, itemsize = problem.block_m, problem.block_n, problem.head_dim, problem.itemsize
    q_tile, kv_tile, square = m * d * itemsize, n * d * itemsize, m * n * 4
    whole_rows = m * problem.kv_len * 4
    bytes_of = {
        "Q": q_tile, "O": q_tile, "dO": q_tile, "K": kv_tile, "V": kv_tile, "S, P": square, "dS": square, "S": square, "P": square,
        "acc O": m * d * 4, "dQ": m * d * 4, "dK": n * d * 4, "dV": n * d * 4, "m, l": m * 8, "lse, D": m * 8, "lse": m * 4, "D": m * 4,
        "rows of S": whole_rows, "rows of P": whole_rows, "partial O": m * d * 4, "m": m * 4,
    }  # fmt: skip
    places = {name: "shared memory" if name in TILES_OF_HBM else "registers" for name in bytes_of}
    return tuple(
        SramPart(name.removeprefix("acc "), bytes_of[name], places[name]) for name in ON_CHIP[kernel]
    )


TILES_OF_HBM = ("Q", "K", "V", "O", "dO", "partial O", "S", "P")
ON_CHIP = {
    "_attn_fwd": ("Q", "K", "V", "S, P", "acc O", "m, l"),
    "_attn_fwd_kv_outer": ("K", "V", "Q", "S, P", "acc O", "m, l"),
    "_attn_split_kv": ("Q", "K", "V", "S, P", "acc O", "m, l"),
    "_attn_combine": ("partial O", "acc O", "lse"),
    "_attn_bwd_preprocess": ("O", "dO", "D"),
    "_attn_bwd_dk_dv": ("K", "V", "Q", "dO", "S, P", "dS", "dK", "dV", "lse, D"),
    "_attn_bwd_dq": ("Q", "dO", "K", "V", "S, P", "dS", "dQ", "lse, D"),
    "_attn_bwd_q_outer": ("Q", "dO", "O", "K", "V", "S, P", "dS", "dK", "dV", "dQ", "lse, D"),
    "row-wise, scores": ("Q", "K", "rows of S", "m"),
    "row-wise, values": ("V", "rows of P", "acc O"),
    "scores": ("Q", "K", "S"),
    "softmax, read S": ("rows of S", "m"),
    "softmax, write P": ("rows of P", "m, l"),
    "product": ("P", "V", "acc O"),
}
"""What lies on the chip, by the name of the kernel; "acc O" is the float32 sum that becomes a tile of O."""


def step_flops(trace: Trace) -> np.ndarray:
    """float64 (steps,): modelled floating-point operations of each tile step, whole tiles as the matrix units compute them.

    Products only (2 m n k each), as FlashAttention counts; D and the combining of parts count their own few operations.
    """
    problem = trace.problem
    tile = problem.block_m * problem.block_n * problem.head_dim
    rows = problem.block_m * problem.head_dim
    of_kernel = np.array(
        [
            PRODUCTS.get(name, 0) * 2.0 * tile + (2.0 * rows if name in ROW_WORK else 0.0)
            for name in trace.kernels
        ]
    )
    visited = (trace.kv_tile >= 0) & (trace.q_tile >= 0) | np.isin(
        trace.kernel, [i for i, name in enumerate(trace.kernels) if name in ROW_WORK]
    )
    return of_kernel[trace.kernel] * visited


PRODUCTS = {
    "_attn_fwd": 2, "_attn_fwd_kv_outer": 2, "_attn_split_kv": 2, "_attn_bwd_dk_dv": 4, "_attn_bwd_dq": 3, "_attn_bwd_q_outer": 5,
    "row-wise, scores": 1, "row-wise, values": 1, "scores": 1, "product": 1,
}  # fmt: skip
"""Matrix products of a tile step."""
ROW_WORK = ("_attn_bwd_preprocess", "_attn_combine")
