"""Several heads: one head is the layer of the derivation, and the gradients hold against differences."""

import numpy as np
import pytest

from kernels.lessons.gradients import GradientLesson, central, derived
from kernels.lessons.heads import difference_of_dz, forward, head_counts, several_heads

LESSON = GradientLesson(length=5, dim=4, seed=2, spread=2.0)


def test_heads_cut_the_features_without_a_rest():
    assert head_counts(1) == (1,)
    assert head_counts(6) == (1, 2, 3, 6)


def test_one_head_is_the_layer_of_the_derivation():
    one, lines = several_heads(LESSON, 1), derived(LESSON)
    for name in ("O", "Y", "dO", "dQ", "dK", "dV", "dZ", "dW_O", "dW_Q", "dW_K", "dW_V"):
        np.testing.assert_allclose(one[name], lines[name], atol=1e-13)


def test_a_head_is_attention_on_its_own_features():
    v = several_heads(LESSON, 2)
    for index, columns in ((0, slice(0, 2)), (1, slice(2, 4))):
        scores = v["Q"][:, columns] @ v["K"][:, columns].T / np.sqrt(2)
        weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(v[f"O {index}"], weights @ v["V"][:, columns])
        np.testing.assert_allclose(v["O"][:, columns], v[f"O {index}"])


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_gradients_hold_against_differences(heads):
    assert difference_of_dz(LESSON, heads) < 1e-8
    v = several_heads(LESSON, heads)
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        differences = central(
            lambda given: (forward(LESSON, heads, given)["Y"] * v["dY"]).sum(), name, v[name]
        )
        np.testing.assert_allclose(v[f"d{name}"], differences, atol=1e-8)
