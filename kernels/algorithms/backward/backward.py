"""Backward pass: D = rowsum(O * dO), then dK and dV key tile by key tile, then dQ query tile by query tile. No atomics: deterministic.

Dao 2023 (FlashAttention-2), algorithm 2, as two kernels after a small one; Chu, Liu and Lin 2026, algorithm 8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from kernels.algorithms.backward import dk_dv as backward_dk_dv
from kernels.algorithms.backward import dq as backward_dq
from kernels.algorithms.backward.dk_dv import _attn_bwd_dk_dv
from kernels.algorithms.backward.dq import _attn_bwd_dq
from kernels.algorithms.flash2.forward import flash_forward
from kernels.primitives.launch import (
    TRITON_DTYPES,
    TileConfig,
    can_use_tma,
    config_arguments,
    config_for_blocks,
    launch_info,
    on_device,
    problem_arguments,
    tile_arguments,
)
from kernels.primitives.recorder import (
    DEVICE,
    Recorder,
    TileRows,
    assemble,
    make_recorder,
    record_bytes,
    record_end,
    record_start,
    record_where,
)
from kernels.primitives.softmax import load_rows, load_tile, store_rows, tile_bytes, tile_view
from kernels.problem import AttentionProblem, tiles
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.trace.trace import LaunchInfo, Trace

import triton
import triton.language as tl

REQUESTS = (("O", "read"), ("dO", "read"), ("D", "write"))
PREPROCESS_CONFIG = TileConfig(64, 64, 4, 1)
READ_O, READ_DO, WRITE_D = (tl.constexpr(column) for column in range(len(REQUESTS)))


@triton.jit
def _attn_bwd_preprocess(
    out, d_out, d_lse_ptr, delta_ptr, o_strides, do_strides, q_heads, q_len, trace, DTYPE: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, HAS_D_LSE: tl.constexpr, TRACE: tl.constexpr,
):  # fmt: skip
    """D of one query tile, less the gradient of lse: delta (batch, q_heads, q_len) float32."""
    q_tile, batch_head = tl.program_id(0), tl.program_id(1)
    batch, head = batch_head // q_heads, batch_head % q_heads
    o_view = tile_view(out, o_strides, batch, head, q_len, False)
    do_view = tile_view(d_out, do_strides, batch, head, q_len, False)
    offs_m = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    rows = batch_head.to(tl.int64) * q_len
    slot = batch_head * tl.num_programs(0) + q_tile
    if TRACE:
        record_start(trace, slot)
    # [load O, dO] (BLOCK_M, BLOCK_D)
    o = load_tile(o_view, q_tile * BLOCK_M, HEAD_DIM, BLOCK_M, BLOCK_D, False).to(tl.float32)
    do = load_tile(do_view, q_tile * BLOCK_M, HEAD_DIM, BLOCK_M, BLOCK_D, False).to(tl.float32)
    # [D]
    delta = tl.sum(o * do, axis=1)
    if HAS_D_LSE:  # lse enters dS as P does not: dS = P * (dP - D + d_lse)
        delta -= load_rows(d_lse_ptr + rows, offs_m, q_len, 0.0)
    # [store D]
    store_rows(delta_ptr + rows, offs_m, q_len, delta)
    # [end]
    if TRACE:
        ITEMSIZE: tl.constexpr = DTYPE.primitive_bitwidth // 8
        record_where(trace, slot, batch_head, q_tile, -1)
        n_bytes = tile_bytes(q_tile * BLOCK_M, q_len, HEAD_DIM, BLOCK_M, BLOCK_D, ITEMSIZE)
        record_bytes(trace, slot, n_bytes, READ_O)
        record_bytes(trace, slot, n_bytes, READ_DO)
        record_bytes(trace, slot, tile_bytes(q_tile * BLOCK_M, q_len, 1, BLOCK_M, 1, 4), WRITE_D)
        record_end(trace, slot)


@dataclass
class BackwardCall:
    """One backward pass: the tensors, the outputs allocated for it, and a method a kernel. Run in the order of the methods."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor
    d_out: torch.Tensor
    left: int
    right: int
    scale: float
    d_lse: torch.Tensor | None = None

    def __post_init__(self) -> None:
        self.d_query, self.d_key, self.d_value = (
            torch.empty_like(tensor) for tensor in (self.query, self.key, self.value)
        )
        self.delta = torch.empty_like(self.lse)
        self.block_d = triton.next_power_of_2(self.query.shape[3])
        self._common = problem_arguments(self.query, self.key, self.left, self.right, self.scale) | {
            "scale": self.scale, "q_strides": self.query.stride(), "k_strides": self.key.stride(), "v_strides": self.value.stride(),
            "do_strides": self.d_out.stride(),
        }  # fmt: skip

    def preprocess(self, recorder: Recorder | None = None) -> LaunchInfo:
        """delta = rowsum(O * dO) - d_lse."""
        batch, q_heads, q_len, head_dim = self.query.shape
        config = (
            PREPROCESS_CONFIG if recorder is None else TileConfig(recorder.rows.block, recorder.rows.block)
        )
        with on_device(self.query, config):
            compiled = _attn_bwd_preprocess[(triton.cdiv(q_len, config.block_m), batch * q_heads)](
                self.out, self.d_out, self.d_lse, self.delta, o_strides=self.out.stride(), do_strides=self.d_out.stride(),
                q_heads=q_heads, q_len=q_len, trace=recorder and recorder.buffers, DTYPE=TRITON_DTYPES[self.query.dtype], HEAD_DIM=head_dim,
                BLOCK_M=config.block_m, BLOCK_D=self.block_d, HAS_D_LSE=self.d_lse is not None, TRACE=recorder is not None,
                num_warps=config.num_warps,
            )  # fmt: skip
        return launch_info(config, compiled)

    def dk_dv(self, config: TileConfig, recorder: Recorder | None = None) -> LaunchInfo:
        """d_key and d_value; needs delta."""
        batch, kv_heads, kv_len, _ = self.key.shape
        used = (self.query, self.key, self.value, self.d_out, self.d_key, self.d_value)
        rows = (
            config.block_m,
            config.block_n,
            config.block_n,
            config.block_m,
            config.block_n,
            config.block_n,
        )
        use_tma = can_use_tma(config, *used)
        with on_device(self.query, config):
            compiled = _attn_bwd_dk_dv[(triton.cdiv(kv_len, config.block_n), batch * kv_heads)](
                *tile_arguments(used, rows, self.block_d, use_tma), self.lse, self.delta,
                dk_strides=self.d_key.stride(), dv_strides=self.d_value.stride(), kv_heads=kv_heads,
                USE_TMA=use_tma, **config_arguments(config, recorder), **self._common,
            )  # fmt: skip
        return launch_info(config, compiled)

    def dq(self, config: TileConfig, recorder: Recorder | None = None) -> LaunchInfo:
        """d_query; needs delta."""
        batch, q_heads, q_len, _ = self.query.shape
        heads, kv_len = batch * q_heads, self.key.shape[2]
        used = (self.query, self.key, self.value, self.d_out, self.d_query)
        rows = (config.block_m, config.block_n, config.block_n, config.block_m, config.block_m)
        use_tma = can_use_tma(config, *used)
        heads_in_turn = tiles.heads_in_turn(heads, self._common["BOUND_RIGHT"])
        with on_device(self.query, config):
            compiled = _attn_bwd_dq[(triton.cdiv(q_len, config.block_m) * heads,)](
                *tile_arguments(used, rows, self.block_d, use_tma), self.lse, self.delta,
                dq_strides=self.d_query.stride(), heads_in_turn=heads_in_turn, q_heads=q_heads, RAGGED=kv_len % config.block_n != 0,
                USE_TMA=use_tma, **config_arguments(config, recorder), **self._common,
            )  # fmt: skip
        return launch_info(config, compiled)


def flash_backward(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, d_out: torch.Tensor, *,
    left: int, right: int, scale: float, dk_dv_config: TileConfig, dq_config: TileConfig, d_lse: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """dQ, dK and dV, shaped and typed as query, key and value.

    `out` and `lse` are what the forward pass gave, `d_out` and `d_lse` the gradients of both. Any strides are taken as they are.
    """
    call = BackwardCall(query, key, value, out, lse, d_out, left, right, scale, d_lse)
    call.preprocess()
    call.dk_dv(dk_dv_config)
    call.dq(dq_config)
    return call.d_query, call.d_key, call.d_value


def run_traced(problem: AttentionProblem) -> Trace:
    """Run the forward kernel, then the three backward kernels with TRACE on, on the problem's own inputs, dO and tiles."""
    query, key, value = make_inputs(problem, DEVICE)
    left, right = tiles.band(problem)
    config = replace(
        config_for_blocks(problem.block_m, problem.block_n, problem.head_dim, problem.itemsize), num_stages=1
    )
    out, lse, _ = flash_forward(query, key, value, left=left, right=right, scale=problem.scale, config=config)
    call = BackwardCall(
        query, key, value, out, lse, make_d_output(problem, DEVICE), left, right, problem.scale
    )
    recorders = backward_recorders(problem)
    launches = (
        call.preprocess(recorders[0]),
        call.dk_dv(config, recorders[1]),
        call.dq(config, recorders[2]),
    )
    results = {
        "output": out,
        "lse": lse,
        "delta": call.delta,
        "d_query": call.d_query,
        "d_key": call.d_key,
        "d_value": call.d_value,
    }
    return assemble(problem, "backward", list(zip(recorders, launches, strict=True)), **results)


def backward_recorders(problem: AttentionProblem) -> tuple[Recorder, Recorder, Recorder]:
    """Recorders of the three kernels, in launch order."""
    q_rows = TileRows("", "q_tile", problem.block_m, problem.q_len)
    kv_rows = TileRows("", "kv_tile", problem.block_n, problem.kv_len)
    heads, group = problem.batch * problem.q_heads, problem.q_heads // problem.kv_heads
    d = problem.head_dim
    return (
        make_recorder("_attn_bwd_preprocess", REQUESTS, (), q_rows, (), heads * problem.q_tiles, 1, d),
        make_recorder(
            "_attn_bwd_dk_dv", backward_dk_dv.REQUESTS, ("row_share",), q_rows,
            (kv_rows._replace(field="acc_dk"), kv_rows._replace(field="acc_dv")), heads // group * problem.kv_tiles, group * problem.q_tiles, d,
        ),
        make_recorder(
            "_attn_bwd_dq", backward_dq.REQUESTS, ("row_share",), q_rows, (q_rows._replace(field="acc"),),
            heads * problem.q_tiles, problem.kv_tiles, d,
        ),
    )  # fmt: skip
