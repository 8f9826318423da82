"""Mistakes that show in few cases, and right kernels that do not take all of them: what the battery says."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kernels.check.battery import battery
from kernels.check.cases import CheckCase
from kernels.check.run import run_check
from kernels.check.summary import SHORTER_TYPE_ERROR, hints, overall
from kernels.check.user_kernel import UserKernel, name_user_kernels
from kernels.device.runtime import INTERPRETED
from kernels.oracle.exact import attention_by_rows
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_inputs
from kernels.tools.check import main

FILE = Path(__file__).parent / "rare.py"
TINY = CheckCase(AttentionProblem(q_len=40, kv_len=50, head_dim=16), "user", False, repeats=2)
on_the_interpreter = pytest.mark.skipif(not INTERPRETED, reason="there is a GPU")


def checked(function, case=TINY, file=FILE):
    name_user_kernels([UserKernel.parse(f"{file}:{function}")])
    return run_check(case)


def on_the_battery(function, file=FILE, gradients=False):
    cases = battery(replace(TINY, gradients=gradients))
    return [checked(function, replace(case, repeats=1), file) for case in cases]


def failing(results):
    return [result.case.words for result in results if result.verdict == "fail"]


def test_the_right_function_passes_every_case():
    results = on_the_battery("right", gradients=True)
    assert {result.verdict for result in results} == {"pass"}, failing(results)


def test_one_key_more_than_the_tiles_hold_is_in_the_battery():
    assert failing(on_the_battery("last_key_of_its_own_tile")) == ["48x65 d32 full"]


def test_head_dim_96_is_in_the_battery_with_its_gradients():
    results = on_the_battery("wrong_dk_at_96", gradients=True)
    assert failing(results) == ["40x72 d96 full"]
    assert [t.name for result in results for t in result.failing] == ["dK"]


def test_float32_is_judged_by_its_own_rule_unless_the_file_says_that_it_is_not_taken(tmp_path):
    results = on_the_battery("float16_inside")
    assert failing(results) == ["40x70 d64 full float32", "40x40 d32 causal float32"]
    (hint,) = hints(results)
    assert hint.startswith("it fails if the tensors are float32")
    assert '"dtypes": ["float16", "bfloat16"]' in hint
    declares = tmp_path / "declares.py"
    declares.write_text(FILE.read_text().replace('"gqa"', '"dtypes": ["float16", "bfloat16"], "gqa"'))
    results = on_the_battery("float16_inside", declares)
    assert (overall(results), hints(results)) == ("pass", [])


def test_a_shorter_type_is_off_by_less_than_the_hint_about_it_asks():
    for case in (case for case in battery(TINY) if case.problem.dtype == "float32"):
        problem, inputs = case.problem, make_inputs(case.problem)
        short, exact = (
            attention_by_rows(*inputs, scale=problem.scale, band=problem.band, dtype=dtype)[0]
            for dtype in (torch.bfloat16, torch.float64)
        )
        assert (short.double() - exact).abs().max() < SHORTER_TYPE_ERROR / 4


def test_a_last_stride_that_must_be_1_is_named_as_a_limit_and_can_be_declared(tmp_path):
    results = on_the_battery("takes_the_last_stride_for_1")
    assert failing(results) == ["64x90 d64 full mixed"]
    (wrong,) = [result for result in results if result.verdict == "fail"]
    assert wrong.cause == "O equals attention that takes the last stride of its tensors for 1"
    (hint,) = hints(results)
    assert hint.startswith("it fails if the last stride of a tensor is not 1")
    assert '"strides": "last_is_1"' in hint
    declares = tmp_path / "declares.py"
    declares.write_text(FILE.read_text().replace('"gqa"', '"strides": "last_is_1", "gqa"'))
    results = on_the_battery("takes_the_last_stride_for_1", declares)
    assert (overall(results), hints(results)) == ("pass", [])


@on_the_interpreter
def test_every_configuration_is_run_and_the_wrong_one_is_named():
    result = checked("wrong_in_its_second_configuration")
    assert result.verdict == "fail"
    assert result.tensor("O").passes  # with the first
    assert "with configuration 2 of 2 of @triton.autotune (_copy: SIZE=64) a result is wrong" in result.reason
    result = checked("right_in_both_configurations")
    assert result.verdict == "pass", result.reason
    assert any("2 of 2 were run on this case (number 1, 2)" in note for note in result.notes)


@on_the_interpreter
@pytest.mark.parametrize("function", ["uses_libdevice", "uses_libdevice_of_cuda"])
def test_a_function_of_libdevice_is_not_checked_and_no_failure(function):
    result = checked(function)
    assert result.verdict == "invalid"
    words = "needs a GPU: NotImplementedError: libdevice.exp is not supported in interpreter mode (rare.py:"
    assert result.refused.startswith(words)
    assert "exp(values)" in result.refused


def test_one_pass_among_many_cases_that_were_not_checked_is_no_pass(tmp_path, capsys):
    path, report = tmp_path / "mine.py", tmp_path / "out.json"
    body = "assert query.shape[2] == 33, 'at head_dim 0.5 only'"
    path.write_text(
        "import torch.nn.functional as F\n"
        f"def attention(query, key, value):\n    {body}\n"
        "    return F.scaled_dot_product_attention(query, key, value)\n"
    )
    shapes = ["--shapes", "33,64,65,66", "--forward", "--json", str(report)]
    assert main(["--kernel", f"{path}:attention", *shapes]) == 2
    last = capsys.readouterr().out.partition("\n\n")[2]
    assert last.startswith("TOO FEW")
    assert "only 1 of 4 cases passes, too few for a verdict on the kernel" in last
    assert "3 not checked (it says that it does not take this problem)" in last
    assert "arbitrary attn_mask" in last
    (kernel,) = json.loads(report.read_text())["kernels"]
    assert kernel["verdict"] == "few"
