"""Launches the backward pass for Hopper with head_dim over 128, and decides when it runs."""

from dataclasses import dataclass
from typing import Any

import torch

from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.flash3.launch import can_run_hopper, tile_descriptor
from kernels.algorithms.flash3_backward.prepared import PreparedCall, row_descriptor, rows_fit
from kernels.algorithms.flash3_backward_wide.dk_dv import _attn_bwd_hopper_dk_dv
from kernels.algorithms.flash3_backward_wide.dq import _attn_bwd_hopper_dq
from kernels.oracle.exact import Gradients
from kernels.primitives.launch import TileConfig, cases_of, on_device
from kernels.primitives.numbers import LOG2E
from kernels.primitives.replay import launch
from kernels.problem import tiles

import triton


@dataclass(frozen=True)
class Fixed:
    """What is compiled into a kernel, as one constexpr."""

    BOUND_LEFT: bool
    BOUND_RIGHT: bool
    RAGGED: bool
    """Whether the last key tile is not whole."""
    BLOCK_M: int
    """Queries of a tile: 64 if keys stay, 128 if queries stay."""
    BLOCK_D: int = 256
    BLOCK_N: int = 64
    ROWS: int = 64
    """Rows of a warpgroup: the height of its matrix instruction."""
    STAGES: int = 2
    """Slots for Q, dO and P^T if keys stay; for K if queries stay."""
    COMPUTE_REGISTERS: int = 240
    LOAD_REGISTERS: int = 24
    """Registers of a thread that computes and of one that loads."""


BLOCK_N = Fixed.BLOCK_N
QUERIES_STREAMED, QUERIES_KEPT = 64, 128
"""Queries of a tile of the kernel of dK and dV, and of that of dQ."""
CONFIG = TileConfig(QUERIES_KEPT, BLOCK_N, 12, Fixed.STAGES)


def should_run(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether the gradients should come from these kernels: head_dim is over 128, and they can run.

    Of 50 small shapes on an H200 (128 to 2048 keys, 4 to 256 key tiles) they were faster than the plain
    kernels in 48, and as fast or 2 % slower in two with 128 keys.
    """
    return query.shape[3] > 128 and rows_fit(query) and can_run_hopper(query, key, value)


class WideBackwardCall(PreparedCall):
    """One backward pass: its tensors, and one method per kernel: `prepare_rows`, `dk_dv`, `dq`."""

    def _arguments(self, block_m: int) -> dict[str, Any]:
        fixed = Fixed(**cases_of(self.inputs.band, BLOCK_N), BLOCK_M=block_m, BLOCK_D=self.block_d)
        given = self.inputs
        tensors = {"q": given.query, "do": given.d_out, "k": given.key, "v": given.value}
        descriptors = {
            f"{name}_desc": tile_descriptor(tensor, fixed.ROWS, self.block_d)
            for name, tensor in tensors.items()
        }
        return {
            **descriptors,
            "scale": self.inputs.scale,
            "scale_log2": self.inputs.scale * LOG2E.value,
            **self.sizes,
            "FIXED": fixed,
            "num_warps": 4,
        }

    def dk_dv(self) -> None:
        rows = Fixed.ROWS
        launch(
            _attn_bwd_hopper_dk_dv,
            (triton.cdiv(self.inputs.band.kv_len, BLOCK_N) * self.key_heads,),
            lse_desc=row_descriptor(self.padded_lse, QUERIES_STREAMED),
            delta_desc=row_descriptor(self.padded_delta, QUERIES_STREAMED),
            dk_desc=tile_descriptor(self.d_key, rows, self.block_d),
            dv_desc=tile_descriptor(self.d_value, rows, self.block_d),
            **self.key_sizes,
            **self._arguments(QUERIES_STREAMED),
        )

    def dq(self) -> None:
        heads = self.inputs.query.shape[0] * self.inputs.query.shape[1]
        launch(
            _attn_bwd_hopper_dq,
            (triton.cdiv(self.inputs.band.q_len, QUERIES_KEPT) * heads,),
            dq_desc=tile_descriptor(self.d_query, Fixed.ROWS, self.block_d),
            lse_ptr=self.padded_lse,
            delta_ptr=self.padded_delta,
            heads_in_turn=tiles.heads_in_turn(heads, self.inputs.band.bounds_right),
            **self._arguments(QUERIES_KEPT),
        )


def flash_backward_wide(inputs: BackwardInputs) -> Gradients:
    """dQ, dK and dV, shaped and typed as query, key and value.

    query, key and value must be such as `can_run_hopper` accepts, with head_dim over 128. The results have
    the same bits at every call.
    """
    call = WideBackwardCall(inputs)
    with on_device(inputs.query, CONFIG):
        call.prepare_rows()
        call.dk_dv()
        call.dq()
    return call.d_query, call.d_key, call.d_value
