"""Words of the Five ideas chapter: a box for each idea, why it needs another, what happens without it."""

from __future__ import annotations

from kernels.algorithms.flash2.entry import FORWARD
from kernels.algorithms.standard.traffic import standard_requested
from kernels.device.gpus import Gpu
from kernels.lessons.ideas import (
    NEEDS,
    Costs,
    chip_capacity,
    falls_with,
    idle_without,
    longest_whole_row,
    needs_of,
    three_pass_bytes,
    whole_row_bytes,
    whole_rows_fit,
)
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import compulsory_bytes, forward_flops
from viz.learn.figures.idea_map import Box
from viz.shared.formats import (
    count_tex,
    format_bytes,
    format_count,
    format_error,
    format_kib,
    format_number,
    significant,
)


def flops_words(flops: float) -> str:
    """In GFLOP."""
    return f"{significant(flops / 1e9)} GFLOP"


def room_words(gpu: Gpu) -> str:
    """What one program can have, by memory."""
    return ", ".join(f"{format_kib(limit)} {memory}" for memory, limit in gpu.program_limits.items())


def boxes(problem: AttentionProblem, gpu: Gpu, with_all: Costs, left_out: str | None) -> list[Box]:
    """What each idea does, with its number on this shape, and what became of it without `left_out`."""
    matrix = problem.q_len * problem.kv_len * problem.itemsize
    on_chip = (
        f"{format_kib(FORWARD.chip_bytes(problem, memory))} of {format_kib(limit)} {memory}"
        for memory, limit in gpu.program_limits.items()
    )
    words = {
        "fusion": (
            "one kernel: S and P never reach HBM",
            f"S and P, each in and out: {format_bytes(4 * matrix)} less to move",
        ),
        "tiling": (
            f"{problem.block_m} × {problem.block_n} scores at a time",
            ", ".join(on_chip),
        ),
        "online softmax": (
            "joins tiles by a running max and sum",
            f"{format_count(problem.kv_tiles, 'tile')} per row, error {format_error(with_all.output_error)}",
        ),
        "recomputation": (
            "the backward pass computes P again",
            f"{format_bytes(matrix)} of P need not be kept",
        ),
        "lse": (
            "one number per row: P = exp(S − lse)",
            f"{format_bytes(problem.q_len * 4)} kept instead of {format_bytes(matrix)}",
        ),
    }
    state = dict.fromkeys(NEEDS, "stands")
    state |= dict.fromkeys(idle_without(left_out, problem, gpu), "idle")
    state |= dict.fromkeys(falls_with(left_out, problem, gpu), "falls")
    state |= {left_out: "out"} if left_out else {}
    return [Box(name, *words[name], state[name]) for name in NEEDS]


def because(problem: AttentionProblem, gpu: Gpu) -> dict[tuple[str, str], str]:
    """(idea, the idea that it needs) -> why; or why it can do without on this shape."""
    seen = min(problem.block_n, problem.kv_len)
    reasons = {
        ("fusion", "tiling"): ("S must fit on the chip", "whole rows would fit, too"),
        ("tiling", "online softmax"): (
            f"a tile sees {seen:,} of {problem.kv_len:,} keys",
            f"a tile sees all {problem.kv_len:,} keys",
        ),
        ("fusion", "recomputation"): ("the backward pass needs P", ""),
        ("recomputation", "lse"): ("with lse, any tile of P can be rebuilt alone", ""),
    }
    return {
        (idea, need): words[0] if need in needs_of(idea, problem, gpu) else words[1]
        for (idea, need), words in reasons.items()
    }


def story(problem: AttentionProblem, gpu: Gpu, with_all: Costs, now: Costs, left_out: str | None) -> str:
    """What happens if an idea is left out (None: none is), with formulas and their values."""
    tell = {
        None: _all_stand,
        "fusion": _without_fusion,
        "tiling": _without_tiling,
        "online softmax": _without_online_softmax,
        "recomputation": _without_recomputation,
        "lse": _without_lse,
    }[left_out]
    return tell(problem, gpu, with_all, now)


def _all_stand(problem: AttentionProblem, gpu: Gpu, with_all: Costs, now: Costs) -> str:
    return (
        "**All five stand.** An arrow leads from an idea to the one that it needs: leave one out, and see "
        f"what depends on it. The products stay what they are, $4 N^2 d$ = "
        f"{flops_words(forward_flops(problem))}. The requested "
        f"bytes fall from {format_bytes(standard_requested(problem))} to "
        f"{format_bytes(with_all.forward_bytes)}. No kernel that stores lse can move less "
        f"than {format_bytes(compulsory_bytes(problem))}: Q, K and V in, O and lse out, each once."
    )


def _without_fusion(problem: AttentionProblem, gpu: Gpu, with_all: Costs, now: Costs) -> str:
    n, size = problem.q_len, problem.itemsize
    return (
        f"**Three kernels instead of one.** S and P, $N^2 = {count_tex(n * n)}$ numbers each, are written to "
        f"HBM and read back: $4 N^2 \\cdot {size}$ B = {format_bytes(4 * n * n * size)}. Tiles still help "
        "inside each product, but softmax now reads whole rows, so no tiles have to be joined."
    )


def _without_tiling(problem: AttentionProblem, gpu: Gpu, with_all: Costs, now: Costs) -> str:
    n = problem.q_len
    fits = whole_rows_fit(problem, gpu)
    verdict = (
        "fits, so one kernel can do without tiles"
        if fits
        else "does not fit, and fusion falls: S and P go through HBM between three kernels, whose costs the "
        "cards show"
    )
    return (
        f"**Room for {problem.block_m} whole rows of scores**: ${problem.block_m} \\cdot "
        f"{count_tex(n)} \\cdot 4$ B, together with Q, K, V and O {format_kib(whole_row_bytes(problem))}. A "
        f"program can have {room_words(gpu)} of the {gpu.name}, together {format_kib(chip_capacity(gpu))}: "
        f"that {verdict}. The limit is N = {longest_whole_row(problem, gpu):,}."
    )


def _without_online_softmax(problem: AttentionProblem, gpu: Gpu, with_all: Costs, now: Costs) -> str:
    if problem.kv_tiles == 1:
        return (
            "**One tile holds the whole row**, so its own sum is the sum of the row and nothing has to be "
            "joined. Choose a smaller BLOCK_N."
        )
    wrong = (
        "**If each tile divides by its own sum**, the weights of a row add up to "
        f"{format_number(now.weight_sum, 6)} instead of 1, and O is wrong. Tiles cannot be joined."
    )
    if whole_rows_fit(problem, gpu):
        return (
            f"{wrong} On this shape whole rows fit on the chip ({format_kib(whole_row_bytes(problem))}), so "
            "one kernel can still be exact without tiles."
        )
    return (
        f"{wrong} Whole rows do not fit on the chip ({format_kib(whole_row_bytes(problem))}), so an exact "
        f"result needs three kernels again, as the cards show: {format_bytes(now.forward_bytes)}. Or it "
        "gives up the single pass over the keys: three passes in tiles, for m, for l and for O, ask for "
        f"{format_bytes(three_pass_bytes(problem))} and compute each score three times."
    )


def _kept_words(problem: AttentionProblem) -> str:
    n, size = problem.q_len, problem.itemsize
    product = 2 * n * n * problem.head_dim
    return (
        f"P is kept for the backward pass: $N^2 \\cdot {size}$ B = {format_bytes(n * n * size)} per head, "
        "which grows with $N^2$, and the forward pass writes it to HBM. That spares the backward pass one "
        f"product, $2 N^2 d$ = {flops_words(product)}."
    )


def _without_recomputation(problem: AttentionProblem, gpu: Gpu, with_all: Costs, now: Costs) -> str:
    return (
        f"**{_kept_words(problem).replace(':', ':**', 1)} It can still be one kernel, but P "
        "reaches HBM all the same, so fusion no longer keeps its promise."
    )


def _without_lse(problem: AttentionProblem, gpu: Gpu, with_all: Costs, now: Costs) -> str:
    product = 2 * problem.q_len * problem.kv_len * problem.head_dim
    return (
        "**A tile of P needs the sum of its whole rows.** Without lse no tile of P can be rebuilt alone. So "
        f"{_kept_words(problem)} Or the backward pass first sums all rows again: a sixth "
        f"product, {flops_words(product)}, to save {format_bytes(with_all.kept_bytes)}."
    )
