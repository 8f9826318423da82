"""What the backward kernels for Hopper have in common: their tensors, descriptors, and lse and D by rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels.algorithms.flash3.launch import GLUON_DTYPES
from kernels.algorithms.flash3_backward.rows import _attn_bwd_hopper_prepare
from kernels.primitives.launch import TileConfig, can_use_tma, launch_info
from kernels.primitives.recorder import Recorder
from kernels.primitives.replay import launch
from kernels.problem import Band
from kernels.trace import LaunchInfo

import triton
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

ROW_BLOCK = 64
"""Rows of a program of the row kernels. The rows of a head are padded to a multiple of it."""
MOST_HEADS = 65535
"""The grid of the row kernels has a row per head: CUDA's limit for its second axis."""
HEADS_IN_TURN = 4
"""Key heads that take turns in the launch order under a right bound, each from its longest key tile on."""
ROW_CONFIG = TileConfig(ROW_BLOCK, ROW_BLOCK)


def rows_fit(query: torch.Tensor) -> bool:
    """Whether a grid has room for all heads, and a descriptor can address their padded rows."""
    batch, q_heads, q_len, _ = query.shape
    heads, row_blocks = batch * q_heads, triton.cdiv(q_len, ROW_BLOCK)
    return heads <= MOST_HEADS and heads * row_blocks * ROW_BLOCK < 2**31


def tile_descriptor(tensor: torch.Tensor, rows: int, block_d: int) -> TensorDescriptor:
    """Of tiles (rows, block_d) of a tensor (batch, heads, length, head_dim)."""
    block = [1, 1, rows, block_d]
    layout = gl.NVMMASharedLayout.get_default_for(block, GLUON_DTYPES[tensor.dtype])
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), block, layout)


def row_descriptor(tensor: torch.Tensor, rows: int) -> TensorDescriptor:
    """Of `rows` numbers at a time of a float32 tensor with one dimension."""
    layout = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=1)
    return TensorDescriptor(tensor, list(tensor.shape), [1], [rows], layout)


@dataclass
class PreparedCall:
    """One backward pass: its tensors, its allocated outputs, and what its first kernel computes of rows."""

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
        if not can_use_tma(ROW_CONFIG, self.d_out):
            self.d_out = self.d_out.contiguous()
        batch, q_heads, q_len, head_dim = self.query.shape
        self.block_d = max(triton.next_power_of_2(head_dim), 64)
        self.row_blocks = triton.cdiv(q_len, ROW_BLOCK)
        self.padded_rows = self.row_blocks * ROW_BLOCK
        self.d_query = torch.empty_like(self.query)
        self.d_key = torch.empty_like(self.key)
        self.d_value = torch.empty_like(self.value)
        self.padded_lse = self.lse.new_empty(batch * q_heads * self.padded_rows)
        self.padded_delta = torch.empty_like(self.padded_lse)

    def prepare_rows(
        self, dq_sum: torch.Tensor | None = None, recorder: Recorder | None = None
    ) -> LaunchInfo:
        """lse in base 2 and D, with padded rows; zeros in `dq_sum`, float32 (padded rows, block_d)."""
        batch, q_heads, q_len, head_dim = self.query.shape
        compiled = launch(
            _attn_bwd_hopper_prepare,
            (self.row_blocks, batch * q_heads),
            self.out,
            self.d_out,
            self.lse,
            self.d_lse,
            self.padded_lse,
            self.padded_delta,
            dq_sum,
            o_strides=self.out.stride(),
            do_strides=self.d_out.stride(),
            q_heads=q_heads,
            q_len=q_len,
            padded_rows=self.padded_rows,
            HEAD_DIM=head_dim,
            BLOCK_M=ROW_BLOCK,
            BLOCK_D=self.block_d,
            trace=recorder.buffers if recorder else None,
            HAS_D_LSE=self.d_lse is not None,
            TRACE=recorder is not None,
        )
        return launch_info(ROW_CONFIG, compiled)
