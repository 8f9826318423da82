"""Modelled bytes and FLOPs of standard attention: three kernels forward, five backward.

Two counts: requested bytes, where a tile that is read again counts again; and the least, each matrix once per
kernel.
"""

from typing import NamedTuple

from kernels.problem import AttentionProblem

SOFTMAX_FLOPS = 3
"""Operations per element of S in softmax: subtract, exponential, divide.

Chu, Liu and Lin 2026, "Memory Versus Computation".
"""


class Stage(NamedTuple):
    """One kernel: bytes it moves between HBM and SRAM, and its floating-point operations."""

    name: str
    bytes_moved: int
    flops: int


def standard_stages(problem: AttentionProblem) -> tuple[Stage, Stage, Stage]:
    """S = Q K^T, P = softmax(S), O = P V as three kernels; S and P are written to HBM and read back.

    Dao et al. 2022, algorithm 0; Chu, Liu and Lin 2026, eq 30: 4 T^2 accesses for S and P. The mask saves
    no work: S is computed whole.
    """
    least, matrix = standard_ledger(problem), matrix_bytes(problem)
    product = 2 * problem.scores * problem.head_dim
    return (
        Stage("S = Q Kᵀ", least["Q"] + least["K"] + matrix, product),
        Stage("P = softmax(S)", 2 * matrix, SOFTMAX_FLOPS * problem.scores),
        Stage("O = P V", matrix + least["V"] + least["O"], product),
    )


def standard_ledger(problem: AttentionProblem, direction: str = "forward") -> dict[str, int]:
    """Bytes by tensor, reads and writes together.

    Forward, the stages of `standard_stages`. Backward, five kernels: dV = P^T dO, dP = dO V^T,
    dS = P * (dP - rowsum(P * dP)), dQ = dS K, dK = dS^T Q. P is read twice, dP written and read, dS written
    and read twice (Dao et al. 2022, algorithm 3; Chu, Liu and Lin 2026, section 3: 7 T^2 accesses).
    """
    rows = problem.heads * problem.q_len * problem.head_dim * problem.itemsize
    keys = problem.heads * problem.kv_len * problem.head_dim * problem.itemsize
    matrix = matrix_bytes(problem)
    if direction == "forward":
        return {"Q": rows, "K": keys, "V": keys, "S": 2 * matrix, "P": 2 * matrix, "O": rows}
    squares = {"P": 2 * matrix, "dP": 2 * matrix, "dS": 3 * matrix}
    return {"Q": rows, "K": keys, "V": keys, **squares, "dO": 2 * rows, "dQ": rows, "dK": keys, "dV": keys}


def standard_bytes(problem: AttentionProblem, direction: str = "forward") -> int:
    """Least bytes of the whole pass, each matrix once per kernel: the sum over its ledger."""
    return sum(standard_ledger(problem, direction).values())


def matrix_bytes(problem: AttentionProblem) -> int:
    """S or P once, over all heads."""
    return problem.scores * problem.itemsize


def product_bytes(problem: AttentionProblem) -> int:
    """Q or O once, K or V once per query tile, S or P once.

    MSRA SH Triton Study Group 2025, the table without an L2 cache; unlike there, the query tile is kept while
    K is streamed. The mask saves no bytes.
    """
    row_bytes = problem.head_dim * problem.itemsize
    rows = problem.q_len + problem.q_tiles * problem.kv_len
    return matrix_bytes(problem) + problem.heads * rows * row_bytes


def requested_ledger(problem: AttentionProblem, direction: str = "forward") -> dict[str, int]:
    """Requested bytes by tensor with the problem's tiles, reads and writes together.

    Each product keeps one tile of its result and reads the other operand once per such tile: K and V once per
    query tile; backward also Q and dO once per key tile, for dK and dV. All else counts as in the ledger.
    """
    row_bytes = problem.heads * problem.head_dim * problem.itemsize
    again = dict.fromkeys(("K", "V"), (problem.q_tiles - 1) * problem.kv_len * row_bytes)
    if direction == "backward":
        again |= dict.fromkeys(("Q", "dO"), (problem.kv_tiles - 1) * problem.q_len * row_bytes)
    least = standard_ledger(problem, direction)
    return {name: size + again.get(name, 0) for name, size in least.items()}


def standard_requested(problem: AttentionProblem, direction: str = "forward") -> int:
    """Requested bytes of the whole pass: the sum over their ledger."""
    return sum(requested_ledger(problem, direction).values())
