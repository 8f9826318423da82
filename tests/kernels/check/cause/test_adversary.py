"""What a check says where nothing can be said, and of kernels that spoil what they are given."""

import dataclasses
import math
from pathlib import Path

import torch

from kernels.check.case.cases import CheckCase
from kernels.check.judge.run import run_check
from kernels.check.judge.sensitivity import run_sensitivity
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
    assert result.reason.startswith("attention in float32 is NaN or infinite on these inputs although")


def test_an_lse_that_float32_cannot_hold_is_infinite():
    exact = torch.tensor([1e39, 1.0], dtype=torch.float64)
    right = torch.tensor([math.inf, 1.0])
    assert compare_lse(right, exact, right).report.passes
    assert not compare_lse(torch.tensor([math.nan, 1.0]), exact, right).report.passes
    assert not compare_lse(torch.tensor([3.0, 1.0]), exact, right).report.passes


def test_the_largest_seed_is_checked_like_any_other():
    problem = PROBLEM.with_(seed=LIMITS["seed"][1])
    assert run_check(case_of("attention", problem=problem)).verdict == "pass"


def fails(function, **changes):
    """Whether the point with the query as it is fails."""
    first = run_sensitivity(case_of(function, **changes)).scales[0]
    assert first.label == "2^0"
    return not first.passes


def test_other_scales_are_run_on_tensors_that_the_kernel_did_not_change():
    assert not fails("attention")
    assert not fails("scales_its_query")


def test_other_scales_are_run_in_the_layout_of_the_case():
    assert not fails("takes_its_tensors_for_contiguous")
    assert fails("takes_its_tensors_for_contiguous", layout="transposed")
