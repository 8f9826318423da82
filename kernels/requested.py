"""Modelled requested bytes: what each algorithm's loads and stores ask for on one problem, mask, heads and ragged tiles included.

Tests hold every formula equal, to the byte, to what a trace of the same problem counts. A cache may serve re-reads.
"""

from __future__ import annotations

from kernels.problem import AttentionProblem
from kernels.tiles import visited_tiles, visiting_tiles
from kernels.traffic import LSE_BYTES, flash_requested_bytes, standard_bytes

STATE_BYTES = 4
"""m, l, D and every sum that an algorithm parks in HBM are float32."""


def standard_requested_bytes(problem: AttentionProblem) -> int:
    """What standard attention asks for tile by tile: `standard_bytes`, and K and V again for every further query tile.

    Document 004, second table (no cache), with the query tile kept while K is streamed.
    """
    key_block = problem.batch * problem.q_heads * problem.kv_len * problem.head_dim * problem.itemsize
    return standard_bytes(problem) + 2 * (problem.q_tiles - 1) * key_block


def row_wise_requested_bytes(problem: AttentionProblem) -> int:
    """What the row-wise algorithm asks for with block_m rows of S on the chip: Q and O once, K and V for every block of rows.

    Chu, Liu and Lin 2026, algorithm 1 and eq 36. No tile is skipped, whatever the mask.
    """
    per_head = 2 * problem.q_len * problem.head_dim + 2 * problem.q_tiles * problem.kv_len * problem.head_dim
    return per_head * problem.itemsize * problem.batch * problem.q_heads


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
    """What the three backward kernels ask for: D; then Q, dO, lse and D at every step past a key tile; then K and V past a query tile.

    Dao 2023 (FlashAttention-2), algorithm 2, with dQ in a kernel of its own instead of atomic adds.
    """
    heads, row = problem.batch * problem.q_heads, problem.head_dim * problem.itemsize
    keys = problem.batch * problem.kv_heads * problem.kv_len
    preprocess = heads * problem.q_len * (2 * row + STATE_BYTES)
    dk_dv = 4 * keys * row
    for kv_tile in range(problem.kv_tiles):
        tiles = visiting_tiles(problem, kv_tile)
        queries = min(tiles.end * problem.block_m, problem.q_len) - tiles.first * problem.block_m
        dk_dv += heads * max(queries, 0) * (2 * row + 2 * STATE_BYTES)
    dq = heads * problem.q_len * (3 * row + 2 * STATE_BYTES) + heads * _streamed_keys(problem) * 2 * row
    return preprocess + dk_dv + dq


def backward_q_outer_requested_bytes(problem: AttentionProblem) -> int:
    """What the query-outer backward asks for: at every step K and V in, the sums of dK and dV in and out.

    Chu, Liu and Lin 2026, algorithm 6; the sums are float32.
    """
    row, state_row = problem.head_dim * problem.itemsize, problem.head_dim * STATE_BYTES
    once = problem.q_len * (4 * row + LSE_BYTES)
    return problem.batch * problem.q_heads * (once + _streamed_keys(problem) * (2 * row + 4 * state_row))


def _streamed_keys(problem: AttentionProblem) -> int:
    """Keys that the query tiles of one head load, all together."""
    total = 0
    for q_tile in range(problem.q_tiles):
        tiles = visited_tiles(problem, q_tile)
        total += max(min(tiles.end * problem.block_n, problem.kv_len) - tiles.first * problem.block_n, 0)
    return total


REQUESTED_BYTES = {
    "standard": standard_requested_bytes,
    "row_wise": row_wise_requested_bytes,
    "flash1": flash1_requested_bytes,
    "flash2": flash_requested_bytes,
    "backward": backward_requested_bytes,
    "backward_q_outer": backward_q_outer_requested_bytes,
}
"""By the name of an algorithm in kernels.trace.ALGORITHMS."""
