"""A kernel that cannot run here, or does not take the problem, is not checked, and says why."""

import math
import re

import pytest

from kernels.check.case.cases import CheckCase
from kernels.check.judge.run import run_check
from kernels.check.subject.user_errors import Refused, judged
from kernels.device.runtime import BACKEND
from kernels.problem import AttentionProblem

PROBLEM = AttentionProblem(q_len=32, kv_len=32, head_dim=64)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dtype": "float32"}, "takes float16 or bfloat16"),
        pytest.param(
            {},
            r"needs a Hopper GPU \(compute capability 9.0\).*Triton's interpreter.*[^.]$",
            marks=pytest.mark.skipif(BACKEND == "cuda", reason="says what happens in the interpreter"),
        ),
    ],
)
def test_what_a_kernel_does_not_take_or_need_is_not_checked(changes, words):
    result = run_check(CheckCase(PROBLEM.with_(**changes), "flash3"))
    assert (result.verdict, result.tensors) == ("invalid", ())
    assert re.search(words, result.refused)


def test_an_own_assert_is_its_own_refusal_although_its_words_are_those_of_triton():
    with pytest.raises(AssertionError) as given:
        assert not PROBLEM, "head_dim must be a power of two"
    found = judged(
        given.value, lambda file: file == __file__, phase="forward", launched=False, interpreted=True
    )
    assert isinstance(found, Refused)
    assert "AssertionError: head_dim must" in str(found)


def test_if_float32_overflows_too_there_is_no_verdict(checked):
    source = "def attention(q, k, v, scale): return q * 0"
    result = checked(source, dtype="bfloat16", scale=1e38)
    assert (result.verdict, result.tensor("O").tolerance) == ("invalid", math.inf)
