"""Which kernels compute attention and its gradients: for Hopper, for decoding, or the plain ones."""

from collections.abc import Mapping
from typing import Any

import torch

from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.backward.launch import BackwardCall, flash_backward
from kernels.algorithms.flash2.forward import flash_forward
from kernels.algorithms.split_kv.launch import flash_split_kv
from kernels.oracle.exact import Gradients
from kernels.oracle.naive import group_size
from kernels.primitives.launch import TileConfig
from kernels.primitives.tuning import HOPPER_KERNEL, SHORT_LENGTH, choose_config, split_config
from kernels.problem import Band, Pattern
from kernels.problem.pattern import plan_of

if HOPPER_KERNEL:
    from kernels.algorithms.flash3 import launch as hopper
    from kernels.algorithms.flash3_backward import launch as sweep
    from kernels.algorithms.flash3_backward_wide import launch as wide

MAX_PACKED_ROWS = 64
"""Split-KV decoding is used if the heads that share a key head have at most this many queries together."""
SWEEP, WIDE, PLAIN = "flash3_backward", "flash3_backward_wide", "backward"
"""Packages of backward kernels."""


def attention_forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    band: Band,
    scale: float,
    pattern: Pattern | None = None,
    per_head: Mapping[str, torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """O and lse by the fastest kernels for these tensors; all as in `flash_forward`.

    Only the plain kernels take a pattern.
    """
    head_dim, kv_len = query.shape[3], key.shape[2]
    if pattern:
        config = tiles_of_pattern(query, pattern)
        asked: dict[str, Any] = {"band": band, "scale": scale, "pattern": pattern, "per_head": per_head}
        return flash_forward(query, key, value, **asked, config=config)[:2]
    packed_rows = group_size(query, key) * query.shape[2]
    if packed_rows <= MAX_PACKED_ROWS:
        config = split_config(packed_rows, head_dim, query.element_size())
        return flash_split_kv(query, key, value, band=band, scale=scale, config=config)[:2]
    if HOPPER_KERNEL and (chosen := hopper.chosen_config(query, key, value, band)):
        return hopper.flash_forward_hopper(query, key, value, band=band, scale=scale, config=chosen)[:2]
    config = choose_config("forward", head_dim, query.dtype, band.masks, kv_len)
    return flash_forward(query, key, value, band=band, scale=scale, config=config)[:2]


def tiles_of_pattern(query: torch.Tensor, pattern: Pattern) -> TileConfig:
    """Tiles of the forward kernel: those of a short sequence if a query sees as few keys in the mean.

    They are smaller, and hide fewer pairs. 8,192 keys on an H200: a window in documents took 0.112 ms and not
    0.123 with head_dim 64, a window of 1,024 0.175 and not 0.194 with 128.
    """
    shape = ("forward", query.shape[3], query.dtype, True)
    tuned, short = choose_config(*shape, pattern.kv_len), choose_config(*shape, SHORT_LENGTH)
    pairs = pattern.band.visible_pairs
    if pattern.mask is not None and tuned != short:
        pairs = plan_of(pattern, short.block_m, short.block_n).pairs.mean()
    return short if pairs < SHORT_LENGTH * pattern.q_len else tuned


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
    return plain_backward(inputs).gradients


def sweeps_of_parts(inputs: BackwardInputs, run_lengths: list[int]) -> Any:
    """The sweep as `SweepsOfParts` for rows in runs of these lengths; None if it should not run."""
    fits = HOPPER_KERNEL and all(length % sweep.prepared.ROW_BLOCK == 0 for length in run_lengths)
    is_empty = not (inputs.query.numel() and inputs.key.numel())
    if not fits or is_empty or package_for(inputs.query, inputs.key, inputs.value) != SWEEP:
        return None
    return sweep.SweepsOfParts(inputs)


def plain_backward(inputs: BackwardInputs) -> BackwardCall:
    """The backward pass by the plain kernels, which alone take a pattern."""
    band = inputs.band
    shape = (inputs.query.shape[3], inputs.query.dtype, band.masks or inputs.pattern is not None)
    return flash_backward(
        inputs,
        dk_dv_config=choose_config("dk_dv", *shape, band.q_len),
        dq_config=choose_config("dq", *shape, band.kv_len),
    )
