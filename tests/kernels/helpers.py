"""Shared by the kernel tests: running a kernel on a problem, small shapes, and what needs a Hopper GPU."""

import pytest
import torch

from kernels.algorithms.flash2.forward import flash_forward
from kernels.device.runtime import BACKEND, DEVICE
from kernels.primitives.launch import config_of
from kernels.problem.inputs import make_inputs

on_hopper = pytest.mark.skipif(
    BACKEND != "cuda" or torch.cuda.get_device_capability() != (9, 0), reason="needs a Hopper GPU"
)
SMALL_SHAPES = [(1, 1), (7, 33), (64, 64), (40, 20)]


def problem_id(problem):
    """A readable name of a problem for a test."""
    heads = f"h{problem.q_heads}over{problem.kv_heads}"
    blocks = f"{problem.block_m}x{problem.block_n}"
    lengths = f"q{problem.q_len}-k{problem.kv_len}-d{problem.head_dim}"
    return f"{lengths}-{problem.dtype}-{problem.mask}-{heads}-{blocks}-{problem.inputs}"


def run_forward(problem, inputs=None):
    """(O, lse) of `_attn_fwd` on the problem, on the device at hand."""
    config = config_of(problem)
    inputs = make_inputs(problem, DEVICE) if inputs is None else inputs
    out, lse, _ = flash_forward(*inputs, band=problem.band, scale=problem.scale, config=config)
    return out, lse
