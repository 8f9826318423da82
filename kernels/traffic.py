"""Modelled traffic and work of attention. Every number here is a formula; counted and measured numbers live elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.problem import AttentionProblem
from kernels.tiles import visited_tiles

LSE_BYTES = 4
"""lse is float32 whatever the type of the inputs."""


@dataclass(frozen=True)
class Stage:
    """One kernel of an algorithm: bytes it moves between HBM and SRAM, and its floating-point operations."""

    name: str
    bytes_read: int
    bytes_written: int
    flops: int

    @property
    def bytes_moved(self) -> int:
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


def standard_ledger(problem: AttentionProblem) -> dict[str, int]:
    """Bytes of standard attention by tensor, reads and writes together: S and P each cross the bus twice."""
    score, softmax, product = standard_stages(problem)
    row_block = product.bytes_written
    key_block = score.bytes_read - row_block
    return {"Q": row_block, "K": key_block, "V": key_block, "S": 2 * score.bytes_written, "P": 2 * softmax.bytes_written, "O": row_block}


def flash_requested_bytes(problem: AttentionProblem) -> int:
    """Bytes that FlashAttention-2's loads and stores ask for: Q, O and lse once, K and V once for every query tile.

    Dao 2023 (FlashAttention-2), algorithm 1, with the mask's skipped tiles left out. A cache may serve re-reads.
    """
    per_head = 2 * problem.q_len * problem.head_dim * problem.itemsize + problem.q_len * LSE_BYTES
    for q_tile in range(problem.q_tiles):
        tiles = visited_tiles(problem, q_tile)
        keys = min(tiles.end * problem.block_n, problem.kv_len) - tiles.first * problem.block_n
        per_head += 2 * max(keys, 0) * problem.head_dim * problem.itemsize
    return per_head * problem.batch * problem.q_heads


def compulsory_bytes(problem: AttentionProblem) -> int:
    """Least bytes any forward kernel moves: Q, K and V read once, O and lse written once."""
    rows = problem.batch * problem.q_heads * problem.q_len
    keys = problem.batch * problem.kv_heads * problem.kv_len
    return (2 * rows + 2 * keys) * problem.head_dim * problem.itemsize + rows * LSE_BYTES


def forward_flops(problem: AttentionProblem) -> int:
    """4 b h q_len kv_len d, half of it when causal: the convention of FlashAttention's benchmarks."""
    flops = 4 * problem.batch * problem.q_heads * problem.q_len * problem.kv_len * problem.head_dim
    return flops // 2 if problem.is_causal else flops


@dataclass(frozen=True)
class SramPart:
    """One block that a program keeps on the chip."""

    name: str
    bytes: int
    place: str
    """"shared memory" or "registers": where a Hopper kernel keeps it."""


def sram_parts(problem: AttentionProblem) -> tuple[SramPart, ...]:
    """What one program of FlashAttention-2 keeps on the chip, with the bytes of its tiles (one pipeline stage).

    Dao 2023, algorithm 1, line by line. Scores, accumulator and row state are float32.
    """
    q_tile = problem.block_m * problem.head_dim * problem.itemsize
    kv_tile = problem.block_n * problem.head_dim * problem.itemsize
    return (
        SramPart("Q", q_tile, "shared memory"),
        SramPart("K", kv_tile, "shared memory"),
        SramPart("V", kv_tile, "shared memory"),
        SramPart("S, P", problem.block_m * problem.block_n * 4, "registers"),
        SramPart("O", problem.block_m * problem.head_dim * 4, "registers"),
        SramPart("m, l", problem.block_m * 8, "registers"),
    )
