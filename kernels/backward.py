"""Backward pass: D = rowsum(O * dO), then dK and dV key tile by key tile, then dQ query tile by query tile. No atomics: deterministic.

Dao 2023 (FlashAttention-2), algorithm 2, as two kernels after a small one; Chu, Liu and Lin 2026, algorithm 8.
"""

from __future__ import annotations

import torch

from kernels import backward_dk_dv, backward_dq, tiles
from kernels.backward_dk_dv import _attn_bwd_dk_dv
from kernels.backward_dq import _attn_bwd_dq
from kernels.forward import HEADS_IN_TURN, flash_forward
from kernels.inputs import make_d_output, make_inputs
from kernels.launch import TRITON_DTYPES, TileConfig, can_use_tma, config_for_blocks, launch_info, on_device, tile_arguments
from kernels.problem import AttentionProblem
from kernels.recorder import DEVICE, Recorder, TileRows, assemble, make_recorder, record_bytes, record_end, record_start, record_where
from kernels.softmax import LOG2E, load_rows, load_tile, store_rows, tile_bytes, tile_view
from kernels.trace import LaunchInfo, Trace

import triton  # isort: skip
import triton.language as tl  # isort: skip

REQUESTS = (("O", "read"), ("dO", "read"), ("D", "write"))
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


def flash_backward(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, d_out: torch.Tensor, *,
    left: int, right: int, scale: float, dk_dv_config: TileConfig, dq_config: TileConfig,
    d_lse: torch.Tensor | None = None, recorders: tuple[Recorder, Recorder, Recorder] | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, tuple[LaunchInfo, ...]]:  # fmt: skip
    """Gradients of attention: dQ, dK and dV, shaped and typed as query, key and value; D (batch, q_heads, q_len); the three launches.

    `out` and `lse` are what the forward pass gave, `d_out` and `d_lse` the gradients of both. Any strides are taken as they are.
    """
    batch, q_heads, q_len, head_dim = query.shape
    kv_heads, kv_len = key.shape[1:3]
    d_query, d_key, d_value = torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)
    delta = torch.empty((batch, q_heads, q_len), dtype=torch.float32, device=query.device)
    unbounded = q_len + kv_len
    block_d = triton.next_power_of_2(head_dim)
    traces = [None, None, None] if recorders is None else recorders
    shape = {"q_len": q_len, "kv_len": kv_len, "left": left, "right": right, "scale": scale, "scale_log2": scale * LOG2E.value}
    shape |= {"BOUND_LEFT": left < unbounded, "BOUND_RIGHT": right < unbounded, "DTYPE": TRITON_DTYPES[query.dtype]}
    shape |= {"HEAD_DIM": head_dim, "BLOCK_D": block_d, "PRECISION": "ieee" if query.dtype == torch.float32 else "tf32"}

    def preprocess(config: TileConfig) -> object:
        return _attn_bwd_preprocess[(triton.cdiv(q_len, config.block_m), batch * q_heads)](
            out, d_out, d_lse, delta, o_strides=out.stride(), do_strides=d_out.stride(), q_heads=q_heads, q_len=q_len,
            trace=traces[0] and traces[0].buffers, DTYPE=TRITON_DTYPES[query.dtype], HEAD_DIM=head_dim,
            BLOCK_M=config.block_m, BLOCK_D=block_d, HAS_D_LSE=d_lse is not None, TRACE=traces[0] is not None,
        )  # fmt: skip

    def dk_dv(config: TileConfig) -> object:
        used = (query, key, value, d_out, d_key, d_value)
        use_tma = can_use_tma(config, *used)
        rows = (config.block_m, config.block_n, config.block_n, config.block_m, config.block_n, config.block_n)
        return _attn_bwd_dk_dv[(triton.cdiv(kv_len, config.block_n), batch * kv_heads)](
            *tile_arguments(used, rows, block_d, use_tma), lse, delta,
            q_strides=query.stride(), k_strides=key.stride(), v_strides=value.stride(), do_strides=d_out.stride(),
            dk_strides=d_key.stride(), dv_strides=d_value.stride(), kv_heads=kv_heads, group_size=q_heads // kv_heads,
            USE_TMA=use_tma, BLOCK_M=config.block_m, BLOCK_N=config.block_n, **_recording(traces[1]), **_launching(config), **shape,
        )  # fmt: skip

    def dq(config: TileConfig) -> object:
        used = (query, key, value, d_out, d_query)
        use_tma = can_use_tma(config, *used)
        rows = (config.block_m, config.block_n, config.block_n, config.block_m, config.block_m)
        heads = batch * q_heads
        return _attn_bwd_dq[(triton.cdiv(q_len, config.block_m) * heads,)](
            *tile_arguments(used, rows, block_d, use_tma), lse, delta,
            q_strides=query.stride(), k_strides=key.stride(), v_strides=value.stride(), do_strides=d_out.stride(), dq_strides=d_query.stride(),
            heads_in_turn=min(heads, HEADS_IN_TURN if right < unbounded else 1), q_heads=q_heads, group_size=q_heads // kv_heads,
            RAGGED=kv_len % config.block_n != 0,
            USE_TMA=use_tma, BLOCK_M=config.block_m, BLOCK_N=config.block_n, **_recording(traces[2]), **_launching(config), **shape,
        )  # fmt: skip

    launches = []
    for launch, config in ((preprocess, dq_config), (dk_dv, dk_dv_config), (dq, dq_config)):
        with on_device(query, config):
            launches.append(launch_info(config, launch(config)))
    return d_query, d_key, d_value, delta, tuple(launches)


def _recording(recorder: Recorder | None) -> dict:
    if recorder is None:
        return {"trace": None, "max_steps": 0, "TRACE": False, "TRACE_ACC": False}
    return {"trace": recorder.buffers, "max_steps": recorder.max_steps, "TRACE": True, "TRACE_ACC": recorder.with_acc}


def _launching(config: TileConfig) -> dict:
    return {"num_warps": config.num_warps, "num_stages": config.num_stages}


def run_traced(problem: AttentionProblem) -> Trace:
    """Run the forward kernel, then the three backward kernels with TRACE on, on the problem's own inputs, dO and tiles."""
    query, key, value = make_inputs(problem, DEVICE)
    d_out = make_d_output(problem, DEVICE)
    left, right = tiles.band(problem)
    config = config_for_blocks(problem.block_m, problem.block_n, problem.head_dim, problem.itemsize)
    mask = {"left": left, "right": right, "scale": problem.scale}
    out, lse, _ = flash_forward(query, key, value, config=config, **mask)
    recorders = backward_recorders(problem)
    d_query, d_key, d_value, delta, launches = flash_backward(
        query, key, value, out, lse, d_out, dk_dv_config=config, dq_config=config, recorders=recorders, **mask
    )
    results = {"output": out, "lse": lse, "delta": delta, "d_query": d_query, "d_key": d_key, "d_value": d_value}
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
