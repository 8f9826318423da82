"""A right kernel that does not take every case passes within its limits, and the verdict says them."""

import pytest

from kernels.check.case.battery import BATTERY, battery
from kernels.check.case.cases import CheckCase
from kernels.check.case.fit import ROUNDS, second_tries
from kernels.check.case.limits import Limits
from kernels.check.report.report import overall, summary
from kernels.check.result import CheckResult
from kernels.device.backend import DeviceInfo
from kernels.problem import AttentionProblem

BASE = CheckCase(AttentionProblem(), "user", repeats=1)
DEVICE = DeviceInfo("interpreter", "a CPU", "t", "t", "p")


def judged(takes, declared=None, seed=0):
    """The last results of a kernel that is right on the cases that `takes` is true of, and refuses others."""

    def check(case):
        refused = "" if takes(case.problem, case) else "it says so"
        return CheckResult(case, "f", DEVICE, "now", 0.0, refused=refused)

    results = [check(case) for case in battery(BASE, seed, Limits.declared(declared))]
    for _ in range(ROUNDS):
        for place, case in second_tries(results).items():
            results[place] = check(case)
    return results


def divides(lengths, problem):
    return problem.q_len % lengths == 0 == problem.kv_len % lengths


KERNELS = (
    (lambda problem, case: divides(64, problem), {"lengths": 64}, "lengths: 64"),
    (lambda problem, case: divides(16, problem), {"lengths": 16}, "lengths: 16"),
    (lambda problem, case: problem.kv_len >= problem.q_len, {"more_keys": True}, "more_keys: True"),
    (lambda problem, case: problem.kv_len == problem.q_len, {"equal_lengths": True}, "equal_lengths: True"),
    (lambda problem, case: problem.head_dim == 128, {"head_dims": [128]}, "head_dim"),
    (lambda problem, case: problem.dtype == "float16", {"dtypes": ["float16"]}, "float16"),
    (lambda problem, case: problem.dtype == "bfloat16", {"dtypes": ["bfloat16"]}, "float16"),
    (lambda problem, case: problem.is_causal, {"masks": ["causal"]}, "mask"),
    (lambda problem, case: problem.group_size == 1, {"gqa": False}, "gqa: False"),
    (lambda problem, case: case.scale is None, {"scale": False}, "scale: False"),
    (lambda problem, case: case.layout == "contiguous", {"strides": "contiguous"}, "strides: contiguous"),
    (
        lambda problem, case: case.layout not in ("mixed", "expanded"),
        {"strides": "last_is_1"},
        "strides: last_is_1",
    ),
    (
        lambda problem, case: problem.q_len == problem.kv_len or not problem.is_causal,
        {"causal": "equal_lengths"},
        "causal: equal_lengths",
    ),
    (
        lambda problem, case: divides(128, problem) and (problem.head_dim, problem.mask) == (64, "full"),
        {"lengths": 128, "head_dims": [64], "masks": ["full"]},
        "lengths: 128",
    ),
)
"""What a kernel takes, what its file may say of it, and words of the limit in the verdict."""


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize(("takes", "declared", "words"), KERNELS)
def test_the_cases_of_a_kernel_with_limits_are_fitted_to_them(takes, declared, words, seed):
    for results, source in (
        (judged(takes, declared, seed), "declared in its file"),
        (judged(takes, seed=seed), "inferred from what it refuses"),
    ):
        assert len({result.case for result in results if not result.refused}) >= len(BATTERY) - 1
        said = summary(results)
        assert f"within limits {source} (" in said
        assert words in said
        assert seed == 0 or f"seed {seed}" in said
        assert overall(results) == "pass"


def test_without_limits_nothing_is_fitted_and_none_are_said():
    results = judged(lambda problem, case: True)
    assert "within" not in summary(results)
    assert all(result.case.within == () for result in results)


@pytest.mark.parametrize(
    "takes",
    [
        lambda problem, case: False,
        lambda problem, case: problem == next(iter(BATTERY)).problem,
        lambda problem, case: (problem.q_len, problem.kv_len) == (128, 128),
    ],
)
def test_a_kernel_that_refuses_nearly_everything_is_not_judged(takes):
    assert overall(judged(takes)) in ("few", "invalid")


@pytest.mark.parametrize(
    ("source", "lengths"),
    [
        ("import torch\nCHECK = {'lengths': 64}\ndef f(q): raise\n", 64),
        ("CHECK = {'lengths': 64}\nCHECK = {'lengths': 32}", 32),
        ("LENGTH = 64\nCHECK = {'lengths': LENGTH}", 1),
        ("CHECK = {'lengths': 0}", 1),
        ("CHECK = {'none': 3}", 1),
        ("CHECK = [", 1),
        ("", 1),
    ],
)
def test_a_plain_declaration_is_read_without_running_the_file(source, lengths):
    assert Limits.in_source(source) == Limits(lengths=lengths)
