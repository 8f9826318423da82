"""What a program of FlashAttention-1 writes down."""

from kernels.algorithms.flash1.entry import FORWARD
from kernels.primitives.recorder import (
    columns_of,
    matrix_numbers,
    record_acc,
    record_bytes,
    record_end,
    record_matrices,
    record_state,
    record_where,
)
from kernels.primitives.tile_io import row_bytes, tile_bytes

import triton
import triton.language as tl

READ_Q, READ_K, READ_V, READ_O, READ_M, READ_L = columns_of(FORWARD, "read", "Q", "K", "V", "O", "m", "l")
WRITE_O, WRITE_M, WRITE_L, WRITE_LSE = columns_of(FORWARD, "write", "O", "m", "l", "lse")
Q, K, QK, S, P, V, OLD_O, RESCALED = matrix_numbers(
    FORWARD, "Q", "K", "QK^T", "S", "P", "V", "O from HBM", "O rescaled"
)


@triton.jit
def record_key_tile(log, first_tile, batch_head, kv_tile, kv_len, FIXED: tl.constexpr):
    """K and V were loaded. This entry stays if no query tile visits the key tile."""
    if log.where is not None:
        slot = log.slot + first_tile
        record_where(log.trace, slot, batch_head, -1, kv_tile)
        kv_bytes = tile_bytes(kv_tile, kv_len, FIXED.BLOCK_N, FIXED.ITEMSIZE, FIXED)
        record_bytes(log.trace, slot, kv_bytes, (READ_K, READ_V))


@triton.jit
def record_step(
    log, q_tile, batch_head, kv_tile, q_len, q, k, v, m, l, alpha, o, last_visit, FIXED: tl.constexpr
):
    """The end of a step: its place, its bytes, what it loaded, and the state after it."""
    if log.where is not None:
        slot = log.slot + q_tile
        record_where(log.trace, slot, batch_head, q_tile, kv_tile)
        q_bytes = tile_bytes(q_tile, q_len, FIXED.BLOCK_M, FIXED.ITEMSIZE, FIXED)
        o_bytes = tile_bytes(q_tile, q_len, FIXED.BLOCK_M, 4, FIXED)
        n_bytes = row_bytes(q_tile, q_len, FIXED.BLOCK_M)
        record_bytes(log.trace, slot, q_bytes, (READ_Q,))
        record_bytes(log.trace, slot, o_bytes, (READ_O,))
        record_bytes(log.trace, slot, n_bytes, (READ_M, READ_L, WRITE_M, WRITE_L))
        record_bytes(log.trace, slot, tl.where(last_visit, q_bytes, o_bytes), (WRITE_O,))
        record_bytes(log.trace, slot, tl.where(last_visit, n_bytes, 0), (WRITE_LSE,))
        record_matrices(log.trace, slot, (q, k, v), (Q, K, V))
        record_state(log.trace, slot, m, l, alpha)
        record_acc(log.trace.acc, slot, o)
        record_end(log.trace, slot)
