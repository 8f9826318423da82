"""A kernel that keeps something of a call passes at first: each later call is judged too."""

from pathlib import Path

import pytest

from kernels.check.case.cases import LAYOUTS
from kernels.check.judge import calls
from kernels.check.judge import run as later_calls
from kernels.device.runtime import BACKEND

FILE = Path(__file__).parents[1] / "kernels/forgetful.py"
SHAPE = {"q_len": 20, "kv_len": 25}


@pytest.mark.parametrize(
    ("function", "gradients", "words"),
    [
        ("adds_up", False, "same inputs is wrong, unlike the first: O is off by"),
        ("keeps_the_keys", False, "with other numbers in the same tensors"),
        ("returns_one_memory", False, "overwritten by the next call"),
        ("wrong_when_it_learns", True, "with inputs that require gradients"),
        ("remembers_the_last_forward", True, "of the first is wrong: dQ is off by"),
        ("adds_up_in_the_graph", True, "(retain_graph=True) is wrong"),
        ("first_gradients", True, "another dO the backward pass is wrong: dQ"),
        ("gradients_in_one_buffer", True, "its result changed after the call"),
        ("wrong_without_dq", True, "if query requires no gradient, another one is wrong: dK"),
        ("breaks_at_other_numbers", False, "with other numbers in the same tensors, failed"),
    ],
)
def test_what_a_call_leaves_behind_is_found(function, gradients, words, checked):
    result = checked(FILE, function, gradients=gradients, **SHAPE)
    assert result.verdict == "fail"
    assert words in result.reason
    assert result.tensor("O").passes  # the first call was right


@pytest.mark.parametrize("layout", LAYOUTS[: None if BACKEND == "cuda" else LAYOUTS.index("far")])
def test_a_right_kernel_passes_in_every_layout(layout, checked):
    result = checked(FILE, "right_with_a_backward_of_its_own", gradients=True, layout=layout, **SHAPE)
    assert result.verdict == "pass", result.reason


def test_later_calls_are_not_tried_on_large_problems(monkeypatch, checked):
    monkeypatch.setattr(later_calls, "BATTERY_SCORES", 20 * 25 - 1)
    for count, verdict in ((2, "pass"), (3, "fail")):  # the bound is that of the battery, with its two runs
        result = checked(FILE, "adds_up_in_the_graph", gradients=True, repeats=count, **SHAPE)
        assert result.verdict == verdict
    monkeypatch.setattr(later_calls, "MOST_SCORES", 20 * 25 - 1)
    assert checked(FILE, "keeps_the_keys", **SHAPE).verdict == "pass"


def test_what_o_was_is_kept_if_the_backward_pass_fails(checked):
    result = checked(FILE, "fails_backwards", gradients=True)
    assert result.verdict == "fail"
    assert result.tensor("O").passes
    assert "backward raised RuntimeError: not written yet (forgetful.py:" in result.reason
    assert "in backward" in result.trace


def test_sums_of_one_are_no_cause(checked):
    result = checked(FILE, "nearly_right", **SHAPE)
    assert result.verdict == "fail"
    assert "l is wrong" not in result.cause


@pytest.mark.parametrize("backend", [BACKEND, "cuda"])
def test_a_second_result_that_comes_later_is_a_verdict(monkeypatch, backend, checked):
    monkeypatch.setattr(calls, "BACKEND", backend)  # on a GPU the first of the equal runs is another one
    result = checked(FILE.read_text(), "lse_later")  # a file of its own: its first call has not been made
    assert result.verdict == "fail"
    assert "it returned O and lse, at first O" in result.reason
