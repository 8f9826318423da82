"""Which kernels compute attention and its gradients: for Hopper, for decoding, or the plain ones."""

import torch

from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.backward.launch import flash_backward
from kernels.algorithms.flash2.forward import flash_forward
from kernels.algorithms.split_kv.launch import flash_split_kv
from kernels.oracle.exact import Gradients
from kernels.oracle.naive import group_size
from kernels.primitives.tuning import HOPPER_KERNEL, choose_config, split_config
from kernels.problem import Band

if HOPPER_KERNEL:
    from kernels.algorithms.flash3 import launch as hopper
    from kernels.algorithms.flash3_backward import launch as sweep
    from kernels.algorithms.flash3_backward_wide import launch as wide

MAX_PACKED_ROWS = 64
"""Split-KV decoding is used if the heads that share a key head have at most this many queries together."""
SWEEP, WIDE, PLAIN = "flash3_backward", "flash3_backward_wide", "backward"
"""Packages of backward kernels."""


def attention_forward(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, band: Band, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """O and lse by the fastest kernels for these tensors; all as in `flash_forward`."""
    head_dim, kv_len = query.shape[3], key.shape[2]
    packed_rows = group_size(query, key) * query.shape[2]
    if packed_rows <= MAX_PACKED_ROWS:
        config = split_config(packed_rows, head_dim, query.element_size())
        return flash_split_kv(query, key, value, band=band, scale=scale, config=config)[:2]
    if HOPPER_KERNEL and (chosen := hopper.chosen_config(query, key, value, band)):
        return hopper.flash_forward_hopper(query, key, value, band=band, scale=scale, config=chosen)[:2]
    config = choose_config("forward", head_dim, query.dtype, band.masks, kv_len)
    return flash_forward(query, key, value, band=band, scale=scale, config=config)[:2]


def package_for(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> str:
    """SWEEP, WIDE or PLAIN: whose kernels compute the gradients of attention on these tensors."""
    if HOPPER_KERNEL and sweep.should_run(query, key, value):
        return SWEEP
    return WIDE if HOPPER_KERNEL and wide.should_run(query, key, value) else PLAIN


def attention_gradients(inputs: BackwardInputs) -> Gradients:
    """dQ, dK and dV by the fastest kernels for these tensors.

    On Hopper with head_dim up to 128 that is mostly the sweep, whose dQ may differ in its last bits from call
    to call. Under `torch.use_deterministic_algorithms(True)` it is not used: the same bits at every call.
    """
    package = package_for(inputs.query, inputs.key, inputs.value)
    if package == SWEEP:
        return sweep.flash_backward_hopper(inputs)
    if package == WIDE:
        return wide.flash_backward_wide(inputs)
    band = inputs.band
    shape = (inputs.query.shape[3], inputs.query.dtype, band.masks)
    return flash_backward(
        inputs,
        dk_dv_config=choose_config("dk_dv", *shape, band.q_len),
        dq_config=choose_config("dq", *shape, band.kv_len),
    )
