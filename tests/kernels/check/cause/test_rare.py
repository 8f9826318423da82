"""Mistakes that show in few cases, and right kernels that do not take all of them: what the battery says."""

from pathlib import Path

import pytest

from kernels.check.case.battery import battery
from kernels.check.case.cases import PUBLIC_CALL, CheckCase
from kernels.check.judge.run import run_check
from kernels.check.report.report import overall
from kernels.check.subject.subjects import MASK_INSTEAD
from kernels.problem import AttentionProblem

FILE = Path(__file__).parents[1] / "kernels/rare.py"
TINY = AttentionProblem(q_len=20, kv_len=24, head_dim=16)


@pytest.fixture
def on_the_battery(checked):
    """The results of those cases of the battery, one after the other."""

    def check(function, has=lambda problem, case: True, gradients=False, source=FILE):
        for case in battery(CheckCase(TINY, "user", gradients, repeats=1)):
            if has(case.problem, case):
                yield checked(source, function, case)

    return check


def test_the_right_function_passes_every_case(on_the_battery):
    results = on_the_battery("right", gradients=True)
    assert [result.case.words for result in results if result.verdict != "pass"] == []


BRANCHES = (
    ("ignores_its_scale", lambda problem, case: problem.is_causal and case.scale),
    ("ignores_its_scale", lambda problem, case: problem.group_size > 1 and case.scale),
    ("reverses_the_batches_of_keys", lambda problem, case: problem.is_causal and problem.batch > 1),
    (
        "takes_key_heads_in_turn",
        lambda problem, case: problem.is_causal and problem.group_size > 1 and problem.batch > 1,
    ),
    ("takes_key_heads_in_turn", lambda problem, case: problem.mask == "window"),
    ("loses_gradients_of_a_group", lambda problem, case: problem.group_size > problem.kv_heads == 1),
    ("ignores_the_stride_of_batches", lambda problem, case: problem.batch > 1 and case.layout == "sliced"),
    ("float16_inside", lambda problem, case: problem.is_causal and problem.dtype == "float32"),
    ("no_right_side", lambda problem, case: problem.mask == "window"),
    ("moves_its_window", lambda problem, case: problem.mask == "window" and problem.q_len != problem.kv_len),
    ("takes_2048_keys", lambda problem, case: problem.kv_len > 2048),
    ("without_the_last_key", lambda problem, case: problem.kv_len % 64 == 1),
    ("wrong_dk", lambda problem, case: problem.head_dim == 96),
    ("takes_the_last_stride_for_1", lambda problem, case: case.layout == "mixed"),
)
"""A mistake, and the branch of a kernel that makes it: properties that meet in a case of the battery."""


@pytest.mark.parametrize(("mistake", "branch"), BRANCHES)
def test_a_mistake_in_a_branch_of_its_own_is_found(mistake, branch, on_the_battery):
    gradients = mistake in ("loses_gradients_of_a_group", "wrong_dk")
    assert any(result.verdict == "fail" for result in on_the_battery(mistake, branch, gradients))


@pytest.mark.parametrize(
    ("function", "lengths", "failing", "declared"),
    [
        ("float16_inside", (40, 70), "float32", '"dtypes": ["float16", "bfloat16"]'),
        ("takes_the_last_stride_for_1", (70, 90), "mixed", '"strides": "last_is_1"'),
    ],
)
def test_the_cause_says_what_a_kernel_may_declare(function, lengths, failing, declared, on_the_battery):
    few = lambda problem, case: problem.kv_len in lengths  # noqa: E731
    failed = [result for result in on_the_battery(function, few) if result.verdict == "fail"]
    assert failed
    assert all(failing in result.case.words and declared in result.cause for result in failed)
    declares = FILE.read_text().replace('"gqa"', f'{declared}, "gqa"')
    assert overall([*on_the_battery(function, few, source=declares)]) == "pass"


def test_a_causal_mask_that_comes_as_a_tensor_is_said(checked):
    source = "from torch.nn.functional import scaled_dot_product_attention as attention\n"
    for length, said in ((24, True), (16, False)):
        notes = checked(source, mask="causal", kv_len=length).notes
        assert (MASK_INSTEAD in notes) == said


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["flash2", PUBLIC_CALL])
def test_our_kernels_pass_the_battery_on_a_gpu(kernel):
    """There cuBLAS is naive attention's float32, and sums more exactly than a kernel that goes key by key."""
    cases = battery(CheckCase(AttentionProblem(), kernel, gradients=True, repeats=2))
    results = [run_check(case) for case in cases]
    assert [result.reason for result in results if result.verdict != "pass"] == []
