"""Five ideas: what falls with what, and costs against formulas written out here."""

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS
from kernels.device.gpus import GPUS
from kernels.lessons.ideas import (
    NEEDS,
    chip_capacity,
    costs,
    falls_with,
    idle_without,
    longest_whole_row,
    three_pass_bytes,
    tile_sums,
    whole_row_bytes,
    whole_rows_fit,
)
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_inputs

GPU = GPUS["H200"]
PROBLEM = AttentionProblem(q_len=4096, kv_len=4096, head_dim=64, block_m=128, block_n=64)
N, D = 4096, 64
STANDARD = ALGORITHMS["standard"]


@pytest.mark.parametrize(
    ("left_out", "fallen"),
    [
        ("fusion", set()),
        ("tiling", {"fusion"}),
        ("online softmax", {"tiling", "fusion"}),
        ("recomputation", {"fusion"}),
        ("lse", {"recomputation", "fusion"}),
    ],
)
def test_what_falls_with_what(left_out, fallen):
    assert falls_with(left_out, PROBLEM, GPU) == fallen


def test_a_row_in_one_tile_needs_no_online_softmax_and_rows_that_fit_need_no_tiling():
    one_tile = PROBLEM.with_(q_len=64, kv_len=64)
    assert falls_with("online softmax", one_tile, GPU) == set()
    assert costs(one_tile, GPU, "online softmax").weight_sum == pytest.approx(1)
    short = PROBLEM.with_(q_len=512, kv_len=512)
    assert whole_rows_fit(short, GPU)
    assert falls_with("tiling", short, GPU) == set()
    assert falls_with("online softmax", short, GPU) == {"tiling"}


@pytest.mark.parametrize("length", [64, 512, 4096])
@pytest.mark.parametrize("block_m", [16, 128])
@pytest.mark.parametrize("left_out", [None, *NEEDS])
def test_costs_follow_from_what_stands(length, block_m, left_out):
    problem = PROBLEM.with_(q_len=length, kv_len=length, block_m=block_m)
    now, every = costs(problem, GPU, left_out), costs(problem, GPU)
    gone = falls_with(left_out, problem, GPU) | {left_out}
    idle = idle_without(left_out, problem, GPU)
    assert not gone & idle
    if "recomputation" in gone:
        assert now.kept_bytes == 2 * length**2
        assert now.backward_flops == 8 * length**2 * D
        assert "lse" in gone | idle
    else:
        assert now.kept_bytes == 4 * length
        assert now.backward_flops == every.backward_flops
    if "fusion" not in gone:
        assert now.forward_bytes == every.forward_bytes
    assert now.chip_bytes <= chip_capacity(GPU)  # exact attention that runs
    if "tiling" in gone:
        fused = whole_rows_fit(problem, GPU)
        separate = costs(problem, GPU, "fusion")
        assert now.chip_bytes == (whole_row_bytes(problem) if fused else separate.chip_bytes)
        assert now.forward_bytes == (every if fused else separate).forward_bytes
        assert "online softmax" in gone | idle


def test_costs_with_all_five():
    every = costs(PROBLEM, GPU)
    assert every.forward_bytes == 2 * N * D * 2 + 4 * N + (N // 128) * 2 * N * D * 2
    assert every.kept_bytes == 4 * N
    assert every.backward_flops == 5 * 2 * N * N * D
    assert every.weight_sum == pytest.approx(1)
    assert every.output_error < 1e-14


def test_costs_without_one():
    every = costs(PROBLEM, GPU)
    assert costs(PROBLEM, GPU, "fusion").forward_bytes == STANDARD.requested_bytes(PROBLEM)
    whole_rows = 128 * N * 4 + 4 * 128 * D + 2 * 64 * D * 2 + 128 * D * 2 + 128 * 8
    assert whole_row_bytes(PROBLEM) == whole_rows > chip_capacity(GPU)
    assert costs(PROBLEM, GPU, "recomputation").kept_bytes == 2 * N * N
    assert costs(PROBLEM, GPU, "recomputation").forward_bytes == every.forward_bytes + 2 * N * N
    assert costs(PROBLEM, GPU, "recomputation").backward_flops == 4 * 2 * N * N * D
    assert costs(PROBLEM, GPU, "lse").kept_bytes == 2 * N * N
    assert costs(PROBLEM, GPU, "fusion").chip_bytes == 128 * 64 * 4 + 64 * D * 2 + 128 * D * 4
    assert every.chip_bytes == ALGORITHMS["flash2"].chip_bytes(PROBLEM)
    by_memory = [ALGORITHMS["flash2"].chip_bytes(PROBLEM, memory) for memory in GPU.program_limits]
    assert sum(by_memory) == every.chip_bytes
    without = costs(PROBLEM, GPU, "online softmax")
    assert without.weight_sum == pytest.approx(64)
    assert without.output_error > 0.1
    assert without.forward_bytes == STANDARD.requested_bytes(PROBLEM)
    assert without.kept_bytes == 4 * N  # whole rows give an lse too
    assert three_pass_bytes(PROBLEM) == every.forward_bytes + 32 * 2 * N * D * 2
    assert set(NEEDS) == {"fusion", "tiling", "online softmax", "recomputation", "lse"}


def test_short_rows_still_fit_and_the_limit_is_where_they_stop():
    limit = longest_whole_row(PROBLEM, GPU)
    fits, over = (PROBLEM.with_(q_len=length, kv_len=length) for length in (limit, limit + 1))
    assert whole_rows_fit(fits, GPU)
    assert not whole_rows_fit(over, GPU)
    assert costs(fits, GPU, "tiling").forward_bytes == costs(fits, GPU).forward_bytes
    assert costs(over, GPU, "tiling").forward_bytes == STANDARD.requested_bytes(over)
    assert chip_capacity(GPU) == (227 + 256) * 1024
    assert longest_whole_row(PROBLEM.with_(block_m=128, head_dim=256, block_n=128), GPUS["A100"]) > 0


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
    weight_sum, error = tile_sums(problem, online=False)
    assert weight_sum == pytest.approx(5)
    assert error == pytest.approx(np.abs(wrong - right).max())
    assert tile_sums(problem, online=True) == (pytest.approx(1), pytest.approx(0, abs=1e-14))
