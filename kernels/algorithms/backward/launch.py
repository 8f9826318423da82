"""Launches the backward pass: D, then dK and dV, then dQ. No atomics are used, so it is deterministic.

Dao 2023, algorithm 2, as a small kernel and two large ones; Chu, Liu and Lin 2026, algorithm 8.
"""

from dataclasses import replace
from typing import Any

import torch

from kernels.algorithms.backward.dk_dv import _attn_bwd_dk_dv
from kernels.algorithms.backward.dq import _attn_bwd_dq
from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.backward.preprocess import _attn_bwd_preprocess
from kernels.oracle.exact import Gradients
from kernels.primitives.launch import (
    TileConfig,
    config_of,
    fixed_of,
    launch_info,
    launch_on_tiles,
    on_device,
    strides_of,
)
from kernels.primitives.recorder import Recorder
from kernels.primitives.replay import launch
from kernels.problem import AttentionProblem
from kernels.trace import LaunchInfo

import triton

PREPROCESS_CONFIG = TileConfig(64, 64, 4, 1)


class BackwardCall:
    """One backward pass: its inputs, its allocated outputs, and one method per kernel.

    Call the methods in the order in which they are defined. Each raises InvalidProblem if its tiles do not
    fit the GPU.
    """

    def __init__(self, inputs: BackwardInputs) -> None:
        self.inputs = inputs
        self.d_query, self.d_key, self.d_value = inputs.empty_gradients()
        self.delta = torch.empty_like(inputs.lse)

    @property
    def gradients(self) -> Gradients:
        """dQ, dK and dV, shaped and typed as query, key and value."""
        return self.d_query, self.d_key, self.d_value

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Q, K, V and dO, which every kernel of gradients takes."""
        given = self.inputs
        return {"q": given.query, "k": given.key, "v": given.value, "do": given.d_out}

    def preprocess(self, recorder: Recorder | None = None) -> LaunchInfo:
        """delta = rowsum(O * dO) - d_lse."""
        given = self.inputs
        batch, q_heads, q_len, _ = given.query.shape
        config = TileConfig(recorder.block_m, recorder.block_m) if recorder else PREPROCESS_CONFIG
        with on_device(given.query, config):
            compiled = launch(
                _attn_bwd_preprocess,
                (triton.cdiv(q_len, config.block_m), batch * q_heads),
                given.out,
                given.d_out,
                given.d_lse,
                self.delta,
                strides=strides_of(o=given.out, do=given.d_out),
                q_heads=q_heads,
                q_len=q_len,
                trace=recorder.buffers if recorder else None,
                FIXED=fixed_of(given.query, config, recorder),
                num_warps=config.num_warps,
            )
        return launch_info(config, compiled)

    def dk_dv(self, config: TileConfig, recorder: Recorder | None = None, **marks: Any) -> LaunchInfo:
        """d_key and d_value; needs delta. With `lanes` the kernel sets marks."""
        key_heads = self.inputs.key.shape[0] * self.inputs.key.shape[1]
        grid = (triton.cdiv(self.inputs.band.kv_len, config.block_n), key_heads)
        gradients = {"dk": self.d_key, "dv": self.d_value}
        return self._launch(_attn_bwd_dk_dv, grid, gradients, config=config, recorder=recorder, **marks)

    def dq(self, config: TileConfig, recorder: Recorder | None = None, **marks: Any) -> LaunchInfo:
        """d_query; needs delta. With `lanes` the kernel sets marks."""
        heads = self.inputs.query.shape[0] * self.inputs.query.shape[1]
        grid = (triton.cdiv(self.inputs.band.q_len, config.block_m) * heads,)
        gradients = {"dq": self.d_query}
        return self._launch(_attn_bwd_dq, grid, gradients, config=config, recorder=recorder, **marks)

    def _launch(
        self, kernel: Any, grid: tuple[int, ...], gradients: dict, lanes: Any = None, **options: Any
    ) -> LaunchInfo:
        given = self.inputs
        asked = {"band": given.band, "scale": given.scale, "pattern": given.pattern}
        rows, tensors = (given.lse, self.delta), self.tensors | gradients
        options |= asked | {"per_head": given.per_head, "lanes": lanes}
        return launch_on_tiles(kernel, grid, tensors, *rows, **options)


def flash_backward(inputs: BackwardInputs, dk_dv_config: TileConfig, dq_config: TileConfig) -> BackwardCall:
    """The whole pass. Raises InvalidProblem if the tiles do not fit the GPU."""
    call = BackwardCall(inputs)
    call.preprocess()
    call.dk_dv(dk_dv_config)
    call.dq(dq_config)
    return call


def tiles_of_backward(problem: AttentionProblem) -> TileConfig:
    """The problem's own tiles, without a load pipeline: the backward kernels hold more on the chip."""
    return replace(config_of(problem), num_stages=1)
