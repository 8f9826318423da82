"""The loop orders of the backward pass: formulas of Chu, Liu and Lin 2026, and the kernels' own counts."""

import pytest

from kernels import AttentionProblem, run_traced
from kernels.algorithms import ALGORITHMS
from kernels.lessons.backward_traffic import (
    LOOP_ORDERS,
    STANDARD_BACKWARD,
    counted_inner_loop_elements,
    inner_loop_elements,
    standard_backward_elements,
)

BY_SLUG = {order.slug: order for order in LOOP_ORDERS}
PROBLEMS = [
    AttentionProblem(q_len=32, kv_len=64, head_dim=16, block_m=16, block_n=32),
    AttentionProblem(q_len=50, kv_len=35, head_dim=32, dtype="float32", block_m=16, block_n=16),
]


def test_standard_attention_moves_seven_square_matrices():
    assert sum(access.count for access in STANDARD_BACKWARD) == 7
    assert standard_backward_elements(AttentionProblem(q_len=1024, kv_len=1024)) == 7 * 1024**2
    several_heads = AttentionProblem(batch=2, q_heads=4, q_len=10, kv_len=20)
    assert standard_backward_elements(several_heads) == 8 * 7 * 200


def test_the_printed_formulas_times_all_tiles():
    problem = AttentionProblem(q_len=128, kv_len=128, head_dim=64, block_m=32, block_n=16)
    q_tiles, kv_tiles = 4, 8
    elements = {slug: inner_loop_elements(order, problem, read_back=False) for slug, order in BY_SLUG.items()}
    assert elements["algorithm 6"] == 4 * q_tiles * 16 * 64 * kv_tiles
    assert elements["algorithm 8"] == 3 * kv_tiles * 32 * 64 * q_tiles
    assert elements["algorithm 7"] == 4 * kv_tiles * 32 * 64 * q_tiles


@pytest.mark.parametrize("problem", PROBLEMS, ids=["whole tiles", "ragged"])
@pytest.mark.parametrize(
    "order", [order for order in LOOP_ORDERS if order.algorithm], ids=lambda order: order.slug
)
def test_the_kernels_count_what_the_model_says_once_sums_are_read_back(order, problem):
    assert order.algorithm in ALGORITHMS
    counted = counted_inner_loop_elements(run_traced(problem, order.algorithm))
    assert counted == inner_loop_elements(order, problem, read_back=True)


def test_reading_the_sums_back_adds_one_load_for_each_store():
    problem = PROBLEMS[0]
    extra = {
        order.slug: inner_loop_elements(order, problem, True) - inner_loop_elements(order, problem, False)
        for order in LOOP_ORDERS
    }
    assert extra["algorithm 6"] == 2 * problem.q_tiles * problem.kv_len * problem.head_dim
    assert extra["algorithm 8"] == problem.kv_tiles * problem.q_len * problem.head_dim
    assert extra["this project"] == 0
