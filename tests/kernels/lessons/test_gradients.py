"""The derivation of the Gradients chapter: every line against autograd; the slip of Nagaraj 2025."""

import json

import numpy as np
import pytest

from kernels.lessons import gradients
from kernels.lessons.autograd import autograd_gradients, kernel_gradients
from kernels.lessons.gradients import (
    CHECKED_AGAINST,
    GradientLesson,
    derived,
    finite_differences,
    largest_differences,
)
from kernels.problem import InvalidProblem
from kernels.worker.requests import LessonGradientsRequest

LESSONS = [
    GradientLesson(),
    GradientLesson(8, 8, 3, 10.0),
    GradientLesson(2, 1, 5, 0.1),
    GradientLesson(7, 3, 1, 2.0),
]
WITH_KERNEL = {"dV", "dQ", "dK", "dO", "dZ", "dW_Q", "dW_K", "dW_V", "dW_O"}


def largest(lesson, line):
    return max(1.0, np.abs(derived(lesson)[line]).max())


def scaled(lesson, reference):
    return {
        line: difference / largest(lesson, line)
        for line, difference in largest_differences(lesson, reference).items()
    }


@pytest.mark.parametrize("lesson", LESSONS, ids=str)
def test_every_line_is_what_autograd_gives(lesson):
    differences = scaled(lesson, autograd_gradients(lesson))
    assert set(differences) == set(CHECKED_AGAINST)
    assert max(differences.values()) < 1e-13


@pytest.mark.parametrize("lesson", LESSONS, ids=str)
def test_difference_quotients_stand_in_for_every_line(lesson):
    differences = scaled(lesson, finite_differences(lesson))
    assert set(differences) == set(CHECKED_AGAINST)
    assert max(differences.values()) < 1e-6


@pytest.mark.parametrize("lesson", LESSONS[:3], ids=str)
def test_the_triton_kernels_inside_the_layer_agree_in_float32(lesson):
    differences = scaled(lesson, kernel_gradients(lesson))
    assert set(differences) == WITH_KERNEL
    assert max(differences.values()) < 1e-4


def test_a_wrong_line_is_seen(monkeypatch):
    lesson = GradientLesson()
    wrong = derived(lesson) | {"dS": derived(lesson)["dS"] + 1e-6}
    monkeypatch.setattr(gradients, "derived", lambda lesson: wrong)
    assert largest_differences(lesson, autograd_gradients(lesson))["dS"] == pytest.approx(1e-6, rel=1e-3)


def test_both_sums_are_d_and_lse_gives_p_back():
    lines = derived(GradientLesson(8, 4, 2, 3.0))
    np.testing.assert_allclose(lines["D of P"], lines["D of O"], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(lines["P of lse"], lines["P"], rtol=1e-12)
    np.testing.assert_allclose(lines["J quotient"], lines["J logarithm"], atol=1e-15)
    assert lines["lse"].shape == (8,)


def test_the_blocks_own_sum_is_wrong_unless_the_block_spans_the_row():
    lesson = GradientLesson(6, 3, 4)
    errors = gradients.block_errors(lesson)
    assert [error.block for error in errors] == [1, 2, 3, 4, 5, 6]
    for error in errors[:-1]:
        assert min(error.d_scores, error.d_query, error.d_key) > 1e-3
    assert max(errors[-1].d_scores, errors[-1].d_query, errors[-1].d_key) < 1e-13


@pytest.mark.parametrize("block", [1, 2, 4, 6])
def test_the_sums_of_the_blocks_add_up_to_d(block):
    lesson = GradientLesson(6, 3, 4)
    sums = gradients.block_sums(lesson, block)
    assert sums.shape == (6, -(-6 // block))
    np.testing.assert_allclose(sums.sum(axis=1), derived(lesson)["D of O"], atol=1e-14)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"length": 9}, "length=9 is not accepted: expected a whole number from 2 to 8"),
        ({"dim": 0}, "dim=0 is not accepted: expected a whole number from 1 to 8"),
        ({"length": 3.5}, "length=3.5 is not accepted"),
        ({"spread": float("nan")}, "spread=nan is not accepted: expected a number from 0.1 to 10"),
        ({"seed": True}, "seed=True is not accepted"),
        ({"width": 3}, "width=3 is not accepted: there is no such field"),
    ],
)
def test_a_lesson_that_is_out_of_range_is_refused_by_name(values, message):
    with pytest.raises(InvalidProblem, match=message):
        GradientLesson.from_dict(values)


def test_a_lesson_survives_its_dict():
    lesson = GradientLesson(5, 2, 7, 1.5)
    assert GradientLesson.from_dict(lesson.as_dict()) == lesson


def test_the_workers_job_gives_both_as_json():
    lesson = LESSONS[3]
    values = json.loads(json.dumps(LessonGradientsRequest(lesson).as_dict()))
    request = LessonGradientsRequest.from_dict(values)
    assert request == LessonGradientsRequest(lesson)
    answer, blob = request.run(b"", lambda fraction, label: None)
    result = request.result(json.loads(json.dumps(answer)), blob)
    by_torch, by_kernel = (
        {name: np.array(rows) for name, rows in gradients_by.items()}
        for gradients_by in (result.autograd, result.kernel)
    )
    assert max(scaled(lesson, by_torch).values()) < 1e-13
    assert set(largest_differences(lesson, by_kernel)) == WITH_KERNEL
    with pytest.raises(InvalidProblem, match="length=99"):
        LessonGradientsRequest.from_dict({"lesson": {"length": 99}})


def test_large_scores_do_not_overflow():
    scores = np.array([[1000.0, 999.0, 995.0]])
    assert gradients.log_sum_exp(scores)[0] == pytest.approx(1000 + np.log(1 + np.exp(-1) + np.exp(-5)))
    assert gradients.softmax(scores).sum() == pytest.approx(1.0)
