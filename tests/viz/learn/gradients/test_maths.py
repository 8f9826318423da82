"""The maths of the Gradients chapter: every line against autograd, heads, a known slip, and what is moved."""

from collections import Counter

import numpy as np
import pytest

from kernels import AttentionProblem, run_traced
from kernels.algorithms.chip import FLOAT32_BYTES
from kernels.algorithms.standard.traffic import standard_ledger
from kernels.lessons.autograd import autograd_gradients, kernel_gradients
from kernels.lessons.gradients import GradientLesson
from kernels.problem.inputs import draw_inputs
from viz.learn.gradients import maths
from viz.learn.gradients.maths import (
    CHECKED_AGAINST,
    DRAFT,
    KEY_OUTER,
    QUERY_OUTER,
    TWO_KERNELS,
    attention_gradients,
    backward_work,
    counted_inner_loop_elements,
    derived,
    difference_of,
    finite_differences,
    largest_differences,
    several_heads,
)
from viz.learn.softmax.maths import log_sum_exp, softmax
from viz.learn.tiling.maths import span

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


RAGGED = AttentionProblem(q_len=20, kv_len=35, head_dim=16, dtype="float32", block_m=16, block_n=16, seed=3)
SQUARE = AttentionProblem(q_len=50, kv_len=50, head_dim=32, block_m=32, block_n=16)


def test_the_printed_formulas():
    moved, work = standard_ledger(SQUARE, "backward"), backward_work(SQUARE)
    assert sum(moved[name] for name in ("P", "dP", "dS")) == 7 * 50**2 * 2
    assert work["standard"] == 8 * 50**2 * 32 + 2 * 50**2 + 2 * 50 * 32
    assert work["all"] - work["standard"] == 2 * 50**2 * 32
    problem = AttentionProblem(q_len=128, kv_len=128, head_dim=64, block_m=32, block_n=16)
    q_tiles, kv_tiles, block = 4, 8, 128 * 64  # times all tiles, with the sums that are read back
    assert QUERY_OUTER.elements(problem) == (4 + 2) * q_tiles * block
    assert KEY_OUTER.elements(problem) == (3 + 1) * kv_tiles * block
    assert DRAFT.elements(problem) == (4 + 1) * kv_tiles * block
    assert TWO_KERNELS.elements(problem) == 2 * (q_tiles + kv_tiles) * block


@pytest.mark.parametrize("order", [QUERY_OUTER, KEY_OUTER, TWO_KERNELS], ids=lambda order: order.label)
def test_the_kernels_count_what_the_model_says_once_sums_are_read_back(order):
    counted = counted_inner_loop_elements(run_traced(RAGGED, order.algorithm))
    assert counted == order.elements(RAGGED)


def test_the_draft_is_algorithm_8_with_o_at_every_step_instead_of_d():
    requested = KEY_OUTER.requested_bytes(SQUARE)
    row, steps = 32 * 2, SQUARE.kv_tiles * 50
    without_d = requested - steps * 4 - 50 * (2 * row + 4)  # nor is D computed before the loop
    assert DRAFT.requested_bytes(SQUARE) == without_d + steps * row


def draft_run(problem):
    """Bytes that the draft (algorithm 7) moves tile by tile, elements of its loop, and its gradients."""
    slow = dict(zip("QKV", (array[0, 0].astype(np.float64) for array in draw_inputs(problem)), strict=True))
    slow |= {f"d{name}": np.zeros_like(array) for name, array in slow.items()}
    scores = slow["Q"] @ slow["K"].T * problem.scale
    slow["lse"] = log_sum_exp(scores)
    slow["O"] = np.exp(scores - slow["lse"][:, None]) @ slow["V"]
    slow["dO"] = np.random.default_rng((problem.seed, 1)).standard_normal(slow["Q"].shape)
    moved = Counter()

    def load(name, rows):
        moved[name] += slow[name][rows].size
        return slow[name][rows]

    def store(name, rows, values):
        moved[name] += values.size
        slow[name][rows] = values

    for keys in (span(j, problem.block_n) for j in range(problem.kv_tiles)):
        key, value = load("K", keys), load("V", keys)
        d_key, d_value = np.zeros_like(key), np.zeros_like(value)
        for rows in (span(i, problem.block_m) for i in range(problem.q_tiles)):
            query, d_output, output, lse = (load(name, rows) for name in ("Q", "dO", "O", "lse"))
            weights = np.exp(query @ key.T * problem.scale - lse[:, None])
            d = (output * d_output).sum(axis=1, keepdims=True)
            d_scores = problem.scale * weights * (d_output @ value.T - d)
            store("dQ", rows, load("dQ", rows) + d_scores @ key)
            d_key += d_scores.T @ query
            d_value += weights.T @ d_output
        store("dK", keys, d_key)
        store("dV", keys, d_value)
    sizes = {name: FLOAT32_BYTES if name in ("dQ", "lse") else problem.itemsize for name in moved}
    return (
        sum(count * sizes[name] for name, count in moved.items()),
        sum(moved[name] for name in ("Q", "dO", "O", "dQ")),
        {name: slow[name] for name in ("dQ", "dK", "dV")},
    )


def test_the_draft_counts_what_the_model_says_and_gives_the_gradients():
    moved, in_loop, gradients = draft_run(RAGGED)
    assert (moved, in_loop) == (DRAFT.requested_bytes(RAGGED), DRAFT.elements(RAGGED))
    query, key, value = (array[0, 0].astype(np.float64) for array in draw_inputs(RAGGED))
    d_output = np.random.default_rng((RAGGED.seed, 1)).standard_normal(query.shape)
    weights = softmax(query @ key.T * RAGGED.scale)
    given = {"Q": query, "K": key, "V": value, "P": weights, "O": weights @ value, "dO": d_output}
    exact = attention_gradients(given, RAGGED.scale)
    for name, gradient in gradients.items():
        assert np.allclose(gradient, exact[name], atol=1e-12)
