"""Which kernels compute the gradients: those for Hopper, or the three plain ones."""

from __future__ import annotations

import torch

from kernels.algorithms.backward.launch import flash_backward
from kernels.oracle.exact import Gradients
from kernels.primitives.tuning import HOPPER_KERNEL, choose_config
from kernels.problem import Band

if HOPPER_KERNEL:
    from kernels.algorithms.flash3_backward import launch as sweep
    from kernels.algorithms.flash3_backward_wide import launch as wide

SWEEP, WIDE, PLAIN = "flash3_backward", "flash3_backward_wide", "backward"
"""Packages of kernels."""


def package_for(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> str:
    """SWEEP, WIDE or PLAIN: whose kernels compute the gradients of attention on these tensors."""
    if HOPPER_KERNEL and sweep.should_run(query, key, value):
        return SWEEP
    return WIDE if HOPPER_KERNEL and wide.should_run(query, key, value) else PLAIN


def attention_gradients(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    d_out: torch.Tensor,
    *,
    band: Band,
    scale: float,
    d_lse: torch.Tensor | None = None,
) -> Gradients:
    """dQ, dK and dV by the fastest kernels for these tensors; the arguments are those of `flash_backward`.

    On Hopper with head_dim up to 128 that is mostly the sweep, whose dQ may differ in its last bits from call
    to call. Under `torch.use_deterministic_algorithms(True)` it is not used: the same bits at every call.
    """
    tensors = query, key, value, out, lse, d_out
    package = package_for(query, key, value)
    if package == SWEEP:
        return sweep.flash_backward_hopper(*tensors, band=band, scale=scale, d_lse=d_lse)
    if package == WIDE:
        return wide.flash_backward_wide(*tensors, band=band, scale=scale, d_lse=d_lse)
    shape = (query.shape[3], query.dtype, band.masks)
    return flash_backward(
        *tensors,
        band=band,
        scale=scale,
        d_lse=d_lse,
        dk_dv_config=choose_config("dk_dv", *shape, band.q_len),
        dq_config=choose_config("dq", *shape, band.kv_len),
    )
