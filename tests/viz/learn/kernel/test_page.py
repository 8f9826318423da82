"""Rows of the recorded tiny run: the scores that are computed here explain what the kernel wrote."""

import numpy as np
import pytest

from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from viz.learn.kernel.page import row_steps
from viz.learn.predict import judge, next_state
from viz.learn.softmax.maths import update


@pytest.fixture(scope="module")
def trace():
    return recorded_run(PRESETS["tiny"].problem, "flash2").trace


def test_scores_give_the_row_max_of_the_kernel_at_every_tile(trace):
    eps = float(np.finfo(np.float32).eps)
    for row in range(trace.problem.q_len):
        steps = row_steps(trace, row)
        scores = np.concatenate([step.scores for step in steps])
        for tile, step in enumerate(steps, 1):
            seen = scores[: tile * trace.problem.block_n]
            size = max(1.0, float(np.abs(scores).max()))
            assert abs(step.m - seen.max()) < 32 * eps * size  # products of float16 summed in float32
            assert step.l == pytest.approx(np.exp(seen - seen.max()).sum(), rel=64 * eps * size)


def test_a_reader_who_computes_by_hand_is_right_for_every_row_and_tile(trace):
    for row in range(trace.problem.q_len):
        for step in row_steps(trace, row):
            by_hand = update(round(step.m_before, 3), round(step.l_before, 2), step.scores.round(3))
            for right, mine in zip(next_state(step), next_state(by_hand), strict=True):
                assert judge(right, mine.value)[0]
