"""Records a tile step of the Hopper kernel under TRACE, with the same values as flash2/forward.py."""

from kernels.algorithms.flash2.entry import FORWARD
from kernels.primitives.numbers import LN2
from kernels.primitives.recorder import (
    ROW_COLUMNS,
    columns_of,
    record_bytes,
    record_times,
    record_where,
)

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

READ_Q, READ_K, READ_V = columns_of(FORWARD, "read", "Q", "K", "V")
WRITE_O, WRITE_LSE = columns_of(FORWARD, "write", "O", "lse")


@gluon.jit
def record_step(
    beside, item, kv_tile, m, l, alpha, start, work, band, o_desc, GROUP: gl.constexpr,
    FIXED: gl.constexpr,
):  # fmt: skip
    """Each warpgroup records its own rows; the first one also records the rest.

    `start` is the global timer when Q K^T was issued, or when a warpgroup began to pass over the tile.
    """
    BLOCK_M: gl.constexpr = FIXED.BLOCK_M
    BLOCK_N: gl.constexpr = FIXED.BLOCK_N
    ROWS: gl.constexpr = FIXED.ROWS
    trace = beside.trace
    row_bytes = o_desc.shape[3].to(gl.int32) * (o_desc.dtype.primitive_bitwidth // 8)  # and of Q, K and V
    batch_head = item.batch * work.q_heads.number + item.head
    slot = (batch_head * work.q_tiles.number + item.q_tile) * beside.max_steps + kv_tile - item.first
    rows = trace.rows + slot.to(gl.int64) * (ROW_COLUMNS * BLOCK_M) + GROUP * ROWS
    rows = rows + gl.arange(0, ROWS, layout=m.type.layout)
    gl.store(rows, m * LN2)
    gl.store(rows + BLOCK_M, l)
    gl.store(rows + 2 * BLOCK_M, alpha)
    if GROUP == 0:
        record_where(trace, slot, batch_head, item.q_tile, kv_tile)
        key_bytes = gl.minimum(band.kv_len - kv_tile * BLOCK_N, BLOCK_N) * row_bytes
        record_bytes(trace, slot, key_bytes, (READ_K, READ_V))
        n_rows = gl.minimum(band.q_len - item.q_tile * BLOCK_M, BLOCK_M)
        if kv_tile == item.first:
            record_bytes(trace, slot, n_rows * row_bytes, (READ_Q,))
        if kv_tile + 1 == item.end:
            record_bytes(trace, slot, n_rows * row_bytes, (WRITE_O,))
            record_bytes(trace, slot, n_rows * 4, (WRITE_LSE,))
        record_times(trace, slot, start)
