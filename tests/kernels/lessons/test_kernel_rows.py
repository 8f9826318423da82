"""Rows of the recorded tiny run: the scores that are computed here explain what the kernel wrote."""

import itertools

import numpy as np
import pytest

from kernels.lessons.kernel_rows import row_scores, row_steps
from kernels.lessons.predictions import judge, next_state
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run


@pytest.fixture(scope="module")
def trace():
    return recorded_run(PRESETS["tiny"].problem, "flash2").trace


def test_scores_give_the_row_max_of_the_kernel_at_every_tile(trace):
    eps = float(np.finfo(np.float32).eps)
    for row in range(trace.problem.q_len):
        scores = row_scores(trace, row)
        for step in row_steps(trace, row):
            seen = scores[: (step.kv_tile + 1) * trace.problem.block_n]
            size = max(1.0, float(np.abs(scores).max()))
            assert abs(step.m - seen.max()) < 32 * eps * size  # products of float16 summed in float32
            assert step.l == pytest.approx(np.exp(seen - seen.max()).sum(), rel=64 * eps * size)


def test_each_step_starts_where_the_one_before_ended(trace):
    steps = row_steps(trace, 5)
    assert [step.kv_tile for step in steps] == list(range(trace.problem.kv_tiles))
    assert steps[0].m_before == -np.inf
    for before, after in itertools.pairwise(steps):
        assert (after.m_before, after.l_before) == (before.m, before.l)


def test_a_reader_who_computes_by_hand_is_right_for_every_row_and_tile(trace):
    for row in range(trace.problem.q_len):
        for step in row_steps(trace, row):
            by_hand = next_state(round(step.m_before, 3), round(step.l_before, 2), step.scores.round(3))
            found = next_state(step.m_before, step.l_before, step.scores, (step.m, step.alpha, step.l))
            assert all(judge(right, mine.value)[0] for right, mine in zip(found, by_hand, strict=True))


def test_a_run_without_row_state_is_refused():
    backward = recorded_run(PRESETS["tiny"].problem, "backward").trace
    with pytest.raises(ValueError, match="no row state"):
        row_steps(backward, 0)
