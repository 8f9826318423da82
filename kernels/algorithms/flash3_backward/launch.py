"""Launches the backward sweep for Hopper, and decides when it runs instead of the three plain kernels."""

from copy import copy
from dataclasses import replace

import torch

from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.flash3.launch import can_run_hopper, tile_descriptor
from kernels.algorithms.flash3_backward import prepared
from kernels.algorithms.flash3_backward.kernel import _attn_bwd_hopper
from kernels.algorithms.flash3_backward.recording import Written
from kernels.algorithms.flash3_backward.rows import _attn_bwd_hopper_finish
from kernels.algorithms.flash3_backward.shared import Fixed
from kernels.device.determinism import wants_same_bits
from kernels.oracle.exact import Gradients
from kernels.oracle.naive import group_size
from kernels.primitives.launch import TileConfig, cases_of, launch_info, on_device, sm_count, strides_of
from kernels.primitives.marks import LaneBuffers
from kernels.primitives.numbers import LOG2E
from kernels.primitives.recorder import Recorder
from kernels.primitives.replay import launch
from kernels.problem import Band
from kernels.trace import LaunchInfo

import triton

BLOCK_N = Fixed.BLOCK_N
CONFIG = TileConfig(Fixed.BLOCK_M, BLOCK_N, 12, Fixed.STAGES)
"""With the warpgroup of the warp that loads. One that computes dQ alone comes to it."""


def should_run(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether the gradients should come from this sweep, and not from the plain kernels.

    They should not if torch is asked for deterministic algorithms, if head_dim is over 128 or the kernel
    cannot run on the tensors otherwise (see `can_run_hopper`), or if heads share key heads that have fewer
    key tiles than three quarters of the SMs: a program takes the query tiles of all of them. On an
    H200 the plain kernels were faster in 21 of 28 such small shapes than an earlier version of this sweep.
    """
    if wants_same_bits() or not can_run_hopper(query, key, value):
        return False
    if query.shape[3] > 128 or not prepared.rows_fit(query):
        return False
    programs = len(key) * key.shape[1] * triton.cdiv(key.shape[2], BLOCK_N)
    return group_size(query, key) == 1 or 4 * programs >= 3 * sm_count()


class HopperBackwardCall(prepared.PreparedCall):
    """One backward pass: its tensors, and one method per kernel: `prepare`, `sweep`, `finish`."""

    def __init__(self, inputs: BackwardInputs) -> None:
        super().__init__(inputs)
        self.dq_sum = self.inputs.lse.new_empty((len(self.padded_lse), self.block_d))

    def prepare(self, recorder: Recorder | None = None) -> LaunchInfo:
        """lse, D, and zeros for the sum of dQ."""
        return self.prepare_rows(self.dq_sum, recorder)

    def fixed(self, recorder: Recorder | None = None) -> Fixed:
        return Fixed(
            **cases_of(self.inputs.band, BLOCK_N),
            BLOCK_D=self.block_d,
            TRACE=recorder is not None,
            TRACE_ACC=recorder is not None and recorder.buffers.acc is not None,
        )

    def sweep(self, lanes: LaneBuffers | None = None, recorder: Recorder | None = None) -> LaunchInfo:
        """d_key, d_value, and the sum of dQ. With `lanes` the kernel sets marks."""
        fixed = self.fixed(recorder)
        blocks = {
            "q_desc": (self.inputs.query, fixed.BLOCK_M),
            "do_desc": (self.inputs.d_out, fixed.BLOCK_M),
            "k_desc": (self.inputs.key, BLOCK_N),
            "v_desc": (self.inputs.value, fixed.ROWS),
            "dk_desc": (self.d_key, fixed.ROWS),
            "dv_desc": (self.d_value, fixed.ROWS),
        }
        written = Written(lanes, *((recorder.buffers, recorder.max_steps) if recorder else (None, 0)))
        compiled = launch(
            _attn_bwd_hopper,
            (triton.cdiv(self.inputs.band.kv_len, BLOCK_N) * self.key_heads,),
            **{name: tile_descriptor(tensor, rows, self.block_d) for name, (tensor, rows) in blocks.items()},
            lse_desc=prepared.row_descriptor(self.padded_lse, fixed.BLOCK_M),
            delta_desc=prepared.row_descriptor(self.padded_delta, fixed.BLOCK_M),
            dq_sum=self.dq_sum,
            beside=(self.inputs.scale, self.inputs.scale * LOG2E.value, written),
            **self.sizes,
            **self.key_sizes,
            FIXED=fixed,
            num_warps=4,
        )
        config = replace(CONFIG, num_warps=16) if fixed.DQ_WARPGROUP else CONFIG
        return launch_info(config, compiled)

    def of_part(
        self, rows: slice, key: torch.Tensor, value: torch.Tensor, band: Band
    ) -> "HopperBackwardCall":
        """The call of some of its rows to other keys. It is prepared, and adds to the same sum of dQ.

        `rows` begin and end with blocks of ROW_BLOCK rows.
        """
        part = copy(self)
        query, d_out = self.inputs.query[:, :, rows], self.inputs.d_out[:, :, rows]
        part.inputs = replace(self.inputs, query=query, d_out=d_out, key=key, value=value, band=band)
        part.d_key, part.d_value = torch.empty_like(key), torch.empty_like(value)
        part.padded_lse, part.padded_delta = (
            each[rows.start :] for each in (self.padded_lse, self.padded_delta)
        )
        part.dq_sum = self.dq_sum[rows.start :]
        return part

    def finish(self, recorder: Recorder | None = None) -> LaunchInfo:
        batch, q_heads, q_len, _ = self.inputs.query.shape
        compiled = launch(
            _attn_bwd_hopper_finish,
            (self.row_blocks, batch * q_heads),
            self.dq_sum,
            self.d_query,
            strides=strides_of(dq=self.d_query),
            q_heads=q_heads,
            q_len=q_len,
            padded_rows=self.padded_rows,
            scale=self.inputs.scale,
            trace=recorder.buffers if recorder else None,
            FIXED=self.fixed_of_rows(recorder),
        )
        return launch_info(prepared.ROW_CONFIG, compiled)


def flash_backward_hopper(inputs: BackwardInputs) -> Gradients:
    """dQ, dK and dV, shaped and typed as query, key and value.

    query, key and value must be such as `can_run_hopper` accepts. The last bits of dQ may differ
    from call to call. It takes a float32 copy of dQ, of 256 bytes per query and head (512 with head_dim over
    64), for the time of the call.
    """
    call = HopperBackwardCall(inputs)
    with on_device(inputs.query, CONFIG):
        call.prepare()
        call.sweep()
        call.finish()
    return call.d_query, call.d_key, call.d_value


class SweepsOfParts:
    """Gradients of queries that see one part of the keys after the other: all sweeps add to one sum of dQ.

    The keys of the inputs are a part. lse and D are prepared once.
    """

    def __init__(self, inputs: BackwardInputs) -> None:
        self._whole = HopperBackwardCall(inputs)
        with on_device(inputs.query, CONFIG):
            self._whole.prepare()

    def of_keys(
        self, rows: slice, key: torch.Tensor, value: torch.Tensor, band: Band
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """dK and dV of a part, which these rows see; the rows are those of `of_part`."""
        part = self._whole.of_part(rows, key, value, band)
        with on_device(key, CONFIG):
            part.sweep()
        return part.d_key, part.d_value

    def of_queries(self) -> torch.Tensor:
        """dQ of all parts."""
        with on_device(self._whole.d_query, CONFIG):
            self._whole.finish()
        return self._whole.d_query
