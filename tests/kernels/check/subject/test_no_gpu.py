"""Kernels that ask for a GPU, in the interpreter: one configuration, a sensible answer, or words."""

import pytest
import torch

from kernels.check.case.cases import CheckCase
from kernels.check.judge.run import run_check
from kernels.check.subject.user_kernel import UserKernel, name_user_kernels
from kernels.device.runtime import INTERPRETED
from kernels.problem import AttentionProblem

pytestmark = pytest.mark.skipif(not INTERPRETED, reason="there is a GPU")
TINY = AttentionProblem(q_len=16, kv_len=16, head_dim=16)

COPY = """
import torch
import triton
import triton.language as tl

@triton.autotune(
    configs=[triton.Config({"BLOCK": 64}, num_warps=4), triton.Config({"BLOCK": 128}, num_warps=8)], key=["n"]
)
@triton.heuristics({"EVEN": lambda args: args["n"] % 64 == 0})
@triton.jit
def _copy(source, target, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < (n + 1 if EVEN else n)
    tl.store(target + offsets, tl.load(source + offsets, mask=inside), mask=inside & (offsets < n))

def attention(q, k, v):
    exact = torch.softmax((q @ k.mT).float() * q.shape[-1] ** -0.5, -1).to(v.dtype) @ v
    out = torch.empty_like(exact)
    _copy[lambda meta: (triton.cdiv(out.numel(), meta["BLOCK"]),)](exact, out, out.numel())
    return out
"""


def check(tmp_path, source, problem=TINY):
    (tmp_path / "mine.py").write_text(source)
    name_user_kernels([UserKernel.parse(f"{tmp_path / 'mine.py'}:attention")])
    return run_check(CheckCase(problem, "user", False, 2))


def test_autotune_takes_one_configuration_and_says_so_and_heuristics_work(tmp_path):
    result = check(tmp_path, COPY)
    assert result.verdict == "pass", result.reason
    assert any("the first of its 2 configurations was taken (BLOCK=64)" in note for note in result.notes)
    assert result.interpreted


def test_questions_about_the_gpu_at_import_get_an_answer_that_is_said(tmp_path):
    asks = """
SMS = torch.cuda.get_device_properties(0).multi_processor_count
MAJOR = torch.cuda.get_device_capability()[0]
TARGET = triton.runtime.driver.active.get_current_target().arch
SHARED = triton.runtime.driver.active.utils.get_device_properties(0)["max_shared_mem"]
assert SMS > 1 and TARGET == 80 and SHARED > 1000 and MAJOR == 8
"""
    result = check(tmp_path, COPY.replace("@triton.autotune", f"{asks}\n@triton.autotune"))
    assert result.verdict == "pass", result.reason
    assert any("There is none here" in note and "A100" in note for note in result.notes)
    with pytest.raises((AssertionError, RuntimeError)):
        torch.cuda.get_device_properties(0)  # only the user's code is answered


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("torch.empty(4, device='cuda')", "needs a GPU: "),
        ("assert q.is_cuda, 'only on CUDA'", "AssertionError: only on CUDA (mine.py:3: assert q.is_cuda"),
        ("raise ValueError('head_dim must be 64')", "ValueError: head_dim must be 64 (mine.py:3: raise"),
        ("raise NotImplementedError('no masks')", "NotImplementedError: no masks (mine.py:3"),
    ],
)
def test_what_a_kernel_does_not_support_is_not_checked_with_its_words_and_line(line, words, tmp_path):
    result = check(tmp_path, f"import torch\ndef attention(q, k, v):\n    {line}\n    return v\n")
    assert result.verdict == "invalid"
    assert words in result.reason


def test_a_static_assertion_of_the_kernel_is_a_refusal(tmp_path):
    line = "    inside = offsets < (n + 1 if EVEN else n)\n"
    only = 'tl.static_assert(BLOCK == 128, "wants another")'
    result = check(tmp_path, COPY.replace(line, f"{line}    {only}\n"))
    assert result.verdict == "invalid"
    assert "wants another (mine.py:" in result.reason


def test_a_library_that_refuses_is_a_refusal_too(tmp_path):
    (tmp_path / "library.py").write_text("def fast(q):\n    assert q.shape[-1] == 128, 'head_dim is 128'\n")
    result = check(tmp_path, "from library import fast\ndef attention(q, k, v):\n    return fast(q)\n")
    assert result.verdict == "invalid"
    assert "head_dim is 128 (library.py:2" in result.reason


def test_a_gpu_that_is_needed_at_import_is_not_a_failure(tmp_path):
    source = "import torch\nBUFFER = torch.empty(4, device='cuda')\ndef attention(q, k, v): ...\n"
    result = check(tmp_path, source)
    assert result.verdict == "invalid"
    assert "needs a GPU" in result.reason
    assert "line 2, in <module>" in result.trace


@pytest.mark.parametrize(
    "line", ["a, b = q.shape", "int('x')", "q.view(3, 3)", "raise RuntimeError('broken')", "assert_(q)"]
)
def test_an_error_that_is_not_a_refusal_fails(line, tmp_path):
    helper = "def assert_(q):\n    return q.nothing\n"
    result = check(tmp_path, f"import torch\n{helper}def attention(q, k, v):\n    {line}\n    return v\n")
    assert result.verdict == "fail"
    assert "its forward raised" in result.reason
    assert "in attention" in result.trace
    assert "site-packages" not in result.trace


def test_an_assertion_on_a_result_is_a_failure_and_no_refusal(tmp_path):
    late = COPY.replace("    return out\n", "    assert out.sum() > 1e9\n    return out\n")
    result = check(tmp_path, late)
    assert result.verdict == "fail"
    assert "AssertionError" in result.reason


def test_what_o_was_is_kept_if_the_backward_pass_fails(tmp_path):
    source = """
import torch
class Mine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        return torch.softmax((q @ k.mT).float() * q.shape[-1] ** -0.5, -1).to(v.dtype) @ v
    @staticmethod
    def backward(ctx, d_out):
        return helper(d_out)
def helper(d_out):
    raise RuntimeError("not written yet")
def attention(q, k, v):
    return Mine.apply(q, k, v)
"""
    (tmp_path / "mine.py").write_text(source)
    name_user_kernels([UserKernel.parse(f"{tmp_path / 'mine.py'}:attention")])
    result = run_check(CheckCase(TINY, "user", True, 1))
    assert result.verdict == "fail"
    assert result.tensor("O").passes
    assert result.reason.startswith("its backward raised RuntimeError: not written yet (mine.py:11")
    assert [line for line in result.trace.splitlines() if "in backward" in line]
