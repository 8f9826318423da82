"""The interpreter's patches, applied once per launch: same results, fewer patches, nothing left behind."""

import importlib

import pytest

from kernels.device.runtime import DEVICE
from tests.kernels.helpers import tiny

if DEVICE != "cpu":
    pytest.skip("the interpreter is off on a GPU", allow_module_level=True)

import numpy as np

from kernels.algorithms import run_traced
from kernels.device import interpreter as ours

import triton.language as tl

triton_interpreter = importlib.import_module("triton.runtime.interpreter")
REPLACED = (
    (triton_interpreter, "_patch_lang"),
    (tl.core.block_type, "__init__"),
    (tl.core.tensor, "__init__"),
    (tl.core.tuple, "__eq__"),
    (tl.core, "_unwrap_if_constexpr"),
    (triton_interpreter, "_get_np_dtype"),
)
PROBLEM = tiny(32, 64, mask="causal")


@pytest.fixture
def counted(monkeypatch):
    calls = []
    patch = triton_interpreter._patch_builtin
    monkeypatch.setattr(triton_interpreter, "_patch_builtin", lambda *args: calls.append(1) or patch(*args))
    return calls


def test_results_are_the_same_with_and_without(counted, monkeypatch):
    quick = run_traced(PROBLEM)
    once = len(counted)
    builder = triton_interpreter.interpreter_builder
    assert not builder.options.sanitize_overflow
    monkeypatch.setattr(builder, "options", triton_interpreter.InterpreterOptions())
    for owner, name in REPLACED:
        monkeypatch.setattr(owner, name, getattr(owner, name).__wrapped__)
    counted.clear()
    slow = run_traced(PROBLEM)
    assert len(counted) > 20 * once
    for name in ("output", "lse", "row_max", "row_sum", "alpha", "acc", "tensor_bytes_read"):
        assert np.array_equal(getattr(quick, name), getattr(slow, name), equal_nan=True), name


def test_the_language_is_restored_after_a_kernel_that_raises(monkeypatch):
    before = tl.load
    monkeypatch.setattr("kernels.primitives.traversal.end_visited_tile", lambda *args: 1 / 0)
    with pytest.raises(Exception, match="division by zero"):
        run_traced(PROBLEM)
    monkeypatch.undo()
    assert tl.load is before
    assert np.isfinite(run_traced(PROBLEM).output).all()


def test_a_remembered_shape_is_not_that_of_other_numbers():
    block = tl.block_type(tl.float32, [16, 4])
    assert tl.block_type(tl.float32, [16, 4]) == block != tl.block_type(tl.float16, [16, 4])
    for wrong in ([16.0, 4], [True, 12]):
        with pytest.raises((TypeError, ValueError)):
            tl.block_type(tl.float32, wrong)


def test_an_unknown_version_runs_unchanged(monkeypatch):
    monkeypatch.setattr("triton.__version__", "9.9.9")
    before = [getattr(owner, name) for owner, name in REPLACED]
    assert ours.quicken.__wrapped__() is False
    assert before == [getattr(owner, name) for owner, name in REPLACED]
