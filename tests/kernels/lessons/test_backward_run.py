"""The key-outer backward pass tile by tile: its gradients, and its counts against the formulas."""

import numpy as np
import pytest

from kernels.lessons.backward_run import MOST_STEPS, can_run, inputs_of, key_outer_run
from kernels.lessons.backward_traffic import LOOP_ORDERS, inner_loop_elements
from kernels.lessons.io import BlockSizes, key_outer_backward_bytes
from kernels.problem import AttentionProblem

RUN_ORDERS = [order for order in LOOP_ORDERS if order.d_each_step is not None]
SQUARE = [
    AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=32),
    AttentionProblem(q_len=50, kv_len=50, head_dim=32, block_m=32, block_n=16, seed=3),
    AttentionProblem(q_len=48, kv_len=48, head_dim=16, dtype="float32", block_m=64, block_n=64),
]
UNEQUAL = AttentionProblem(q_len=20, kv_len=70, head_dim=16, block_m=16, block_n=16)


@pytest.mark.parametrize("problem", [*SQUARE, UNEQUAL], ids=str)
@pytest.mark.parametrize("d_each_step", [True, False])
def test_the_gradients_are_those_of_attention(problem, d_each_step):
    given = inputs_of(problem)
    query, key, value, d_output = (given[name] for name in ("Q", "K", "V", "dO"))
    scores = query @ key.T * problem.scale
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    d_weights = d_output @ value.T
    d_scores = weights * (d_weights - (weights * d_weights).sum(axis=1, keepdims=True))
    right = {
        "dQ": problem.scale * d_scores @ key,
        "dK": problem.scale * d_scores.T @ query,
        "dV": weights.T @ d_output,
    }
    got = key_outer_run(problem, d_each_step).gradients
    for name, values in right.items():
        np.testing.assert_allclose(got[name], values, atol=1e-12)


@pytest.mark.parametrize("problem", [*SQUARE, UNEQUAL], ids=str)
@pytest.mark.parametrize("order", RUN_ORDERS, ids=lambda order: order.slug)
def test_the_inner_loop_moves_what_the_model_says(problem, order):
    run = key_outer_run(problem, order.d_each_step)
    assert run.inner_loop_elements == inner_loop_elements(order, problem, read_back=True)
    named = {*order.q_blocks, *order.read_back}
    assert named == set(run.elements_in_loop) - {"load lse", "load D"}


@pytest.mark.parametrize("problem", SQUARE, ids=str)
@pytest.mark.parametrize("d_each_step", [True, False])
def test_the_bytes_are_those_of_the_formula(problem, d_each_step):
    tile = BlockSizes(problem.block_m, problem.block_n)
    modelled = key_outer_backward_bytes(
        problem.q_len, problem.head_dim, tile, problem.itemsize, gamma_each_step=d_each_step
    )
    assert key_outer_run(problem, d_each_step).bytes_moved == modelled


def test_long_runs_are_refused():
    assert can_run(AttentionProblem(q_len=1024, kv_len=1024, head_dim=64))
    assert not can_run(AttentionProblem(q_len=65536, kv_len=65536))
    assert not can_run(AttentionProblem(q_len=MOST_STEPS, kv_len=64, head_dim=16, block_m=4, block_n=4))
