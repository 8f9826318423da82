"""A kernel that keeps something of a call passes at first: each later call is judged too."""

from dataclasses import replace
from pathlib import Path

import pytest

from kernels.check.case.cases import LAYOUTS, CheckCase
from kernels.check.judge import calls, later_calls
from kernels.check.judge.run import run_check
from kernels.check.subject import user_kernel
from kernels.check.subject.user_kernel import UserKernel, name_user_kernels
from kernels.device.runtime import BACKEND
from kernels.problem import AttentionProblem

FILE = Path(__file__).parents[1] / "kernels/forgetful.py"
CASE = CheckCase(
    AttentionProblem(q_len=20, kv_len=25, head_dim=16), kernel="user", gradients=False, repeats=2
)


def checked(function, **changes):
    name_user_kernels([UserKernel.parse(f"{FILE}:{function}")])
    return run_check(replace(CASE, **changes))


@pytest.mark.parametrize(
    ("function", "gradients", "words"),
    [
        ("adds_up", False, "a later call on the same inputs is wrong, unlike the first: O is off by"),
        ("keeps_the_keys", False, "with other numbers in the same tensors a later call is wrong"),
        ("returns_one_memory", False, "its result is overwritten by the next call"),
        ("wrong_when_it_learns", True, "with inputs that require gradients its result is wrong"),
        ("remembers_the_last_forward", True, "the backward pass of the first is wrong: dQ is off by"),
        (
            "adds_up_in_the_graph",
            True,
            "a second backward pass of the same graph (retain_graph=True) is wrong",
        ),
        ("wrong_without_dq", True, "if query requires no gradient, another one is wrong: dK is off by"),
        ("breaks_at_other_numbers", False, "with other numbers in the same tensors, failed"),
    ],
)
def test_what_a_call_leaves_behind_is_found(function, gradients, words):
    result = checked(function, gradients=gradients)
    assert result.verdict == "fail"
    assert words in result.reason
    assert result.tensor("O").passes  # the first call was right


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_right_kernel_passes_in_every_layout(layout):
    result = checked("right_with_a_backward_of_its_own", gradients=True, layout=layout)
    assert result.verdict == "pass", result.reason


def test_other_numbers_are_not_tried_on_a_large_problem(monkeypatch):
    monkeypatch.setattr(later_calls, "MOST_SCORES", 20 * 25 - 1)
    assert checked("keeps_the_keys").verdict == "pass"


def test_graphs_are_not_tried_on_a_large_problem_of_the_battery(monkeypatch):
    monkeypatch.setattr(later_calls, "BATTERY_SCORES", 20 * 25 - 1)
    assert checked("adds_up_in_the_graph", gradients=True).verdict == "pass"
    assert checked("adds_up_in_the_graph", gradients=True, repeats=3).verdict == "fail"


def test_sums_of_one_are_no_cause():
    result = checked("nearly_right")
    assert result.verdict == "fail"
    assert "l is wrong" not in result.cause


def test_a_result_in_a_list_is_a_result():
    assert checked("as_list").verdict == "pass"


@pytest.mark.parametrize("backend", [BACKEND, "cuda"])
def test_a_second_result_that_comes_later_is_a_verdict(monkeypatch, backend):
    monkeypatch.setattr(user_kernel, "_loaded", {})  # its first call has not been made
    monkeypatch.setattr(calls, "BACKEND", backend)  # on a GPU the first of the equal runs is another one
    result = checked("lse_later")
    assert result.verdict == "fail"
    assert "it returned O and lse, at first O" in result.reason
