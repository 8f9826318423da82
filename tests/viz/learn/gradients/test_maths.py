"""The derivation of the Gradients chapter: every line against autograd; heads; the slip of Nagaraj 2025."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kernels.lessons.autograd import autograd_gradients, kernel_gradients
from kernels.lessons.gradients import GradientLesson
from viz.learn.gradients import maths
from viz.learn.gradients.maths import CHECKED_AGAINST, derived, largest_differences, several_heads

LESSON = GradientLesson(5, 3, 3, 10.0)
WITH_KERNEL = {"dV", "dQ", "dK", "dO", "dZ", "dW_Q", "dW_K", "dW_V", "dW_O"}
OF_HEADS = GradientLesson(length=5, dim=4, seed=2, spread=2.0)


@pytest.mark.parametrize(
    ("reference", "lines", "allowed"),
    [
        (autograd_gradients, set(CHECKED_AGAINST), 1e-13),
        (kernel_gradients, WITH_KERNEL, 1e-4),
    ],
    ids=["autograd", "kernels in float32"],
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
    for block in range(1, 6):
        assert min(maths.block_error(lesson, block)) > 1e-3
        sums = maths.block_sums(lesson, block)
        np.testing.assert_allclose(sums.sum(axis=1), derived(lesson)["D of O"], atol=1e-14)
    assert max(maths.block_error(lesson, 6)) < 1e-13


def test_one_head_is_the_layer_of_the_derivation_and_two_are_attention_on_their_own_features():
    one, lines = several_heads(OF_HEADS, 1), derived(OF_HEADS)
    for name in ("O", *WITH_KERNEL):
        np.testing.assert_allclose(one[name], lines[name], atol=1e-13)
    v = several_heads(OF_HEADS, 2)
    for index, columns in enumerate((slice(0, 2), slice(2, 4))):
        scores = v["Q"][:, columns] @ v["K"][:, columns].T / np.sqrt(2)
        weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(v[f"O_{index}"], weights @ v["V"][:, columns])
        np.testing.assert_allclose(v["O"][:, columns], v[f"O_{index}"])


@pytest.mark.parametrize("heads", [1, 4])
def test_gradients_of_heads_are_those_of_autograd(heads):
    v = several_heads(OF_HEADS, heads)
    leaves = {name: torch.from_numpy(array).requires_grad_() for name, array in OF_HEADS.numbers().items()}
    query, key, value = (
        (leaves["Z"] @ leaves[f"W_{name}"]).unflatten(1, (heads, -1)).transpose(0, 1) for name in "QKV"
    )
    out = F.scaled_dot_product_attention(query, key, value).transpose(0, 1).flatten(1)
    (out @ leaves["W_O"] * leaves["dY"]).sum().backward()
    for name in ("Z", "W_Q", "W_K", "W_V", "W_O"):
        np.testing.assert_allclose(v[f"d{name}"], leaves[name].grad, atol=1e-12)
