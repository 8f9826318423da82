"""Parts that programs keep on the chip, with the bytes of one pipeline stage. Sums and scores are float32."""

from kernels.device.gpus import REGISTERS, SHARED
from kernels.problem import AttentionProblem
from kernels.trace.algorithm import BytesOf, ChipPart

FLOAT32_BYTES = 4
"""m, l, lse, D and every sum are float32, on the chip as in HBM."""


def row_bytes(problem: AttentionProblem) -> int:
    """Bytes of one row of Q, K, V, O or a gradient."""
    return problem.head_dim * problem.itemsize


def sum_row_bytes(problem: AttentionProblem) -> int:
    """Bytes of one row of a float32 sum."""
    return problem.head_dim * FLOAT32_BYTES


def columns(problem: AttentionProblem, least: int = 64) -> int:
    """Columns of a tile on the chip: head_dim, padded to a power of two; on Hopper at least 64."""
    return max(least, 1 << (problem.head_dim - 1).bit_length())


def slots(name: str, rows_of: BytesOf, least: int = 64) -> ChipPart:
    """Room for tiles of inputs in shared memory; `rows_of` gives the rows of all together."""
    return ChipPart(
        name, lambda problem: rows_of(problem) * columns(problem, least) * problem.itemsize, (name,), SHARED
    )


def padded_sum(name: str, rows_of: BytesOf, least: int = 64, memory: str = REGISTERS) -> ChipPart:
    """A float32 sum of so many rows."""
    return ChipPart(
        name, lambda problem: rows_of(problem) * columns(problem, least) * FLOAT32_BYTES, (name,), memory
    )


def query_tile(name: str) -> ChipPart:
    return slots(name, lambda problem: problem.block_m, 16)


def key_tile(name: str) -> ChipPart:
    return slots(name, lambda problem: problem.block_n, 16)


def query_sum(name: str, memory: str = REGISTERS) -> ChipPart:
    """A float32 sum with the rows of a query tile."""
    return padded_sum(name, lambda problem: problem.block_m, 16, memory)


def key_sum(name: str) -> ChipPart:
    """A float32 sum with the rows of a key tile."""
    return padded_sum(name, lambda problem: problem.block_n, 16)


def scores(name: str, *holds: str, memory: str = REGISTERS) -> ChipPart:
    """A tile of scores, or of something of the same shape."""
    return ChipPart(
        name, lambda problem: problem.block_m * problem.block_n * FLOAT32_BYTES, holds or (name,), memory
    )


def whole_rows(name: str, holds: str) -> ChipPart:
    """All scores of the rows of a query tile."""
    return ChipPart(name, lambda problem: problem.block_m * problem.kv_len * FLOAT32_BYTES, (holds,))


def row_state(*holds: str) -> ChipPart:
    """Float32 numbers with one value per row of a query tile."""
    return ChipPart(", ".join(holds), lambda problem: len(holds) * problem.block_m * FLOAT32_BYTES, holds)
