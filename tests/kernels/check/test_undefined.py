"""Values that a load leaves undefined: a kernel that uses them fails, and one that does not passes."""

from pathlib import Path

import pytest

from kernels.check.cases import CheckCase
from kernels.check.run import run_check
from kernels.check.user_kernel import UserKernel, name_user_kernels
from kernels.device.runtime import INTERPRETED
from kernels.problem import AttentionProblem

if not INTERPRETED:
    pytest.skip("loads are watched in the interpreter only", allow_module_level=True)

FILE = Path(__file__).parent / "undefined.py"
LINES = FILE.read_text().splitlines()


def checked(function, kv_len=50, **changes):
    name_user_kernels([UserKernel.parse(f"{FILE}:{function}")])
    problem = AttentionProblem(q_len=40, kv_len=kv_len, head_dim=16, **changes)
    return run_check(CheckCase(problem, kernel="user", gradients=False, repeats=2))


@pytest.mark.parametrize(
    ("function", "load"),
    [
        ("uses_it", "v_tile = tl.load(v + (head * kv_len + keys[:, None]) * D + offs_d, mask=exists)"),
        ("block_pointer", "v_tile = tl.load(v_at, boundary_check=(0,))"),
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_kernel_that_uses_them_fails_and_the_line_is_named(function, load, dtype):
    result = checked(function, dtype=dtype)
    assert result.verdict == "fail"
    (finding,) = result.findings
    assert finding.kind == "use of an undefined value"
    assert "value of a masked load without `other` was used: O depends" in finding.words
    assert (finding.source, LINES[finding.line - 1].strip()) == (load, load)
    assert result.causes == ()  # nothing else is wrong


@pytest.mark.parametrize("function", ["uses_it", "block_pointer"])
def test_a_mask_that_leaves_nothing_out_is_no_fault(function):
    assert checked(function, kv_len=128).verdict == "pass"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_kernel_that_does_not_use_them_passes(dtype):
    result = checked("leaves_it", dtype=dtype)
    assert (result.verdict, result.findings) == ("pass", ()), result.reason
