"""Traffic between HBM and SRAM as formulas of N, d and SRAM: curves and block sizes.

One head, N queries and N keys, no mask. SRAM, M in Dao et al. 2022, counts elements of the inputs' type;
sums that wait in HBM are float32, as in our kernels. Equations and algorithms given by number alone are
those of Chu, Liu and Lin 2026.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kernels.algorithms.chip import FLOAT32_BYTES as STATE_BYTES
from kernels.algorithms.row_wise.entry import ENTRY as ROW_WISE
from kernels.problem import BLOCKS, AttentionProblem
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm
from kernels.traffic.modelled import LSE_BYTES
from viz.learn.tiling.maths import tiles_of


class BlockSizes(NamedTuple):
    """Rows of a query tile (BLOCK_M) and of a key tile (BLOCK_N); 0 if not one row fits."""

    query: int
    key: int


def query_outer_blocks(memory: int, d: int, share: int = 4) -> BlockSizes:
    """Rows in memory / share elements, keys at most d. share 4: eq 44, forward; 8: eq 79, backward."""
    rows = memory // (share * d)
    return BlockSizes(rows, min(rows, d))


def forward_blocks(sizes: BlockSizes, d: int) -> dict[str, int]:
    """Elements of the four blocks of the forward pass's inner loop (list before eq 43); K and V share one."""
    query, key = sizes.query * d, sizes.key * d
    return {"Q": query, "O": query, "K/V": key, "S": sizes.query * sizes.key}


def backward_blocks(sizes: BlockSizes, d: int) -> dict[str, int]:
    """Elements of the eight blocks of the backward pass, in both loop orders (list before eq 78)."""
    query, key = sizes.query * d, sizes.key * d
    rows, keys = dict.fromkeys(("Q", "dO", "dQ"), query), dict.fromkeys(("K", "V", "dK", "dV"), key)
    return {**rows, **keys, "P": sizes.query * sizes.key}


def row_wise_block(problem: AttentionProblem, memory_bytes: int, entry: Algorithm = ROW_WISE) -> int | None:
    """BLOCK_M of the tallest row-wise tile whose entry keeps at most so many bytes; None if none does."""
    fitting = (block for block in BLOCKS if entry.chip_bytes(problem.with_(block_m=block)) <= memory_bytes)
    return max(fitting, default=None)


def row_wise_bytes(length: int, d: int, rows: int, itemsize: int) -> int:
    """Q and O once, K and V for every block of rows: O(N d) for one block, else O(N^3 d / SRAM) (eq 39)."""
    return (2 + 2 * tiles_of(length, rows)) * length * d * itemsize


def standard_bytes(length: int, d: int, sizes: BlockSizes, itemsize: int) -> int:
    """S and P in and out, 4 N^2 elements (eq 30); Q and O once, K and V for every query tile."""
    return 4 * length * length * itemsize + row_wise_bytes(length, d, sizes.query, itemsize)


def flash2_bytes(length: int, d: int, sizes: BlockSizes, itemsize: int) -> int:
    """Q and O once, K and V for every query tile, lse once: O(N^2 d^2 / SRAM) (eq 45 and 50)."""
    return row_wise_bytes(length, d, sizes.query, itemsize) + length * LSE_BYTES


def flash1_bytes(length: int, d: int, sizes: BlockSizes, itemsize: int) -> int:
    """K and V once; per key tile Q in, O, m and l in and out. O waits in float32; the last store does not."""
    visit = d * itemsize + 2 * d * STATE_BYTES + 4 * STATE_BYTES
    last = d * itemsize - d * STATE_BYTES + LSE_BYTES
    return length * (2 * d * itemsize + tiles_of(length, sizes.key) * visit + last)


def curve_bytes(name: str, length: int, d: int, memory: int, itemsize: int) -> float | None:
    """One curve at one point, with the largest blocks that `memory` elements allow. None if not one row fits.

    `name` is "standard", "row_wise", "flash1", "flash2", "compulsory" (Q, K, V in and O out, without lse), or
    "lower_bound" (N^2 d^2 / SRAM without its constant; no exact algorithm beats this order for all SRAM from
    d to N d: Dao et al. 2022, proposition 3).
    """
    if name == "compulsory":
        return 4 * length * d * itemsize
    if name == "lower_bound":
        return length * length * itemsize * d * d / memory
    if name == "row_wise":
        rows = row_wise_block(AttentionProblem(q_len=length, kv_len=length, head_dim=d), memory * itemsize)
        return row_wise_bytes(length, d, rows, itemsize) if rows else None
    sizes = largest_blocks(name, memory, d)
    formulas = {"standard": standard_bytes, "flash1": flash1_bytes, "flash2": flash2_bytes}
    return formulas[name](length, d, sizes, itemsize) if min(sizes) else None


def largest_blocks(name: str, memory: int, d: int) -> BlockSizes:
    """The tiles of "flash2" and "standard" on their curves; "flash1" has the large tile on the key side.

    Dao et al. 2022, algorithm 1, line 1, rounded down.
    """
    sizes = query_outer_blocks(memory, d)
    return BlockSizes(*reversed(sizes)) if name == "flash1" else sizes


def inner_step_bytes(trace: Trace, tensors: Sequence[str]) -> int:
    """Most bytes of these tensors that one step of a traced run asked for: a step on whole tiles."""
    columns = [trace.tensors.index(name) for name in tensors]
    return int((trace.tensor_bytes_read + trace.tensor_bytes_written)[:, columns].sum(axis=1).max())
