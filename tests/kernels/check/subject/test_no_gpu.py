"""Kernels that ask for a GPU, in the interpreter: one configuration, a sensible answer, or words."""

import pytest
import torch

from kernels.device.runtime import INTERPRETED

pytestmark = pytest.mark.skipif(not INTERPRETED, reason="there is a GPU")

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
ASKS = """
SMS = torch.cuda.get_device_properties(0).multi_processor_count
MAJOR = torch.cuda.get_device_capability()[0]
TARGET = triton.runtime.driver.active.get_current_target().arch
SHARED = triton.runtime.driver.active.utils.get_device_properties(0)["max_shared_mem"]
assert SMS > 1 and TARGET == 80 and SHARED > 1000 and MAJOR == 8
"""


def body(line, before=""):
    return f"import torch\n{before}def attention(q, k, v):\n    {line}\n    return v\n"


def test_autotune_takes_one_configuration_and_questions_at_import_get_an_answer_that_is_said(checked):
    result = checked(COPY.replace("@triton.autotune", f"{ASKS}\n@triton.autotune"))
    assert result.verdict == "pass", result.reason
    assert result.interpreted
    assert any("first of its 2 configurations" in note and "BLOCK=64" in note for note in result.notes)
    assert any("A100" in note for note in result.notes)
    assert any("(number 1, 2)" in note for note in result.notes)
    with pytest.raises((AssertionError, RuntimeError)):
        torch.cuda.get_device_properties(0)  # only the user's code is answered


def test_code_that_puts_its_tensors_on_a_gpu_runs_here(checked):
    """The buffer at import, a tensor in the call, the device of an input, and what makes sure of it."""
    line = "assert q.is_cuda and q.device.type == 'cuda'; q = q.cuda().to('cuda')"
    makes = "BUFFER = torch.zeros(1, device='cuda')\n"
    copy = COPY.replace("    exact =", f"    {line}\n    exact =").replace("empty_like(exact)", WHERE)
    result = checked(copy.replace("@triton.autotune", f"{makes}@triton.autotune"))
    assert result.verdict == "pass", result.reason
    assert not any("A100" in note for note in result.notes)  # it asked for no property of one


WHERE = "empty(exact.shape, dtype=exact.dtype, device=q.device) + BUFFER.to('cuda:0', exact.dtype)"
LOAD = "tl.load(source + offsets, mask=inside)"


def test_every_configuration_is_run_and_the_wrong_one_is_named(checked):
    result = checked(COPY.replace(LOAD, f"{LOAD} * (1.1 if BLOCK == 128 else 1.0)"))
    assert result.verdict == "fail"
    assert result.tensor("O").passes  # with the first
    assert "configuration 2 of 2 of @triton.autotune (_copy: BLOCK=128" in result.reason


EXP = COPY.replace(LOAD, f"libdevice.exp({LOAD}.to(tl.float32))")
UNSUPPORTED = "needs a GPU: NotImplementedError: libdevice.exp is not supported in interpreter mode (mine.py:"
INSIDE = "    inside = offsets < (n + 1 if EVEN else n)\n"
LIBRARY = "def fast(q):\n    assert q.shape[-1] == 128, 'head_dim is 128'\n"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (body("assert not q.is_cuda, 'not on CUDA'"), "not on CUDA (mine.py:3: assert not q.is_cuda"),
        (body("raise ValueError('head_dim must be 64')"), "head_dim must be 64 (mine.py:3: raise"),
        (body("raise NotImplementedError('no masks')"), "NotImplementedError: no masks (mine.py:3"),
        (
            COPY.replace(INSIDE, f"{INSIDE}    tl.static_assert(BLOCK == 128, 'wants it')\n"),
            "wants it (mine.py:",
        ),
        ("import torch\nfrom library import fast\nattention = lambda q, k, v: fast(q)", "128 (library.py:2"),
        ("from triton.language.extra import libdevice\n" + EXP, UNSUPPORTED),
        ("from triton.language.extra.cuda import libdevice\n" + EXP, UNSUPPORTED),
    ],
    ids=["assert", "ValueError", "not", "static", "library", "extra", "cuda"],
)
def test_what_a_kernel_does_not_support_is_not_checked_with_its_line(source, words, tmp_path, checked):
    (tmp_path / "library.py").write_text(LIBRARY)
    result = checked(source)
    assert result.verdict == "invalid"
    assert words in result.reason


@pytest.mark.parametrize(
    "line", ["a, b = q.shape", "int('x')", "q.view(3, 3)", "raise RuntimeError('broken')", "assert_(q)"]
)
def test_an_error_that_is_not_a_refusal_fails(line, checked):
    result = checked(body(line, before="def assert_(q):\n    return q.nothing\n"))
    assert result.verdict == "fail"
    assert "forward raised" in result.reason
    assert "in attention" in result.trace
    assert "site-packages" not in result.trace


def test_an_assertion_on_a_result_is_a_failure_and_no_refusal(checked):
    result = checked(COPY.replace("    return out\n", "    assert out.sum() > 1e9\n    return out\n"))
    assert result.verdict == "fail"
    assert "AssertionError" in result.reason
