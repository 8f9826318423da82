"""Problems for the backward kernels for Hopper, and the gradients that they should give."""

import torch

from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.flash3.launch import can_run_hopper
from kernels.algorithms.flash3_backward.launch import flash_backward_hopper
from kernels.algorithms.flash3_backward_wide.launch import flash_backward_wide
from kernels.check.case.cases import TRUSTED_CAUSAL_SHAPES, TRUSTED_SHAPES
from kernels.device.runtime import DEVICE
from kernels.oracle.exact import attention_by_rows
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs

MASKS = {
    "full": {"mask": "full"},
    "causal": {"mask": "causal"},
    "window": {"mask": "window", "window_left": 128, "window_right": 0},
    "both": {"mask": "window", "window_left": 30, "window_right": 17},
    "diagonal": {"mask": "window", "window_left": 0, "window_right": 0},
}
SHAPES = [*TRUSTED_SHAPES, *TRUSTED_CAUSAL_SHAPES, (1, 1), (64, 64), (384, 384), (700, 129)]
HEADS = {"q_heads": 8, "kv_heads": 8}


def problems_of_all_shapes(**more):
    """Every shape, with as many key heads as query heads, and with fewer."""
    for q_len, kv_len in SHAPES:
        for batch, q_heads, kv_heads in ((2, 2, 2), (1, 4, 2), (1, 3, 1)):
            sizes = {"batch": batch, "q_heads": q_heads, "kv_heads": kv_heads}
            yield AttentionProblem(q_len=q_len, kv_len=kv_len, **sizes, **more)


def tensors_of(problem):
    """The problem's inputs, O and lse as the forward pass would give them, and dO."""
    query, key, value = make_inputs(problem, DEVICE)
    out, lse = attention_by_rows(
        query, key, value, scale=problem.scale, band=problem.band, dtype=torch.float32
    )
    return query, key, value, out.to(query.dtype), lse.float().contiguous(), make_d_output(problem, DEVICE)


def run_on_hopper(problem, tensors=None):
    """dQ, dK and dV by the kernels for the problem's head_dim: the sweep, or the two for long rows."""
    tensors = tensors or tensors_of(problem)
    assert can_run_hopper(*tensors[:3])
    run = flash_backward_wide if problem.head_dim > 128 else flash_backward_hopper
    return run(BackwardInputs(*tensors, problem.band, problem.scale))
