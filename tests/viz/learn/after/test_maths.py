"""The numbers of the last chapter: split keys, late rescales, 2^x, clocks of units, 8-bit rounding."""

import numpy as np
import pytest
import torch

from kernels.algorithms import run_traced
from kernels.problem import AttentionProblem, tiles
from viz.learn.after import maths
from viz.learn.after.maths import OutlierInputs, quantize, round_e4m3

DECODING = AttentionProblem(q_heads=32, kv_heads=8, q_len=1, kv_len=8192, head_dim=64, block_m=16, block_n=64)
ROW = AttentionProblem(q_len=1, kv_len=1000, head_dim=64, block_m=16, block_n=64)
RESCALED = AttentionProblem(q_len=32, kv_len=512, head_dim=16, block_m=16, block_n=32, inputs="growing_max")
OUTLIERS = OutlierInputs(length=256, head_dim=64, outlier_share=0.01, outlier_size=30.0, heads=2)


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


@pytest.mark.parametrize("inputs", ["growing_max", "falling_max", "large"])
def test_no_threshold_changes_the_output_and_a_larger_one_rescales_less(inputs):
    problem = RESCALED.with_(inputs=inputs)
    results = [maths.late_rescale(problem, threshold) for threshold in maths.THRESHOLDS]
    for result in results:
        assert result.largest_error < 1e-12
        assert result.largest_weight <= 2.0**result.threshold * (1 + 1e-12)
    rescales = [result.rescales for result in results]
    assert rescales == sorted(rescales, reverse=True)
    if inputs == "growing_max":
        assert rescales[0] == 32 * 15 > 8 * rescales[-1]
    if inputs == "falling_max":
        assert rescales[0] == 0


def test_polynomials_come_closer_with_their_degree_and_degree_three_is_below_the_rounding_of_float16():
    errors = [maths.exp2_error(degree) for degree in maths.DEGREES]
    assert errors == sorted(errors, reverse=True)
    assert errors[2] < maths.ROUNDING["float16"] < errors[1]


def test_clocks_of_the_units_and_of_a_polynomial():
    assert maths.tile_clocks(128)["H100"] == {"tensor cores": 2048, "exponentials": 1024, "polynomial": 0}
    assert maths.tile_clocks(64, 0.25)["B200"] == {"tensor cores": 512, "exponentials": 768, "polynomial": 96}


def test_rounding_is_that_of_torchs_float8():
    every = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).double().numpy()
    every = every[np.isfinite(every)]
    assert np.array_equal(round_e4m3(every), every)
    random = np.random.default_rng(0).standard_normal(2000)
    numbers = np.concatenate([np.linspace(-448, 448, 2001), random, 2.0 ** np.arange(-14, 9), [0.0]])
    numbers = numbers.astype(np.float32)
    expected = torch.from_numpy(numbers).to(torch.float8_e4m3fn).double().numpy()
    assert np.array_equal(round_e4m3(numbers.astype(np.float64)), expected)
    assert round_e4m3(np.array([1e9, -500.0])).tolist() == [448.0, -448.0]


def test_a_block_with_small_numbers_keeps_them():
    matrix = np.full((1, 128, 16), 1e-6)
    matrix[0, :64] = 448.0
    assert not quantize(matrix, None)[0, 64:].any()
    np.testing.assert_allclose(quantize(matrix, 64), matrix, rtol=1e-12)
    assert not quantize(np.zeros((1, 100, 16)), 64).any()


def test_the_rotation_keeps_every_score_spreads_an_outlier_and_lowers_the_error():
    for head_dim in maths.ROTATED_HEAD_DIMS:
        rotation = maths.random_rotation(head_dim, 3)
        np.testing.assert_allclose(rotation @ rotation.T, np.eye(head_dim), atol=1e-12)
        assert np.unique(np.abs(rotation).round(12)).size == 1
    row, before, after = maths.loudest_row(OUTLIERS)
    assert np.abs(before).max() == np.abs(OUTLIERS.draw()[1][0, row]).max() > 2 * np.abs(after).max()
    half, tensor, _, rotated, rotated_block = (result.rmse for result in maths.compare(OUTLIERS, 64))
    assert rotated < tensor
    assert half < rotated_block / 20
