"""The numbers of the last chapter: split keys, clocks of units."""

import numpy as np
import pytest

from kernels.algorithms import run_traced
from kernels.problem import AttentionProblem, tiles
from viz.learn.after import maths

DECODING = AttentionProblem(q_heads=32, kv_heads=8, q_len=1, kv_len=8192, head_dim=64, block_m=16, block_n=64)
ROW = AttentionProblem(q_len=1, kv_len=1000, head_dim=64, block_m=16, block_n=64)


@pytest.mark.parametrize(
    ("inputs", "splits"), [("normal", 1), ("growing_max", 3), ("large", 1000), ("one_hot", 3)]
)
def test_merged_parts_are_the_whole_row(inputs, splits):
    row = maths.split_row(ROW.with_(inputs=inputs), splits)
    assert row.error < 1e-14
    assert row.weights.sum() == pytest.approx(1.0)
    if splits == 1 or inputs == "one_hot":
        assert (row.mean_error > 0.1) == (splits > 1)


def test_parts_and_their_price_are_those_of_the_kernel():
    problem = AttentionProblem(q_len=1, kv_len=200, head_dim=16, block_m=16, block_n=16, kv_splits=3)
    row = maths.split_row(problem, 3)
    run = run_traced(problem, "split_kv")
    combine = run.kernel == 1
    np.testing.assert_allclose(run.weight[combine][:, 0], row.weights, rtol=1e-4)
    last = np.flatnonzero(np.diff(run.program[~combine], append=-1))
    np.testing.assert_allclose(run.row_max[~combine][last, 0], row.row_max, rtol=1e-5)
    np.testing.assert_allclose(run.row_sum[~combine][last, 0], row.row_sum, rtol=1e-4)
    np.testing.assert_allclose(run.output[0, 0, 0], row.weights @ row.outputs, atol=2e-3)
    parts = len(row.weights)
    partial = run.total_bytes - maths.cache_bytes(problem) - (parts + 1) * 16 * 2 - 4  # Q, O and lse
    assert (partial, maths.partial_bytes(problem, 1)) == (maths.partial_bytes(problem, parts), 0)
    assert maths.cache_bytes(DECODING) == 2 * 8 * 8192 * 64 * 2


def test_the_rule_is_the_kernels_and_fills_one_wave():
    plan = maths.occupancy(DECODING, sm_count=132)
    assert (plan.splits, plan.tiles_per_split) == tiles.split_evenly(128, tiles.splits_to_fill(8, 128, 132))
    assert 0.9 * 132 < plan.programs == 8 * plan.splits
    assert plan.waves == 1
    alone, most = (maths.occupancy(DECODING, 132, parts) for parts in (1, 128))
    assert (alone.programs, alone.tile_steps) == (8, 128)
    assert most.tile_steps == most.waves == -(-8 * 128 // (tiles.PROGRAMS_PER_SM * 132)) > 1
    assert sorted(maths.dealt(100, 132)) == [0] * 32 + [1] * 100
    assert maths.dealt(10**6, 132).tolist() == [tiles.PROGRAMS_PER_SM] * 132


def test_clocks_of_the_units():
    assert maths.tile_clocks(128)["H100"] == {"tensor cores": 2048, "exponentials": 1024}
    assert maths.tile_clocks(64)["B200"] == {"tensor cores": 512, "exponentials": 1024}
