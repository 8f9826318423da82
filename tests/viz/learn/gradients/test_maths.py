"""The derivation of the Gradients chapter: every line against autograd; heads; the slip of Nagaraj 2025."""

import numpy as np
import pytest

from kernels.lessons.autograd import autograd_gradients, kernel_gradients
from kernels.lessons.gradients import GradientLesson
from viz.learn.gradients import maths
from viz.learn.gradients.maths import (
    CHECKED_AGAINST,
    derived,
    difference_of,
    finite_differences,
    largest_differences,
    several_heads,
)

LESSON = GradientLesson(5, 3, 3, 10.0)
WITH_KERNEL = {"dV", "dQ", "dK", "dO", "dZ", "dW_Q", "dW_K", "dW_V", "dW_O"}
OF_HEADS = GradientLesson(length=5, dim=4, seed=2, spread=2.0)


@pytest.mark.parametrize(
    ("reference", "lines", "allowed"),
    [
        (autograd_gradients, set(CHECKED_AGAINST), 1e-13),
        (finite_differences, set(CHECKED_AGAINST), 1e-6),
        (kernel_gradients, WITH_KERNEL, 1e-4),
    ],
    ids=["autograd", "differences", "kernels in float32"],
)
def test_every_line_is_what_others_give(reference, lines, allowed):
    differences, values = largest_differences(LESSON, reference(LESSON)), derived(LESSON)
    assert set(differences) == lines
    assert max(each / max(1.0, np.abs(values[line]).max()) for line, each in differences.items()) < allowed


def test_a_wrong_line_is_seen(monkeypatch):
    lesson = GradientLesson()
    wrong = derived(lesson) | {"dS": derived(lesson)["dS"] + 1e-6}
    monkeypatch.setattr(maths, "derived", lambda lesson: wrong)
    assert largest_differences(lesson, autograd_gradients(lesson))["dS"] == pytest.approx(1e-6, rel=1e-3)


def test_the_blocks_own_sum_is_wrong_unless_the_block_spans_the_row():
    lesson = GradientLesson(6, 3, 4)
    *parts, whole = maths.block_errors(lesson)
    assert len(parts) == 5
    for block, errors in enumerate(parts, 1):
        assert min(errors.values()) > 1e-3
        sums = maths.block_sums(lesson, block)
        np.testing.assert_allclose(sums.sum(axis=1), derived(lesson)["D of O"], atol=1e-14)
    assert max(whole.values()) < 1e-13


def test_one_head_is_the_layer_of_the_derivation_and_two_are_attention_on_their_own_features():
    one, lines = several_heads(OF_HEADS, 1), derived(OF_HEADS)
    for name in ("O", "Y", *WITH_KERNEL):
        np.testing.assert_allclose(one[name], lines[name], atol=1e-13)
    v = several_heads(OF_HEADS, 2)
    for index, columns in enumerate((slice(0, 2), slice(2, 4))):
        scores = v["Q"][:, columns] @ v["K"][:, columns].T / np.sqrt(2)
        weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(v[f"O_{index}"], weights @ v["V"][:, columns])
        np.testing.assert_allclose(v["O"][:, columns], v[f"O_{index}"])


@pytest.mark.parametrize("heads", [1, 4])
def test_gradients_of_heads_hold_against_differences(heads):
    assert max(difference_of(name, OF_HEADS, heads) for name in ("Z", "W_Q", "W_K", "W_V")) < 1e-8


def test_gradients_of_capped_scores_and_of_a_sink_are_those_of_difference_quotients():
    for seed in range(3):
        check = maths.changed_scores(GradientLesson(seed=seed, spread=2.0))
        assert max(check["dS"], check["sink"]) < 1e-6 * check["size"]
