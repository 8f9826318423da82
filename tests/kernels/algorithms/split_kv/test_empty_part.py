"""A part without a key tile: no step rescales anything, and the part weighs nothing when parts are combined.

`split_plan` makes no such part, but the kernel takes any plan.
"""

import numpy as np
import pytest
import torch

from kernels.algorithms import run_traced
from kernels.algorithms.split_kv import launch, run
from kernels.device.runtime import DEVICE
from kernels.oracle.rule import judge_trace
from kernels.primitives.launch import TileConfig
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_inputs

PROBLEM = AttentionProblem(
    q_len=3, kv_len=64, head_dim=16, block_m=16, block_n=16, q_heads=4, kv_heads=2, mask="causal", kv_splits=2
)
ROWS = 2 * 3
"""Packed rows of a key head, all in one tile."""
PARTS = 3


@pytest.fixture
def empty_part(monkeypatch):
    """Four key tiles in three parts of two: the last part has none."""

    def plan(*arguments, **options):
        return launch.SplitPlan(first=0, end=4, splits=PARTS, tiles_per_split=2)

    monkeypatch.setattr(launch, "split_plan", plan)
    monkeypatch.setattr(run, "split_plan", plan)


def test_a_part_without_a_key_tile_records_the_state_that_it_started_with(empty_part, poisoned):
    trace = run_traced(PROBLEM, "split_kv")
    empty = np.flatnonzero((trace.kernel == 0) & (trace.kv_tile < 0))
    assert trace.program[empty].tolist() == [2, 5]  # the last part of each key head
    assert (trace.row_max[empty, :ROWS] == -np.inf).all()
    assert (trace.row_sum[empty, :ROWS] == 0).all()
    assert (trace.alpha[empty, :ROWS] == 1).all()  # the row max did not move: nothing is rescaled
    assert np.isnan(trace.alpha[empty, ROWS:]).all()
    reads = dict(zip(trace.tensors, trace.tensor_bytes_read[empty].T.tolist(), strict=True))
    assert reads["Q"] == [ROWS * 16 * 2] * 2
    assert reads["K"] == reads["V"] == [0, 0]


def test_the_other_parts_have_all_the_weight(empty_part, poisoned):
    trace = run_traced(PROBLEM, "split_kv")
    weights = trace.weight[trace.kernel == 1].reshape(PROBLEM.key_heads, PARTS, -1)[:, :, :ROWS]
    assert (weights[:, 2] == 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)
    assert judge_trace(trace).passes


def test_the_result_is_that_of_the_plan_without_it(poisoned, monkeypatch):
    inputs, config = make_inputs(PROBLEM, DEVICE), TileConfig(16, 16)
    arguments = {"band": PROBLEM.band, "scale": PROBLEM.scale, "config": config, "splits": 2}
    out, lse, _ = launch.flash_split_kv(*inputs, **arguments)
    monkeypatch.setattr(launch, "split_plan", lambda *_: launch.SplitPlan(0, 4, PARTS, 2))
    again, lse_again, _ = launch.flash_split_kv(*inputs, **arguments)
    assert torch.equal(out, again)
    assert torch.equal(lse, lse_again)
