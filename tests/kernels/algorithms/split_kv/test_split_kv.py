"""Split-KV decoding: results, each part's state and weights against float64, and the number of parts."""

from collections import defaultdict

import numpy as np
import pytest
import torch

from kernels.algorithms import run_traced
from kernels.algorithms.split_kv import launch, run
from kernels.algorithms.split_kv.launch import flash_split_kv, split_plan
from kernels.device.runtime import DEVICE
from kernels.oracle.exact import attention_by_rows
from kernels.oracle.rule import compare_output, judge_trace
from kernels.primitives.launch import TileConfig
from kernels.problem.inputs import make_inputs
from tests.kernels.helpers import assert_forward_right, problem_id, tiny
from tests.kernels.oracle.intermediates import oracle

PROBLEMS = [
    tiny(1, 100, kv_splits=3),
    tiny(1, 75, head_dim=24, q_heads=8, kv_heads=2, kv_splits=5, dtype="bfloat16"),
    tiny(4, 69, q_heads=6, kv_heads=2, batch=2, mask="causal", kv_splits=4),
    tiny(16, 120, q_heads=2, mask="window", window_left=40, window_right=2, kv_splits=3),
    tiny(16, 7, mask="causal", dtype="float32"),
    tiny(5, 64, 4, 8, q_heads=3, kv_splits=2),
]
traced = pytest.mark.parametrize("problem", PROBLEMS, ids=problem_id)


def run_split(problem, splits=None):
    options = {"config": TileConfig(problem.block_m, problem.block_n), "splits": splits or problem.kv_splits}
    inputs = make_inputs(problem, DEVICE)
    return flash_split_kv(*inputs, band=problem.band, scale=problem.scale, **options)[:2]


@traced
def test_output_and_lse_are_right(problem, poisoned):
    assert_forward_right(problem, *run_split(problem))


@pytest.mark.parametrize("splits", [2, 1000])
def test_the_number_of_parts_changes_only_the_rounding(splits, poisoned):
    problem = PROBLEMS[2]
    out, lse = run_split(problem, splits)
    reference, reference_lse = run_split(problem, 1)
    torch.testing.assert_close(out, reference, rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(lse, reference_lse, rtol=1e-6, atol=1e-6)


@traced
def test_every_step_and_every_weight_matches_float64(problem):
    run = run_traced(problem, "split_kv")
    exact = oracle(*make_inputs(problem), scale=problem.scale, band=problem.band)
    config = TileConfig(problem.block_m, problem.block_n)
    first, end, splits, per_split = split_plan(
        problem.band, problem.key_heads, problem.packed_rows, config, problem.kv_splits
    )
    size = float(exact.value.abs().max())
    eps = torch.finfo(getattr(torch, problem.dtype)).eps
    combined = defaultdict(int)  # parts so far, by program
    for step in range(run.steps):
        is_combine, program = run.kernel[step] == 1, int(run.program[step])
        split = combined[program] if is_combine else program % splits
        combined[program] += is_combine
        batch, kv_head = divmod(int(run.batch_head[step]), problem.kv_heads)
        from_tile = first + split * per_split
        to_tile = min(from_tile + per_split, end) if is_combine else int(run.kv_tile[step]) + 1
        keys = torch.arange(problem.kv_len)[from_tile * problem.block_n : to_tile * problem.block_n]
        first_row = int(run.q_tile[step]) * problem.block_m
        for row, packed in enumerate(range(first_row, problem.packed_rows)[: problem.block_m]):
            member, query = divmod(packed, problem.q_len)
            head = batch, kv_head * problem.group_size + member
            m, l, acc = exact.after_keys(head, slice(query, query + 1), keys)
            if is_combine:
                part, whole = float(m + l.log()), float(exact.lse[head][query])
                expected = 0.0 if part == float("-inf") else np.exp(part - whole)
                assert run.weight[step, row] == pytest.approx(expected, abs=1e-5)
                continue
            assert run.row_max[step, row] == pytest.approx(float(m), abs=1e-5)
            assert run.row_sum[step, row] == pytest.approx(float(l), rel=1e-4)
            if run.kv_tile[step] >= 0:
                np.testing.assert_allclose(
                    run.acc[step, row], acc[0].numpy(), atol=(eps + 1e-5) * size * max(float(l), 1)
                )


def test_keys_outside_the_window_are_not_loaded():
    problem = tiny(1, 640, mask="window", window_left=30, kv_splits=2)
    run = run_traced(problem, "split_kv")
    assert set(run.kv_tile[run.kernel == 0]) == {38, 39}


@pytest.mark.parametrize("case", ["row", "part"])
def test_scores_of_minus_infinity(case, poisoned):
    """A row of only such scores gives NaN as in float64; a part of only such scores adds nothing."""
    problem = PROBLEMS[0]
    query, key, value = make_inputs(problem, DEVICE)
    query.fill_(1.0)
    key[0, 0, : 100 if case == "row" else 40] = float("-inf")
    arguments = {"scale": problem.scale, "band": problem.band}
    out, _, _ = flash_split_kv(query, key, value, config=TileConfig(16, 16), splits=3, **arguments)
    exact, _ = attention_by_rows(query, key, value, dtype=torch.float64, **arguments)
    assert torch.equal(out.isnan(), exact.isnan())
    assert exact.isnan().all() == (case == "row")


def test_a_part_without_a_key_tile_rescales_and_weighs_nothing(poisoned, monkeypatch):
    """No plan has such a part, but the kernels take any: here, four key tiles in three parts of two."""
    problem = tiny(3, 64, q_heads=4, kv_heads=2, mask="causal", kv_splits=2)
    expected = run_split(problem)
    for module in (launch, run):
        monkeypatch.setattr(module, "split_plan", lambda *_: launch.SplitPlan(0, 4, 3, 2))
    assert all(map(torch.equal, run_split(problem), expected))
    trace, rows = run_traced(problem, "split_kv"), 2 * 3  # packed rows of a key head, all in one tile
    assert judge_trace(trace).passes
    empty = np.flatnonzero((trace.kernel == 0) & (trace.kv_tile < 0))
    assert trace.program[empty].tolist() == [2, 5]  # the last part of each key head
    assert (trace.row_max[empty, :rows] == -np.inf).all()
    assert (trace.row_sum[empty, :rows] == 0).all()
    assert (trace.alpha[empty, :rows] == 1).all()  # the row max did not move
    assert np.isnan(trace.alpha[empty, rows:]).all()
    reads = dict(zip(trace.tensors, trace.tensor_bytes_read[empty].T.tolist(), strict=True))
    assert (reads["Q"], reads["K"], reads["V"]) == ([rows * 16 * 2] * 2, [0, 0], [0, 0])
    weights = trace.weight[trace.kernel == 1].reshape(problem.key_heads, 3, -1)[:, :, :rows]
    assert (weights[:, 2] == 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("kv_len", [1, 63, 1000, 65536, 131072])
@pytest.mark.parametrize("q_len", [1, 3, 16])
@pytest.mark.parametrize("heads", [(32, 8), (8, 8), (8, 1)], ids=lambda heads: f"{heads[0]}over{heads[1]}")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_decoding_is_right_on_the_gpu(kv_len, q_len, heads, dtype, poisoned):
    sizes = {"head_dim": 128, "q_heads": heads[0], "kv_heads": heads[1]}
    problem = tiny(q_len, kv_len, 64, 64, mask="causal", dtype=dtype, **sizes)
    assert compare_output(problem, run_split(problem)[0], make_inputs(problem, DEVICE)).report.passes
