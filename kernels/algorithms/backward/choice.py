"""Which kernels compute the gradients: the sweep for Hopper, or the three plain kernels."""

from __future__ import annotations

import torch

from kernels.algorithms.backward.launch import flash_backward
from kernels.device.runtime import BACKEND
from kernels.oracle.exact import Gradients
from kernels.primitives.tuning import choose_config, gluon_is_known
from kernels.problem import Band

HOPPER_KERNEL = BACKEND == "cuda" and gluon_is_known()
if HOPPER_KERNEL:
    from kernels.algorithms.flash3_backward.launch import flash_backward_hopper, should_run


def is_one_sweep(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether the gradients come from the sweep for Hopper."""
    return HOPPER_KERNEL and should_run(query, key, value)


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

    On Hopper that is mostly the sweep, whose dQ differs in its last bits from call to call. Under
    `torch.use_deterministic_algorithms(True)` it is always the plain kernels: the same bits at every call.
    """
    tensors = query, key, value, out, lse, d_out
    if is_one_sweep(query, key, value):
        return flash_backward_hopper(*tensors, band=band, scale=scale, d_lse=d_lse)
    shape = (query.shape[3], query.dtype, band.masks)
    return flash_backward(
        *tensors,
        band=band,
        scale=scale,
        d_lse=d_lse,
        dk_dv_config=choose_config("dk_dv", *shape, band.q_len),
        dq_config=choose_config("dq", *shape, band.kv_len),
    )
