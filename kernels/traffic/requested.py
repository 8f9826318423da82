"""Modelled requested bytes: what each algorithm's loads and stores ask for on one problem, mask, heads and ragged tiles included.

Tests hold every formula equal, to the byte, to what a trace of the same problem counts. A cache may serve re-reads.
"""

from __future__ import annotations

from kernels.problem import AttentionProblem
from kernels.problem.tiles import visited_tiles, visiting_tiles
from kernels.traffic.modelled import LSE_BYTES, standard_bytes

STATE_BYTES = 4
"""m, l, D and every sum that an algorithm parks in HBM are float32."""


def standard_requested_bytes(problem: AttentionProblem) -> int:
    """What standard attention asks for tile by tile: `standard_bytes`, and K and V again for every further query tile.

    MSRA SH Triton Study Group 2025, "Flash-Attention (Algorithm)", the table without an L2 cache, but with the query tile kept while K
    is streamed.
    """
    key_block = problem.batch * problem.q_heads * problem.kv_len * problem.head_dim * problem.itemsize
    return standard_bytes(problem) + 2 * (problem.q_tiles - 1) * key_block


def row_wise_requested_bytes(problem: AttentionProblem) -> int:
    """What the row-wise algorithm asks for with block_m rows of S on the chip: Q and O once, K and V for every block of rows.

    Chu, Liu and Lin 2026, algorithm 1 and eq 36. No tile is skipped, whatever the mask.
    """
    per_head = 2 * problem.q_len * problem.head_dim + 2 * problem.q_tiles * problem.kv_len * problem.head_dim
    return per_head * problem.itemsize * problem.batch * problem.q_heads


def flash2_requested_bytes(problem: AttentionProblem, blocks: tuple[int, int] | None = None) -> int:
    """What FlashAttention-2 asks for: Q, O and lse once, K and V once for every query tile that sees them.

    Dao 2023 (FlashAttention-2), algorithm 1, with the tiles that the mask skips left out; `blocks` are other tile sizes than
    the problem's.
    """
    row = problem.head_dim * problem.itemsize
    per_head = problem.q_len * (2 * row + LSE_BYTES) + _streamed_keys(problem, blocks) * 2 * row
    return problem.batch * problem.q_heads * per_head


def flash1_requested_bytes(problem: AttentionProblem) -> int:
    """What FlashAttention-1 asks for: K and V once, and at every step Q, O, m and l in, O, m and l out.

    Dao et al. 2022, algorithm 1; Chu, Liu and Lin 2026, algorithm 4. O waits in HBM in float32, and is rounded at the last visit.
    """
    row, state_row = problem.head_dim * problem.itemsize, problem.head_dim * STATE_BYTES
    per_head = 2 * problem.kv_len * row
    for q_tile in range(problem.q_tiles):
        tiles = visited_tiles(problem, q_tile)
        rows, visits = min(problem.block_m, problem.q_len - q_tile * problem.block_m), tiles.end - tiles.first
        per_head += visits * rows * (row + 2 * state_row + 4 * STATE_BYTES)
        if visits:
            per_head += rows * (row - state_row + LSE_BYTES)
    return per_head * problem.batch * problem.q_heads


def backward_requested_bytes(problem: AttentionProblem) -> int:
    """What the three backward kernels ask for, all together.

    Dao 2023 (FlashAttention-2), algorithm 2, with dQ in a kernel of its own instead of atomic adds.
    """
    return preprocess_bytes(problem) + dk_dv_bytes(problem) + dq_bytes(problem)


def preprocess_bytes(problem: AttentionProblem) -> int:
    """What `_attn_bwd_preprocess` asks for: O and dO read, D written."""
    row = problem.head_dim * problem.itemsize
    return problem.batch * problem.q_heads * problem.q_len * (2 * row + STATE_BYTES)


def dk_dv_bytes(problem: AttentionProblem) -> int:
    """What `_attn_bwd_dk_dv` asks for: K, V, dK and dV once; Q, dO, lse and D again for every key tile that they see."""
    row, streamed = problem.head_dim * problem.itemsize, 0
    for kv_tile in range(problem.kv_tiles):
        tiles = visiting_tiles(problem, kv_tile)
        streamed += max(min(tiles.end * problem.block_m, problem.q_len) - tiles.first * problem.block_m, 0)
    return problem.batch * (
        problem.kv_heads * problem.kv_len * 4 * row
        + problem.q_heads * streamed * (2 * row + LSE_BYTES + STATE_BYTES)
    )


def dq_bytes(problem: AttentionProblem) -> int:
    """What `_attn_bwd_dq` asks for: Q, dO, lse, D and dQ once; K and V again for every query tile that sees them."""
    row = problem.head_dim * problem.itemsize
    per_head = problem.q_len * (3 * row + LSE_BYTES + STATE_BYTES) + _streamed_keys(problem) * 2 * row
    return problem.batch * problem.q_heads * per_head


def backward_q_outer_requested_bytes(problem: AttentionProblem) -> int:
    """What the query-outer backward asks for: at every step K and V in, the sums of dK and dV in and out.

    Chu, Liu and Lin 2026, algorithm 6; the sums are float32.
    """
    row, state_row = problem.head_dim * problem.itemsize, problem.head_dim * STATE_BYTES
    once = problem.q_len * (4 * row + LSE_BYTES)
    return problem.batch * problem.q_heads * (once + _streamed_keys(problem) * (2 * row + 4 * state_row))


def _streamed_keys(problem: AttentionProblem, blocks: tuple[int, int] | None = None) -> int:
    """Keys that the query tiles of one head load, all together."""
    block_m, block_n = blocks or (problem.block_m, problem.block_n)
    total = 0
    for q_tile in range(-(-problem.q_len // block_m)):
        tiles = visited_tiles(problem, q_tile, (block_m, block_n))
        total += max(min(tiles.end * block_n, problem.kv_len) - tiles.first * block_n, 0)
    return total


REQUESTED_BYTES = {
    "standard": standard_requested_bytes,
    "row_wise": row_wise_requested_bytes,
    "flash1": flash1_requested_bytes,
    "flash2": flash2_requested_bytes,
    "backward": backward_requested_bytes,
    "backward_q_outer": backward_q_outer_requested_bytes,
}
"""By the name of an algorithm in kernels.trace.trace.ALGORITHMS."""
