"""Kinds of tiles: what the mask leaves of every tile, and what an algorithm makes of it."""

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.problem import AttentionProblem
from tests.anywhere import ANYWHERE
from viz.player.tiles import tile_kinds

PROBLEM = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=16, mask="causal")
SKIPPED, PARTIAL, FULL, HIDDEN = range(4)


@pytest.mark.parametrize(("q_len", "mask"), [(3, "window"), (45, "causal"), (45, "window")])
@pytest.mark.parametrize("algorithm", ANYWHERE)
def test_skipped_tiles_are_those_that_no_program_visits(algorithm, q_len, mask):
    problem = PROBLEM.with_(mask=mask, q_len=q_len, kv_len=45, window_left=9, q_heads=2, kv_heads=1)
    trace = run_traced(problem, algorithm)
    kinds = tile_kinds(problem, ALGORITHMS[algorithm])
    visited = np.zeros(kinds.shape, bool)
    tiled = (trace.q_tile >= 0) & (trace.kv_tile >= 0)
    visited[trace.q_tile[tiled], trace.kv_tile[tiled]] = True
    assert np.array_equal(kinds != SKIPPED, visited)


def test_rows_of_several_heads_in_a_tile_are_judged_together():
    """Tile 0 holds queries 0 to 2 of both heads; key tile 2 starts after the last key that query 1 sees."""
    problem = PROBLEM.with_(q_len=3, kv_len=34, q_heads=2, kv_heads=1, block_m=4)
    assert tile_kinds(problem, ALGORITHMS["split_kv"]).tolist() == [[FULL, FULL, PARTIAL]] * 2
    hidden = problem.with_(q_len=40, kv_len=40, block_n=4, block_m=16)
    kinds = tile_kinds(hidden, ALGORITHMS["split_kv"])
    assert (kinds[0, 4:] == HIDDEN).all()
    assert (kinds[0, :1] == PARTIAL).all()
