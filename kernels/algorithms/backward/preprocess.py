"""D = rowsum(O * dO), one number per row, before the gradients. Dao 2023, algorithm 2, line 4."""

from kernels.algorithms.backward.recording import record_delta
from kernels.primitives.recorder import Log, record_turn
from kernels.primitives.tile_io import load_rows, load_tile, store_rows, tile_view

import triton
import triton.language as tl


@triton.jit(do_not_specialize=("q_heads", "q_len"))
def _attn_bwd_preprocess(
    out, d_out, d_lse_ptr, delta_ptr, strides, q_heads, q_len, trace, FIXED: tl.constexpr
):
    """D of one query tile, less the gradient of lse: delta (batch, q_heads, q_len) float32."""
    BLOCK_M: tl.constexpr = FIXED.BLOCK_M
    q_tile, batch_head = tl.program_id(0), tl.program_id(1)
    batch, head = batch_head // q_heads, batch_head % q_heads
    o_view = tile_view(out, strides.o, batch, head, q_len, FIXED)
    do_view = tile_view(d_out, strides.do, batch, head, q_len, FIXED)
    offs_m = q_tile * BLOCK_M + tl.arange(0, BLOCK_M)
    rows = batch_head.to(tl.int64) * q_len
    log = Log(trace.where if FIXED.TRACE else None, trace, batch_head * tl.num_programs(0), None)
    record_turn(log, q_tile)
    # [load O, dO] (BLOCK_M, BLOCK_D)
    o = load_tile(o_view, q_tile, BLOCK_M, FIXED).to(tl.float32)
    do = load_tile(do_view, q_tile, BLOCK_M, FIXED).to(tl.float32)
    # [D]
    delta = tl.sum(o * do, axis=1)
    if d_lse_ptr is not None:  # lse enters dS as P does not: dS = P * (dP - D + d_lse)
        delta -= load_rows(d_lse_ptr + rows, offs_m, q_len, 0.0)
    # [store D]
    store_rows(delta_ptr + rows, offs_m, q_len, delta)
    # [end]
    record_delta(log, q_tile, batch_head, q_len, o, do, delta, FIXED)
