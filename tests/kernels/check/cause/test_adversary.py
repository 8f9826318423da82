"""What a check says where nothing can be said, and of kernels that spoil what they are given."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch

from kernels.check.case.cases import CheckCase
from kernels.check.judge.run import run_check
from kernels.check.judge.vary import run_sensitivity
from kernels.check.subject.user_kernel import UserKernel, name_user_kernels
from kernels.oracle.rule import compare_lse
from kernels.problem import LIMITS, AttentionProblem

FILE = Path(__file__).parents[1] / "kernels/adversary.py"
PROBLEM = AttentionProblem(
    q_heads=2, kv_heads=2, q_len=16, kv_len=16, head_dim=16, dtype="float32", block_m=16, block_n=16
)


def case_of(function, **changes):
    name_user_kernels([UserKernel.parse(f"{FILE}:{function}")])
    return dataclasses.replace(CheckCase(PROBLEM, "user", False, 1), **changes)


def test_if_float32_overflows_too_there_is_no_verdict():
    problem = PROBLEM.with_(dtype="bfloat16")
    result = run_check(case_of("zeros", problem=problem, scale=1e38))
    assert result.tensor("O").tolerance == math.inf
    assert result.verdict == "invalid"
    assert "float32 is NaN or infinite" in result.reason


def test_an_lse_that_float32_cannot_hold_is_infinite():
    exact, right = torch.tensor([1e39, 1.0], dtype=torch.float64), torch.tensor([math.inf, 1.0])
    for value, passes in ((math.inf, True), (math.nan, False), (3.0, False)):
        assert compare_lse(torch.tensor([value, 1.0]), exact, right).report.passes == passes


def test_the_largest_seed_is_checked_like_any_other():
    problem = PROBLEM.with_(seed=LIMITS["seed"][1])
    assert run_check(case_of("attention", problem=problem)).verdict == "pass"


@pytest.mark.parametrize(
    ("function", "layout", "passes"),
    [
        ("attention", "contiguous", True),
        ("scales_its_query", "contiguous", True),
        ("takes_its_tensors_for_contiguous", "contiguous", True),
        ("takes_its_tensors_for_contiguous", "transposed", False),
    ],
)
def test_other_scales_are_run_on_fresh_tensors_in_the_layout_of_the_case(function, layout, passes):
    first = run_sensitivity(case_of(function, layout=layout)).scales[0]
    assert (first.label, first.passes) == ("2^0", passes)
