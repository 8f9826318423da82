"""Traffic between HBM and SRAM as formulas of N, d and SRAM: curves, block sizes, backward loop orders.

One head, N queries and N keys, no mask. SRAM, M in Dao et al. 2022, counts elements of the inputs' type;
sums that wait in HBM are float32, as in our kernels. Equations and algorithms given by number alone are
those of Chu, Liu and Lin 2026.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernels.algorithms.chip import FLOAT32_BYTES as STATE_BYTES
from kernels.algorithms.flash1.entry import ENTRY as FLASH1
from kernels.algorithms.row_wise.entry import ENTRY as ROW_WISE
from kernels.lessons.tiling import tiles_of
from kernels.problem import BLOCKS, AttentionProblem
from kernels.trace import Trace
from kernels.traffic.modelled import LSE_BYTES


@dataclass(frozen=True)
class BlockSizes:
    """Rows of a query tile (BLOCK_M) and of a key tile (BLOCK_N)."""

    query: int
    key: int

    @property
    def usable(self) -> bool:
        """Whether each tile holds at least one row."""
        return min(self.query, self.key) >= 1


def query_outer_blocks(memory: int, d: int, share: int) -> BlockSizes:
    """The largest query tile that fits into memory / share elements, and a key tile of at most d rows.

    `memory` in elements. share = 4: eq 44, forward. share = 8: eq 79, backward.
    """
    rows = memory // (share * d)
    return BlockSizes(rows, min(rows, d))


def key_outer_blocks(memory: int, d: int) -> BlockSizes:
    """The same with the large tile on the key side, which stays on the chip.

    Dao et al. 2022, algorithm 1, line 1, where the rows are rounded up.
    """
    swapped = query_outer_blocks(memory, d, 4)
    return BlockSizes(swapped.key, swapped.query)


@dataclass(frozen=True)
class Block:
    """A block in SRAM: the tensor's name and its number of elements."""

    tensor: str
    elements: int


def forward_blocks(sizes: BlockSizes, d: int) -> tuple[Block, ...]:
    """The four blocks in the inner loop of the forward pass (list before eq 43); K and V share one."""
    query, key = sizes.query * d, sizes.key * d
    return (Block("Q", query), Block("O", query), Block("K/V", key), Block("S", sizes.query * sizes.key))


def backward_blocks(sizes: BlockSizes, d: int) -> tuple[Block, ...]:
    """The eight blocks in the inner loop of the backward pass, in both loop orders (list before eq 78)."""
    query, key = sizes.query * d, sizes.key * d
    rows = [Block(name, query) for name in ("Q", "dO", "dQ")]
    keys = [Block(name, key) for name in ("K", "V", "dK", "dV")]
    return (*rows, *keys, Block("P", sizes.query * sizes.key))


def elements(blocks: tuple[Block, ...]) -> int:
    """Elements of all blocks together."""
    return sum(block.elements for block in blocks)


def row_wise_rows(length: int, d: int, memory: int) -> int:
    """Rows of S that the row-wise algorithm computes at once; 0 if not even one row of S fits.

    All of them if Q, K, V, a row of S and a row of O fit (algorithm 1). Else as many as fit with their rows
    of Q and O and a K/V tile of as many keys, at most d: the four blocks of `forward_blocks`. Eq 39 counts S
    alone, SRAM / N, which is the same order.
    """
    if 3 * length * d + length + d <= memory:
        return length
    rows = memory // (length + 2 * d)  # without the K/V tile
    while rows and elements(row_wise_blocks(rows, length, d)) > memory:
        rows -= 1
    return min(rows, length)


def row_wise_blocks(rows: int, length: int, d: int) -> tuple[Block, ...]:
    """The same four blocks as `forward_blocks`, with whole rows of S."""
    return (*forward_blocks(BlockSizes(rows, min(rows, d)), d)[:-1], Block("S", rows * length))


def row_wise_block(problem: AttentionProblem, memory_bytes: int) -> int | None:
    """BLOCK_M of the tallest row-wise tile that fits, by what its entry keeps on the chip; None if none does.

    It keeps whole rows of S as float32, with their rows of Q and O and a tile of K or V of BLOCK_N keys.
    """
    fitting = (block for block in BLOCKS if ROW_WISE.chip_bytes(problem.with_(block_m=block)) <= memory_bytes)
    return max(fitting, default=None)


def row_wise_moves_less(problem: AttentionProblem, memory_bytes: int) -> bool | None:
    """Whether row-wise attention, with the tallest tile that fits, moves less than FlashAttention-1.

    Both as their entries count. None if not one row-wise tile fits.
    """
    block = row_wise_block(problem, memory_bytes)
    if block is None:
        return None
    return ROW_WISE.requested_bytes(problem.with_(block_m=block)) < FLASH1.requested_bytes(problem)


def turning_length(problem: AttentionProblem, memory_bytes: int) -> tuple[int, bool | None] | None:
    """The nearest N at which `row_wise_moves_less` says something else than here, and what it says there.

    N is doubled if row-wise attention moves less here, since whole rows become too long, else halved. None
    if it says the same down to one key tile.
    """
    here = row_wise_moves_less(problem, memory_bytes)
    length = problem.kv_len
    while True:
        length = 2 * length if here else length // 2
        if length < problem.block_n:
            return None
        there = row_wise_moves_less(problem.with_(q_len=length, kv_len=length), memory_bytes)
        if there is not here:
            return length, there


def standard_bytes(length: int, d: int, itemsize: int) -> int:
    """S and P written and read back: 4 N^2 elements (eq 30), and Q, K, V, O once.

    These are the compulsory bytes of its three kernels; they have no tiles, so no re-reads.
    """
    return (4 * length * length + 4 * length * d) * itemsize


def row_wise_bytes(length: int, d: int, rows: int, itemsize: int) -> int:
    """Q and O once, K and V for every block of rows: O(N d) for one block, else O(N^3 d / SRAM) (eq 39)."""
    return (2 + 2 * tiles_of(length, rows)) * length * d * itemsize


def flash2_bytes(length: int, d: int, sizes: BlockSizes, itemsize: int) -> int:
    """Q and O once, K and V for every query tile, lse once: O(N^2 d^2 / SRAM) (eq 45 and 50)."""
    return (2 + 2 * tiles_of(length, sizes.query)) * length * d * itemsize + length * LSE_BYTES


def flash1_bytes(length: int, d: int, sizes: BlockSizes, itemsize: int) -> int:
    """K and V once; for every key tile Q in, and O, m and l in and out.

    O waits in HBM in float32. Its last store is in the inputs' type.
    """
    visit = d * itemsize + 2 * d * STATE_BYTES + 4 * STATE_BYTES
    last = d * itemsize - d * STATE_BYTES + LSE_BYTES
    return length * (2 * d * itemsize + tiles_of(length, sizes.key) * visit + last)


def compulsory_bytes(length: int, d: int, itemsize: int, direction: str = "forward") -> int:
    """Q, K, V in and O out, once; backward Q, K, V, O, dO in and dQ, dK, dV out.

    Without lse, which standard and row-wise attention neither write nor read.
    """
    return (4 if direction == "forward" else 8) * length * d * itemsize


def lower_bound_bytes(length: int, d: int, memory: int, itemsize: int) -> float:
    """N^2 d^2 / SRAM without its constant. No exact algorithm beats this order for all SRAM from d to N d.

    Dao et al. 2022, proposition 3.
    """
    return length * length * d * d / memory * itemsize


def curve_bytes(name: str, length: int, d: int, memory: int, itemsize: int) -> float | None:
    """One curve at one point, with the largest blocks that `memory` elements allow. None if not one row fits.

    `name` is "standard", "row_wise", "flash1", "flash2", "compulsory" or "lower_bound".
    """
    if name == "standard":
        return standard_bytes(length, d, itemsize)
    if name == "compulsory":
        return compulsory_bytes(length, d, itemsize)
    if name == "lower_bound":
        return lower_bound_bytes(length, d, memory, itemsize)
    if name == "row_wise":
        rows = row_wise_rows(length, d, memory)
        return row_wise_bytes(length, d, rows, itemsize) if rows else None
    sizes, formula = {
        "flash1": (key_outer_blocks(memory, d), flash1_bytes),
        "flash2": (query_outer_blocks(memory, d, 4), flash2_bytes),
    }[name]
    return formula(length, d, sizes, itemsize) if sizes.usable else None


def growth(name: str, length: int, d: int, memory: int, itemsize: int) -> dict[str, float | None]:
    """The factor by which the bytes change when N, d or the SRAM doubles; None if a point does not fit."""
    here = curve_bytes(name, length, d, memory, itemsize)
    doubled = {"N": (2 * length, d, memory), "d": (length, 2 * d, memory), "SRAM": (length, d, 2 * memory)}
    there = {what: curve_bytes(name, *point, itemsize) for what, point in doubled.items()}
    return {what: value / here if here and value else None for what, value in there.items()}


def inner_step_bytes(trace: Trace, tensors: Sequence[str]) -> int:
    """Most bytes of these tensors that one step of a traced run asked for.

    That is a step on whole tiles. What a program loads once and stores once counts only if it is named.
    """
    columns = [trace.tensors.index(name) for name in tensors]
    moved = (trace.tensor_bytes_read + trace.tensor_bytes_written)[:, columns].sum(axis=1)
    return int(moved.max())


def all_of_backward_fits(length: int, d: int, memory: int) -> bool:
    """Whether five inputs, three gradients and two rows of S fit into `memory` elements (algorithm 5)."""
    return 8 * length * d + 2 * length <= memory


def row_wise_backward_rows(length: int, d: int, memory: int) -> int:
    """All rows if eight (N, d) matrices and two rows of S fit (algorithm 5), else SRAM / 2N (see eq 70)."""
    if all_of_backward_fits(length, d, memory):
        return length
    return min(memory // (2 * length), length)


def row_wise_backward_bytes(length: int, d: int, rows: int, itemsize: int) -> int:
    """O(N d) if all rows fit: five matrices in, three out.

    Else also K and V in, and dK and dV in and out, for every block of rows (eq 65, 66).
    """
    if rows >= length:
        return 8 * length * d * itemsize
    return length * d * (4 * itemsize + tiles_of(length, rows) * (2 * itemsize + 4 * STATE_BYTES))


def key_outer_backward_bytes(
    length: int, d: int, sizes: BlockSizes, itemsize: int, gamma_each_step: bool
) -> int:
    """Algorithm 8 as one kernel, dQ through HBM in float32.

    `gamma_each_step`: algorithm 7, the draft, which at every step loads O again instead of D.
    """
    row, state_row = d * itemsize, d * STATE_BYTES
    step = 2 * row + 2 * state_row + LSE_BYTES + (row if gamma_each_step else STATE_BYTES)
    before = 0 if gamma_each_step else 2 * row + STATE_BYTES
    return length * (before + 4 * row + tiles_of(length, sizes.key) * step)
