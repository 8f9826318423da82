"""Launches the backward pass: D, then dK and dV, then dQ. No atomics are used, so it is deterministic.

Dao 2023, algorithm 2, as a small kernel and two large ones; Chu, Liu and Lin 2026, algorithm 8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from kernels.algorithms.backward.dk_dv import _attn_bwd_dk_dv
from kernels.algorithms.backward.dq import _attn_bwd_dq
from kernels.algorithms.backward.preprocess import _attn_bwd_preprocess
from kernels.oracle.exact import Gradients
from kernels.primitives.launch import (
    TRITON_DTYPES,
    TileConfig,
    can_use_tma,
    config_arguments,
    config_of,
    launch_info,
    on_device,
    problem_arguments,
    tile_arguments,
)
from kernels.primitives.marks import LaneBuffers, lane_arguments
from kernels.primitives.recorder import Recorder
from kernels.primitives.replay import launch
from kernels.problem import AttentionProblem, Band, tiles
from kernels.trace import LaunchInfo

import triton

PREPROCESS_CONFIG = TileConfig(64, 64, 4, 1)


@dataclass
class BackwardCall:
    """One backward pass: its tensors, its allocated outputs, and one method per kernel.

    Call the methods in the order in which they are defined. Shapes and errors are those of `flash_backward`.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor
    d_out: torch.Tensor
    band: Band
    scale: float
    d_lse: torch.Tensor | None = None

    def __post_init__(self) -> None:
        self.d_query = torch.empty_like(self.query)
        self.d_key = torch.empty_like(self.key)
        self.d_value = torch.empty_like(self.value)
        self.delta = torch.empty_like(self.lse)
        self._common = problem_arguments(self.query, self.key, self.band, self.scale) | {
            "scale": self.scale,
            "q_strides": self.query.stride(),
            "k_strides": self.key.stride(),
            "v_strides": self.value.stride(),
            "do_strides": self.d_out.stride(),
        }

    def preprocess(self, recorder: Recorder | None = None) -> LaunchInfo:
        """delta = rowsum(O * dO) - d_lse."""
        batch, q_heads, q_len, head_dim = self.query.shape
        config = TileConfig(recorder.block_m, recorder.block_m) if recorder else PREPROCESS_CONFIG
        with on_device(self.query, config):
            compiled = launch(
                _attn_bwd_preprocess,
                (triton.cdiv(q_len, config.block_m), batch * q_heads),
                self.out,
                self.d_out,
                self.d_lse,
                self.delta,
                o_strides=self.out.stride(),
                do_strides=self.d_out.stride(),
                q_heads=q_heads,
                q_len=q_len,
                trace=recorder.buffers if recorder else None,
                DTYPE=TRITON_DTYPES[self.query.dtype],
                HEAD_DIM=head_dim,
                BLOCK_M=config.block_m,
                BLOCK_D=triton.next_power_of_2(head_dim),
                HAS_D_LSE=self.d_lse is not None,
                TRACE=recorder is not None,
                num_warps=config.num_warps,
            )
        return launch_info(config, compiled)

    def dk_dv(
        self, config: TileConfig, recorder: Recorder | None = None, lanes: LaneBuffers | None = None
    ) -> LaunchInfo:
        """d_key and d_value; needs delta. With `lanes` the kernel sets marks."""
        batch, kv_heads = self.key.shape[:2]
        used = (self.query, self.key, self.value, self.d_out, self.d_key, self.d_value)
        m, n = config.block_m, config.block_n
        use_tma = can_use_tma(config, *used)
        with on_device(self.query, config):
            compiled = launch(
                _attn_bwd_dk_dv,
                (triton.cdiv(self.band.kv_len, n), batch * kv_heads),
                *tile_arguments(used, (m, n, n, m, n, n), use_tma),
                self.lse,
                self.delta,
                dk_strides=self.d_key.stride(),
                dv_strides=self.d_value.stride(),
                kv_heads=kv_heads,
                USE_TMA=use_tma,
                **config_arguments(config, recorder) | lane_arguments(lanes),
                **self._common,
            )
        return launch_info(config, compiled)

    def dq(
        self, config: TileConfig, recorder: Recorder | None = None, lanes: LaneBuffers | None = None
    ) -> LaunchInfo:
        """d_query; needs delta. With `lanes` the kernel sets marks."""
        batch, q_heads = self.query.shape[:2]
        heads = batch * q_heads
        used = (self.query, self.key, self.value, self.d_out, self.d_query)
        m, n = config.block_m, config.block_n
        use_tma = can_use_tma(config, *used)
        with on_device(self.query, config):
            compiled = launch(
                _attn_bwd_dq,
                (triton.cdiv(self.band.q_len, m) * heads,),
                *tile_arguments(used, (m, n, n, m, m), use_tma),
                self.lse,
                self.delta,
                dq_strides=self.d_query.stride(),
                heads_in_turn=tiles.heads_in_turn(heads, self.band.bounds_right),
                q_heads=q_heads,
                RAGGED=self.band.kv_len % n != 0,
                USE_TMA=use_tma,
                **config_arguments(config, recorder) | lane_arguments(lanes),
                **self._common,
            )
        return launch_info(config, compiled)


def flash_backward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    d_out: torch.Tensor,
    *,
    band: Band,
    scale: float,
    dk_dv_config: TileConfig,
    dq_config: TileConfig,
    d_lse: torch.Tensor | None = None,
) -> Gradients:
    """dQ, dK and dV, shaped and typed as query, key and value.

    query (batch, q_heads, q_len, head_dim), key and value (batch, kv_heads, kv_len, head_dim), in any
    strides. `out` and `lse` are the results of the forward pass, `d_out` and `d_lse` their gradients. Raises
    InvalidProblem if the tiles do not fit the GPU.
    """
    call = BackwardCall(query, key, value, out, lse, d_out, band, scale, d_lse)
    call.preprocess()
    call.dk_dv(dk_dv_config)
    call.dq(dq_config)
    return call.d_query, call.d_key, call.d_value


def tiles_of_backward(problem: AttentionProblem) -> TileConfig:
    """The problem's own tiles, without a load pipeline: the backward kernels hold more on the chip."""
    return replace(config_of(problem), num_stages=1)


def backward_of(
    problem: AttentionProblem,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    d_out: torch.Tensor,
) -> Gradients:
    """dQ, dK and dV with the problem's mask and tiles."""
    config = config_of(problem)
    return flash_backward(
        query,
        key,
        value,
        out,
        lse,
        d_out,
        band=problem.band,
        scale=problem.scale,
        dk_dv_config=config,
        dq_config=config,
    )
