"""Splitting the keys: merging is exact, and the plan is the kernel's."""

import numpy as np
import pytest

from kernels.algorithms import run_traced
from kernels.lessons import split_kv
from kernels.problem import AttentionProblem, tiles

DECODING = AttentionProblem(q_heads=32, kv_heads=8, q_len=1, kv_len=8192, head_dim=64, block_m=16, block_n=64)


@pytest.mark.parametrize("inputs", ["normal", "growing_max", "large", "one_hot"])
@pytest.mark.parametrize("splits", [1, 3, 8, 1000])
def test_merged_parts_are_the_whole_row(inputs, splits):
    row = split_kv.split_row(DECODING.with_(kv_len=1000, inputs=inputs), splits)
    assert row.error < 1e-14
    assert row.weights.sum() == pytest.approx(1.0)
    assert row.first_key[0] == 0
    assert row.end_key[-1] == 1000
    assert (row.end_key > row.first_key).all()


def test_without_weights_the_parts_do_not_merge():
    assert split_kv.split_row(DECODING.with_(kv_len=1000, inputs="one_hot"), 4).mean_error > 0.1


def test_parts_are_those_of_the_kernel():
    problem = AttentionProblem(q_len=1, kv_len=200, head_dim=16, block_m=16, block_n=16, kv_splits=3)
    row = split_kv.split_row(problem, 3)
    run = run_traced(problem, "split_kv")
    combine = run.kernel == 1
    np.testing.assert_allclose(run.weight[combine][:, 0], row.weights, rtol=1e-4)
    last = np.flatnonzero(np.diff(run.program[~combine], append=-1))
    np.testing.assert_allclose(run.row_max[~combine][last, 0], row.row_max, rtol=1e-5)
    np.testing.assert_allclose(run.row_sum[~combine][last, 0], row.row_sum, rtol=1e-4)
    np.testing.assert_allclose(run.output[0, 0, 0], row.merged, atol=2e-3)


def test_the_rule_is_the_kernels_and_fills_one_wave():
    plan = split_kv.occupancy(DECODING, sm_count=132)
    wanted = tiles.splits_to_fill(8, 128, 132)
    assert (plan.splits, plan.tiles_per_split) == tiles.split_evenly(128, wanted)
    assert plan.programs == 8 * plan.splits
    assert plan.waves == 1
    assert plan.programs > 0.9 * 132
    alone = split_kv.occupancy(DECODING, 132, splits=1)
    assert (alone.programs, alone.tile_steps) == (8, 128)


def test_too_many_parts_need_a_second_wave():
    splits = 128
    plan = split_kv.occupancy(DECODING, 132, splits)
    assert plan.programs == 8 * splits
    assert plan.waves == -(-8 * splits // (tiles.PROGRAMS_PER_SM * 132)) > 1
    assert plan.tile_steps == plan.waves


def test_the_curve_has_each_number_of_parts_once_up_to_one_part_per_tile():
    curve = split_kv.occupancy_curve(DECODING.with_(kv_len=640), 108)
    assert [plan.splits for plan in curve] == [1, 2, 3, 4, 5, 10]
    assert all(plan.splits * plan.tiles_per_split >= 10 for plan in curve)


def test_programs_without_splitting():
    prompt = AttentionProblem(batch=2, q_heads=16, kv_heads=16, q_len=300, kv_len=300, block_m=64)
    assert split_kv.unsplit_programs(prompt) == {"FlashAttention-1": 32, "FlashAttention-2": 32 * 5}
    dealt = split_kv.dealt(100, 132)
    assert (dealt.sum(), dealt.max(), len(dealt)) == (100, 1, 132)
    assert split_kv.dealt(10**6, 132).tolist() == [tiles.PROGRAMS_PER_SM] * 132


def test_bytes_of_partial_results_and_of_the_cache():
    assert split_kv.partial_bytes(DECODING, 1) == 0
    assert split_kv.partial_bytes(DECODING, 32) == 2 * 32 * 32 * 65 * 4
    assert split_kv.cache_bytes(DECODING) == 2 * 8 * 8192 * 64 * 2


@pytest.mark.parametrize(("kv_tiles", "splits"), [(16, 5), (1, 1), (10, 10), (7, 100), (0, 3)])
def test_even_splits_cover_every_tile_and_none_is_empty(kv_tiles, splits):
    parts, per_part = tiles.split_evenly(kv_tiles, splits)
    assert (parts - 1) * per_part < max(kv_tiles, 1) <= parts * per_part
