"""Shared by the kernel tests: small problems, what is right, and what needs a Hopper GPU."""

import numpy as np
import pytest
import torch

from kernels.algorithms.flash2.forward import flash_forward
from kernels.attention import flash_attention
from kernels.device.runtime import BACKEND, DEVICE
from kernels.oracle.exact import attention_by_rows
from kernels.oracle.rule import compare_gradients, compare_lse, compare_output
from kernels.primitives import replay
from kernels.primitives.launch import asked_of
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs

on_hopper = pytest.mark.skipif(
    BACKEND != "cuda" or torch.cuda.get_device_capability() != (9, 0), reason="needs a Hopper GPU"
)
SMALL_SHAPES = [(1, 1), (7, 33), (64, 64), (40, 20)]


def rows_keep_their_bits():
    """Whether this CPU's product of matrices, which the interpreter takes, has a row's bits in any place."""
    first, second = torch.randn(2, 16, 16, generator=torch.Generator().manual_seed(0)).numpy()
    return (np.roll(first, 5, 0) @ second == np.roll(first @ second, 5, 0)).all()


def forget():
    """Forget every call of flash_attention that was checked or written down."""
    for known in (flash_attention._accepted, replay._repetitions):
        known.clear()


def tiny(q_len, kv_len, block_m=16, block_n=16, *, mask="full", **more):
    """A problem for the interpreter: head_dim 16 and small tiles."""
    sizes = {"q_len": q_len, "kv_len": kv_len, "block_m": block_m, "block_n": block_n}
    return AttentionProblem(**sizes, mask=mask, **{"head_dim": 16} | more)


def problem_id(problem):
    """A readable name of a problem for a test."""
    heads = f"h{problem.q_heads}over{problem.kv_heads}"
    blocks = f"{problem.block_m}x{problem.block_n}"
    lengths = f"q{problem.q_len}-k{problem.kv_len}-d{problem.head_dim}"
    return f"{lengths}-{problem.dtype}-{problem.mask}-{heads}-{blocks}-{problem.inputs}"


def run_forward(problem, inputs=None):
    """(O, lse) of `_attn_fwd` on the problem, on the device at hand."""
    inputs = make_inputs(problem, DEVICE) if inputs is None else inputs
    out, lse, _ = flash_forward(*inputs, **asked_of(problem))
    return out, lse


def assert_forward_right(problem, out, lse):
    """O and lse of the problem's own inputs hold to the rule."""
    inputs = make_inputs(problem, DEVICE)
    exact, in_float32 = (
        attention_by_rows(*inputs, scale=problem.scale, band=problem.rule, dtype=dtype)[1]
        for dtype in (torch.float64, torch.float32)
    )
    for comparison in (compare_output(problem, out, inputs), compare_lse(lse, exact, in_float32)):
        assert comparison.report.passes, comparison.report


def assert_gradients_right(problem, gradients):
    """dQ, dK and dV of the problem's own inputs and dO hold to the rule."""
    inputs, d_out = make_inputs(problem, DEVICE), make_d_output(problem, DEVICE)
    for name, comparison in compare_gradients(problem, gradients, inputs, d_out).items():
        assert comparison.report.passes, (problem, name, comparison.report)
