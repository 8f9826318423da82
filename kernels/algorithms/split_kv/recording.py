"""What a program that combines the parts of the keys writes down, and of one part of them its pages."""

from kernels.algorithms.split_kv.entry import COMBINE, SPLIT_PAGED
from kernels.primitives.recorder import (
    columns_of,
    matrix_numbers,
    record_bytes,
    record_end,
    record_matrices,
    record_rows,
    record_where,
)
from kernels.primitives.tile_io import row_bytes, tile_bytes
from kernels.trace.algorithm import BLOCK_TABLE, TABLE_ENTRY_BYTES

import triton
import triton.language as tl

READ_PARTIAL_O, READ_PARTIAL_LSE = columns_of(COMBINE, "read", "partial O", "partial lse")
(READ_TABLE,) = columns_of(SPLIT_PAGED, "read", BLOCK_TABLE)
ENTRY_BYTES = tl.constexpr(TABLE_ENTRY_BYTES)
WRITE_O, WRITE_LSE = columns_of(COMBINE, "write", "O", "lse")
PARTIAL_LSE, LSE, PARTIAL_O, O = matrix_numbers(COMBINE, "partial lse", "lse", "partial O", "O")


@triton.jit
def record_page(log, kv_tile, page):
    """The entry of the block table was loaded, of which no mask hides any; nothing without a table."""
    if log.where is not None and page is not None:
        slot = log.slot + kv_tile
        tl.store(log.trace.page + slot.to(tl.int64), page)
        record_bytes(log.trace, slot, ENTRY_BYTES, (READ_TABLE,))


@triton.jit
def record_part(
    log, split, splits, batch_kv_head, row_tile, n_rows, part, lse, weight, o, acc, FIXED: tl.constexpr
):
    """The end of a step, which adds one part. The first one has read the lse of all parts before."""
    if log.where is not None:
        slot = log.slot + split
        record_matrices(log.trace, slot, (part[:, None], lse[:, None]), (PARTIAL_LSE, LSE))
        record_matrices(log.trace, slot, (o, acc), (PARTIAL_O, O))
        record_where(log.trace, slot, batch_kv_head, row_tile, -1)
        record_bytes(
            log.trace, slot, tile_bytes(row_tile, n_rows, FIXED.BLOCK_M, 4, FIXED), (READ_PARTIAL_O,)
        )
        n_bytes = row_bytes(row_tile, n_rows, FIXED.BLOCK_M)
        record_bytes(
            log.trace, slot, n_bytes + tl.where(split == 0, splits, 0) * n_bytes, (READ_PARTIAL_LSE,)
        )
        record_rows(log.trace, slot, weight, 0)
        record_end(log.trace, slot)


@triton.jit
def record_output(log, last_split, row_tile, n_rows, FIXED: tl.constexpr):
    """O and lse were stored."""
    if log.where is not None:
        slot = log.slot + last_split
        q_bytes = tile_bytes(row_tile, n_rows, FIXED.BLOCK_M, FIXED.ITEMSIZE, FIXED)
        record_bytes(log.trace, slot, q_bytes, (WRITE_O,))
        record_bytes(log.trace, slot, row_bytes(row_tile, n_rows, FIXED.BLOCK_M), (WRITE_LSE,))
