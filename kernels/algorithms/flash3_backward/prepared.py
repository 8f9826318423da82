"""What the backward kernels for Hopper have in common: their tensors, descriptors, and lse and D by rows."""

from dataclasses import replace

import torch

from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.flash3_backward.rows import _attn_bwd_hopper_prepare
from kernels.primitives.launch import Fixed as RowFixed
from kernels.primitives.launch import TileConfig, can_use_tma, fixed_of, launch_info, strides_of
from kernels.primitives.recorder import Recorder
from kernels.primitives.replay import launch
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


def row_descriptor(tensor: torch.Tensor, rows: int) -> TensorDescriptor:
    """Of `rows` numbers at a time of a float32 tensor with one dimension."""
    layout = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=1)
    return TensorDescriptor(tensor, list(tensor.shape), [1], [rows], layout)


class PreparedCall:
    """One backward pass: its inputs, its allocated outputs, and what its first kernel computes of rows."""

    def __init__(self, inputs: BackwardInputs) -> None:
        if not can_use_tma(ROW_CONFIG, inputs.d_out):
            inputs = replace(inputs, d_out=inputs.d_out.contiguous())
        self.inputs = inputs
        self.d_query, self.d_key, self.d_value = inputs.empty_gradients()
        (batch, q_heads, q_len, head_dim), kv_heads = inputs.query.shape, inputs.key.shape[1]
        self.block_d = max(triton.next_power_of_2(head_dim), 64)
        self.row_blocks = triton.cdiv(q_len, ROW_BLOCK)
        self.padded_rows = self.row_blocks * ROW_BLOCK
        self.padded_lse = self.inputs.lse.new_empty(batch * q_heads * self.padded_rows)
        self.padded_delta = torch.empty_like(self.padded_lse)
        self.key_heads = batch * kv_heads

    @property
    def sizes(self) -> dict[str, int]:
        """Arguments of every kernel, by their names."""
        q_heads, kv_heads = self.inputs.query.shape[1], self.inputs.key.shape[1]
        heads = {"q_heads": q_heads, "group_size": q_heads // kv_heads, "padded_rows": self.padded_rows}
        return {**heads, **self.inputs.band._asdict()}

    @property
    def key_sizes(self) -> dict[str, int]:
        """And of those that keep keys."""
        in_turn = min(HEADS_IN_TURN if self.inputs.band.bounds_right else 1, self.key_heads)
        return {"kv_heads": self.inputs.key.shape[1], "heads_in_turn": in_turn}

    def fixed_of_rows(self, recorder: Recorder | None) -> RowFixed:
        return replace(fixed_of(self.inputs.query, ROW_CONFIG, recorder), BLOCK_D=self.block_d)

    def prepare_rows(
        self, dq_sum: torch.Tensor | None = None, recorder: Recorder | None = None
    ) -> LaunchInfo:
        """lse in base 2 and D, with padded rows; zeros in `dq_sum`, float32 (padded rows, block_d)."""
        batch, q_heads, q_len, _ = self.inputs.query.shape
        compiled = launch(
            _attn_bwd_hopper_prepare,
            (self.row_blocks, batch * q_heads),
            self.inputs.out,
            self.inputs.d_out,
            self.inputs.lse,
            self.inputs.d_lse,
            self.padded_lse,
            self.padded_delta,
            dq_sum,
            strides=strides_of(o=self.inputs.out, do=self.inputs.d_out),
            q_heads=q_heads,
            q_len=q_len,
            padded_rows=self.padded_rows,
            trace=recorder.buffers if recorder else None,
            FIXED=self.fixed_of_rows(recorder),
        )
        return launch_info(ROW_CONFIG, compiled)
