"""Five ideas: what falls with what, and costs against formulas written out here."""

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS
from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_inputs
from viz.learn.ideas.maths import (
    NEEDS,
    chip_capacity,
    costs,
    falls_with,
    in_whole_rows,
    three_pass_bytes,
    tile_sums,
    whole_row_bytes,
)

GPU = GPUS["H200"]
PROBLEM = AttentionProblem(q_len=4096, kv_len=4096, head_dim=64, block_m=128, block_n=64)
N, D = 4096, 64
STANDARD = ALGORITHMS["standard"]


def test_what_falls_with_what():
    fallen = {name: falls_with(name, PROBLEM, GPU) for name in NEEDS}
    assert fallen == {
        "fusion": set(),
        "tiling": {"fusion"},
        "online softmax": {"tiling", "fusion"},
        "recomputation": {"fusion"},
        "lse": {"recomputation", "fusion"},
    }
    assert falls_with(None, PROBLEM, GPU) == set()


def test_a_row_in_one_tile_needs_no_online_softmax_and_rows_that_fit_need_no_tiling():
    one_tile = PROBLEM.with_(q_len=64, kv_len=64)
    assert falls_with("online softmax", one_tile, GPU) == set()
    assert costs(one_tile, GPU, "online softmax").weight_sum == pytest.approx(1)
    short = PROBLEM.with_(q_len=512, kv_len=512)
    assert in_whole_rows(short, GPU) == short
    assert falls_with("tiling", short, GPU) == set()
    assert falls_with("online softmax", short, GPU) == {"tiling"}


def test_costs_with_all_five_and_without_one():
    every, without = costs(PROBLEM, GPU), {name: costs(PROBLEM, GPU, name) for name in NEEDS}
    assert every.forward_bytes == 2 * N * D * 2 + 4 * N + (N // 128) * 2 * N * D * 2
    assert every.kept_bytes == 4 * N
    assert every.chip_bytes == ALGORITHMS["flash2"].chip_bytes(PROBLEM)
    assert every.weight_sum == pytest.approx(1)
    assert every.output_error < 1e-14
    whole_rows = 128 * N * 4 + 4 * 128 * D + 2 * 64 * D * 2 + 128 * D * 2 + 128 * 8
    assert whole_row_bytes(PROBLEM) == whole_rows > chip_capacity(GPU)
    assert without["fusion"].forward_bytes == STANDARD.requested_bytes(PROBLEM)
    assert without["fusion"].chip_bytes == 128 * 64 * 4 + 64 * D * 2 + 128 * D * 4
    twice = (N // 128) * N * D * 2
    assert without["recomputation"].forward_bytes == every.forward_bytes + twice + 2 * N * N
    assert without["lse"].kept_bytes == without["recomputation"].kept_bytes == 2 * N * N
    in_rows = tile_sums(PROBLEM, N, online=True)
    assert {without[name].output_error for name in ("fusion", "tiling")} == {in_rows[1]}
    assert without["lse"].output_error == every.output_error != in_rows[1]
    assert without["online softmax"].weight_sum == pytest.approx(64)
    assert without["online softmax"].output_error > 0.1
    assert without["online softmax"].kept_bytes == 4 * N  # whole rows give an lse too
    assert three_pass_bytes(PROBLEM) == every.forward_bytes + 32 * 2 * N * D * 2


def test_whole_rows_take_smaller_query_tiles_until_three_kernels_move_less():
    short, long = (PROBLEM.with_(q_len=length, kv_len=length) for length in (2048, 4096))
    whole = in_whole_rows(short, GPU)
    assert whole == short.with_(block_m=32)
    assert whole_row_bytes(whole) <= chip_capacity(GPU) < whole_row_bytes(short.with_(block_m=64))
    assert falls_with("tiling", short, GPU) == set()
    assert costs(short, GPU).forward_bytes < costs(short, GPU, "tiling").forward_bytes
    assert costs(short, GPU, "tiling").forward_bytes < STANDARD.requested_bytes(short)
    assert in_whole_rows(long, GPU) is None
    assert costs(long, GPU, "tiling").forward_bytes == STANDARD.requested_bytes(long)
    assert chip_capacity(GPU) == (227 + 256) * 1024


def test_to_keep_p_its_tiles_wait_for_the_last_key_unless_whole_rows_are_on_the_chip():
    short = PROBLEM.with_(q_len=512, kv_len=512)
    assert costs(short, GPU, "lse").forward_bytes == costs(short, GPU).forward_bytes + 2 * 512 * 512
    wide = PROBLEM.with_(head_dim=256, block_m=32)  # K twice would be more than three kernels
    assert costs(wide, GPU, "lse").forward_bytes == STANDARD.requested_bytes(wide)


def test_the_check_uses_the_inputs_of_the_kernels():
    problem = AttentionProblem(q_len=32, kv_len=40, head_dim=16, block_n=8, dtype="float32", seed=3)
    query, key, value = (tensor[0, 0].double().numpy() for tensor in make_inputs(problem))
    scores = query[:8] @ key.T / 4
    tiles = [np.exp(scores[:, at : at + 8]) for at in range(0, 40, 8)]
    wrong = sum(
        tile / tile.sum(axis=1, keepdims=True) @ value[8 * index : 8 * index + 8]
        for index, tile in enumerate(tiles)
    )
    right = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True) @ value
    error = np.abs(wrong - right).max()
    assert tile_sums(problem, 8, online=False) == (pytest.approx(5), pytest.approx(error))
    assert tile_sums(problem, 8, online=True) == (pytest.approx(1), pytest.approx(0, abs=1e-14))
