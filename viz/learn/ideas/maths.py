"""Five ideas of FlashAttention: which needs which, and what it costs to leave one out.

The five ideas are those of "Making Attention I/O-Aware"; their order is ours.
"""

import functools
from dataclasses import dataclass

import numpy as np

from kernels.algorithms.chip import FLOAT32_BYTES
from kernels.algorithms.flash2.entry import FORWARD, requested_bytes
from kernels.algorithms.standard.entry import PRODUCT, SCORES
from kernels.algorithms.standard.traffic import matrix_bytes, standard_requested
from kernels.device.gpus import Gpu
from kernels.problem import BLOCKS, AttentionProblem
from kernels.traffic.modelled import LSE_BYTES
from viz.learn.softmax.maths import attention, first_head
from viz.learn.tiling.maths import tiled_attention

NEEDS = {
    "fusion": ("tiling", "recomputation"),
    "tiling": ("online softmax",),
    "online softmax": (),
    "recomputation": ("lse",),
    "lse": (),
}
"""idea -> the ideas without which it does not work, if each score is computed once.

lse needs none: it is m + log l of a row, and a softmax over whole rows has it too.
"""

ROWS = 8
"""Queries over which errors are measured."""


@dataclass(frozen=True)
class Costs:
    """What exact attention costs for one head with the ideas that stand. Modelled, but for the last two."""

    forward_bytes: int
    chip_bytes: int
    """What one program of the forward pass keeps on the chip, in the kernels that `forward_bytes` is of."""
    kept_bytes: int
    """Kept from the forward to the backward pass, beyond Q, K, V and O."""
    weight_sum: float
    """Sum of the weights of one row; 1 in attention. Measured."""
    output_error: float
    """Largest error of O over the rows looked at. Measured."""


def needed_on(problem: AttentionProblem, gpu: Gpu) -> set[tuple[str, str]]:
    """Which idea needs which on this shape.

    As in NEEDS. But if one key tile holds a whole row, no tiles have to be joined, and if `in_whole_rows` is
    a way, one kernel can hold them.
    """
    spared = {("tiling", "online softmax")} if problem.kv_tiles == 1 else set()
    spared |= {("fusion", "tiling")} if in_whole_rows(problem, gpu) else set()
    return {(idea, need) for idea in NEEDS for need in NEEDS[idea]} - spared


def falls_with(left_out: str | None, problem: AttentionProblem, gpu: Gpu) -> set[str]:
    """The ideas that no longer work on this shape when `left_out` is gone; empty for None.

    Those that need it, those that need these, and so on.
    """
    needs, gone = needed_on(problem, gpu), {left_out}
    while more := {idea for idea, need in needs if need in gone} - gone:
        gone |= more
    return {idea for idea in NEEDS if idea in gone} - {left_out}


def idle_without(left_out: str | None, problem: AttentionProblem, gpu: Gpu) -> set[str]:
    """The ideas that would still work without `left_out`, but have nothing to join (tiles) or rebuild (P)."""
    gone = falls_with(left_out, problem, gpu) | {left_out}
    idle = {"online softmax"} if "tiling" in gone or left_out == "fusion" else set()
    idle |= {"lse"} if "recomputation" in gone else set()
    return idle - gone


def costs(problem: AttentionProblem, gpu: Gpu, left_out: str | None = None) -> Costs:
    """Costs of `problem` on `gpu` with all five ideas, or with one of them left out and what falls with it.

    S and P go through HBM without fusion, and also without tiling if `in_whole_rows` is not a way. Without
    recomputation P is kept: see `kept_weights`. The last two fields say what happens if the kernel goes
    on in tiles without the online softmax.
    """
    gone = falls_with(left_out, problem, gpu) | {left_out}
    recomputes, whole = "recomputation" not in gone, in_whole_rows(problem, gpu)
    if left_out != "fusion" and "tiling" in gone and whole:
        forward, chip = requested_bytes(whole), whole_row_bytes(whole)
    elif left_out == "fusion" or "tiling" in gone:
        forward, chip = _three_kernels(problem)
    elif recomputes:
        forward, chip = requested_bytes(problem), FORWARD.chip_bytes(problem)
    else:
        forward, chip = kept_weights(problem, gpu)
    tile = problem.kv_len if left_out in ("fusion", "tiling") else problem.block_n
    weight_sum, error = tile_sums(problem, tile, left_out != "online softmax")
    return Costs(
        forward_bytes=forward,
        chip_bytes=chip,
        kept_bytes=problem.q_len * LSE_BYTES if recomputes else matrix_bytes(problem),
        weight_sum=weight_sum,
        output_error=error,
    )


def whole_row_bytes(problem: AttentionProblem) -> int:
    """On-chip bytes of a fused kernel with BLOCK_M whole rows of S. K and V still come in tiles."""
    tiles = {part.name: part.bytes_of(problem) for part in FORWARD.parts}
    scores = problem.block_m * problem.kv_len * FLOAT32_BYTES
    return scores + sum(tiles[name] for name in ("Q", "K", "V", "O", "m, l"))


def chip_capacity(gpu: Gpu) -> int:
    """Bytes that one program can keep on the chip: shared memory and registers."""
    return sum(gpu.program_limits.values())


def in_whole_rows(problem: AttentionProblem, gpu: Gpu) -> AttentionProblem | None:
    """The problem with the most rows, up to its BLOCK_M, that one fused kernel can keep whole.

    None if only so few fit on the chip that three kernels, which read K and V less often, request less.
    """
    tiles = (problem.with_(block_m=rows) for rows in sorted(BLOCKS, reverse=True) if rows <= problem.block_m)
    fits = next((each for each in tiles if whole_row_bytes(each) <= chip_capacity(gpu)), None)
    return fits if fits and requested_bytes(fits) < standard_requested(problem) else None


def kept_weights(problem: AttentionProblem, gpu: Gpu) -> tuple[int, int]:
    """Least forward bytes if P is kept for the backward pass, and the bytes on the chip of that way.

    A tile of P = exp(S - lse) needs the lse of the whole row. So K is read a second time for it, or whole
    rows are on the chip, or there are three kernels, which write P anyway.
    """
    matrix, whole = matrix_bytes(problem), in_whole_rows(problem, gpu)
    again = requested_bytes(problem) + _key_passes(problem) + matrix, FORWARD.chip_bytes(problem)
    kept = [(requested_bytes(whole) + matrix, whole_row_bytes(whole))] if whole else []
    return min(again, *kept, _three_kernels(problem))


def _three_kernels(problem: AttentionProblem) -> tuple[int, int]:
    """Requested bytes of standard attention, and bytes on the chip of the product that keeps more."""
    return standard_requested(problem), max(kernel.chip_bytes(problem) for kernel in (SCORES, PRODUCT))


def three_pass_bytes(problem: AttentionProblem) -> int:
    """Forward bytes of exact tiles without online softmax: K read for m, l and O."""
    return requested_bytes(problem) + 2 * _key_passes(problem)


def _key_passes(problem: AttentionProblem) -> int:
    """Bytes of K, read once more for each query tile."""
    return problem.q_tiles * problem.kv_len * problem.head_dim * problem.itemsize


@functools.lru_cache(maxsize=64)
def tile_sums(problem: AttentionProblem, tile: int, online: bool) -> tuple[float, float]:
    """(sum of the weights of row 0, largest error of O) over ROWS queries, float64; tiles online or alone."""
    query, key, value = first_head(problem, ROWS)
    steps = tiled_attention(query, key, value, tile, "online" if online else "own")
    last = next(step for step in steps if step.last_of_row)
    error = float(np.abs(steps[-1].output - attention(query, key, value)).max())
    if not online:
        return float(last.l[0]), error
    terms = sum(np.exp(step.scores[0] - last.m[0]).sum() for step in steps if step.i == 0)
    return float(terms / last.l[0]), error
