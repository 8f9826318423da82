"""FlashAttention-3 in the last chapter: overlap, our kernel of this kind, 8-bit inputs with outliers."""

from __future__ import annotations

import numpy as np
import streamlit as st

from kernels.lessons import low_precision
from kernels.measure.measurement import Measurement
from kernels.measure.peers import PEERS
from kernels.problem import AttentionProblem
from kernels.recordings import recorded_document
from kernels.references import reference
from viz.learn.after_lanes import lanes_panel
from viz.learn.after_units import cards, clocks_panel, predict_overlap
from viz.learn.comparing import compared
from viz.learn.controls import TILE_SIZES, choice, number
from viz.learn.figures.after import precision_figure, rotation_figure
from viz.learn.formulas import formulas
from viz.shared import theme
from viz.shared.glossary import say
from viz.shared.layout import explore_link, plot

SOURCE = "Shah et al. 2024"
HOPPER_SHAPE = (16384, 128, "full", "float16")
"""Length, head_dim, mask and dtype of the recorded speeds that are shown."""
HOPPER_PEERS = ("ours", "sdpa_flash", "sdpa_cudnn", "fa4")


def flash3_panel(palette: theme.Palette) -> None:
    """Why products and exponentials overlap; folded, 8-bit numbers, our kernel, and what else changed."""
    say(
        "The units of an [[SM]] have taken turns so far: its [[tensor cores]] multiply a tile, then another "
        "unit computes the exponentials, and each waits while the other works. FlashAttention-3, for the "
        "GPUs of the generation Hopper, such as the H100, lets both work at the same time: the exponentials "
        "of one tile are computed while the next tile is multiplied. A **clock** is one tick of the SM."
    )
    clocks_panel(palette, "after_overlap", 128, polynomial=False, predict=predict_overlap)
    lanes_panel()
    with st.expander("8-bit numbers: one large entry spoils many others, and a rotation spreads it"):
        _eight_bits(palette)
    with st.expander("Our own kernel of this kind, and its speed"):
        _built_here()
    with st.expander("What else FlashAttention-3 changes, and what its authors report"):
        _changes()


def _changes() -> None:
    """The paper's points and its speeds."""
    cards(
        {
            "Asynchrony": "Some [[warp|warps]] only load, others only compute. "
            "The softmax of one tile runs while the [[tensor cores]] multiply another.",
            "8-bit numbers": "Each block of rows has its own scale, "
            "and a random rotation spreads outliers over all features.",
            "Reported on the H100": "1.5 to 2.0 × FlashAttention-2; "
            "up to 740 TFLOP/s in float16, close to 1.2 PFLOP/s in FP8.",
        }
    )
    st.caption(f"For Hopper. {reference(SOURCE).full}.")


def _eight_bits(palette: theme.Palette) -> None:
    """Errors of 8-bit inputs with outliers, by how they are scaled, without and with the rotation."""
    say(
        "An 8-bit number has only 256 values, so many entries share one scale, by which the largest of them "
        "just fits. **What goes wrong**: an outlier, an entry far larger than the others, sets the scale, "
        "and the others lose their digits. **The repairs**: a scale of its own for each block of rows, so "
        "that an outlier spoils only its block, and a rotation, which spreads it over all entries of its row."
    )
    inputs, block = _outliers()
    results = low_precision.compare(inputs, block)
    row, before, after = low_precision.loudest_row(inputs)
    left, right = st.columns(2, gap="large")
    with left:
        plot(precision_figure(results, palette), key="after_precision")
    with right:
        plot(rotation_figure(before, after, palette), key="after_rotation")
    _say_rotation(inputs, results, row, before, after)
    shape = AttentionProblem(q_len=inputs.length, kv_len=inputs.length, head_dim=inputs.head_dim)
    explore_link("This shape in float16 in the player", shape)


def _say_rotation(
    inputs: low_precision.OutlierInputs,
    results: tuple[low_precision.PrecisionResult, ...],
    row: int,
    before: np.ndarray,
    after: np.ndarray,
) -> None:
    formulas(
        r"(Q R)(K R)^{\mathsf T}",
        r"= Q\,R R^{\mathsf T} K^{\mathsf T} = Q K^{\mathsf T},",
        r"R = \mathrm{diag}(\pm 1)\,H / \sqrt d",
    )
    alone, together = results[1].rmse, results[-1].rmse
    st.markdown(
        f"A rotation R changes no score, and it spreads an outlier over all {inputs.head_dim} features: the "
        f"largest entry of row {row} goes from {abs(before).max():.1f} to {abs(after).max():.1f}. The error "
        f"with one scale per block and the rotation is **{compared(together, alone, 'smaller', 'larger')}** "
        f"that with one scale per tensor (measured). {SOURCE} report 2.6 × for their kernel, compared with a "
        "baseline FP8 attention."
    )
    st.caption(
        "Emulated in NumPy: inputs and P are rounded to e4m3 (3 bits of mantissa, largest number 448), and "
        f"sums are exact; {inputs.heads} heads, error over all of them. The default inputs are those of "
        f"{SOURCE}, section 4.3: 0.1 % of the entries get a number of standard deviation 10 added."
    )


def _built_here() -> None:
    """Our own kernel of this kind, with its recorded speed and that of its peers."""
    say(
        "**Where it is**: in `kernels/algorithms/flash3/`.\n\n**When it runs**: on a Hopper GPU "
        "`flash_attention` runs it under three conditions.\n- The inputs have 16 bits, with head_dim 40 to "
        "256.\n- It was the faster kernel when the tiles were tuned.\n- There is work for at least three "
        "quarters of the [[SM|SMs]].\n\nIf the query heads of a [[key head]] have at most 64 queries "
        "together, as in decoding, split-KV runs instead.\n\n**How it works**: one [[warp]] loads. Two or "
        "three [[warpgroup|warpgroups]] compute 64 rows each. Each of them issues the scores of a key tile "
        "together with $PV$ of the tile before it.\n\n**What stays the same**: with tiles of the same size, "
        "each query tile visits the same key tiles in the same order as in the kernel of the player. The "
        "same bytes are asked for. There is one exception: a query tile that sees no key loads a key tile "
        "all the same."
    )
    if measurement := _recorded_on_hopper():
        say(_speed_words(measurement))


def _speed_words(measurement: Measurement) -> str:
    """The recorded speeds of the kernel and of HOPPER_PEERS, with marked terms."""
    problem = measurement.problem
    speeds = {
        result.peer: result.tflops(problem) for result in measurement.results if result.direction == "forward"
    }
    shown = ", ".join(f"{PEERS[peer].label} {speeds[peer]:.0f}" for peer in HOPPER_PEERS if speeds.get(peer))
    for term in ("SDPA", "cuDNN"):
        shown = shown.replace(term, f"[[{term}]]", 1)
    return (
        f"**How fast it is**, recorded on {measurement.device.name} with {problem.q_len:,} keys, head_dim "
        f"{problem.head_dim}, {problem.dtype}, in [[TFLOP/s]]: {shown}. The package of FlashAttention-4, "
        "which is explained next, has a kernel for Hopper too: it was measured."
    )


def _recorded_on_hopper() -> Measurement | None:
    """The recorded measurement of HOPPER_SHAPE with all of HOPPER_PEERS, or None."""
    for measurement in recorded_document("sweeps").measurements:
        problem = measurement.problem
        if (problem.q_len, problem.head_dim, problem.mask, problem.dtype) == HOPPER_SHAPE and all(
            measurement.result(peer, "forward") for peer in HOPPER_PEERS
        ):
            return measurement
    return None


def _outliers() -> tuple[low_precision.OutlierInputs, int]:
    """The inputs, and the rows that share a scale."""
    default = low_precision.OutlierInputs()
    low, high = low_precision.LENGTHS
    with st.container(horizontal=True, gap="small"):
        length = number("N, tokens", low, high, default.length, 32, "after_tokens", 130)
        head_dim = choice("d, head_dim", low_precision.HEAD_DIMS, default.head_dim, "after_head_dim", 110)
        percent = number(
            "Outliers, per cent", 0.0, 10.0, 100 * default.outlier_share, 0.1, "after_outliers", 150
        )
        size = number("Their deviation", 0.0, 1000.0, default.outlier_size, 1.0, "after_size", 140)
        block = choice("Rows per block", TILE_SIZES, 64, "after_block", 130)
        seed = number("Seed", 0, 9999, default.seed, 1, "after_seed", 110)
    return low_precision.OutlierInputs(length, head_dim, percent / 100, size, seed), block
