"""Chapter 3: a product in tiles, attention without softmax in tiles, and what softmax asks for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import streamlit as st

from kernels.lessons.numbers import UnreadableNumbers, parse_matrix
from kernels.lessons.tiling import (
    AttentionStep,
    UnfitMatrices,
    elements_one_by_one,
    span,
    tiled_attention,
    tiled_product,
    tiles_of,
    whole_attention,
)
from kernels.problem import AttentionProblem
from viz.learn.figures.matrices import matrices_html
from viz.learn.figures.tiles_at_work import attention_matrices, product_matrices, softmax_matrices
from viz.learn.stepper import stepper
from viz.shared.layout import colors, explore_link
from viz.shared.theme import format_error, format_number, format_tex

PARTS = ("A product in tiles", "Attention without softmax", "Softmax in between")
MATRICES = {
    "A": "1 2 0 1; 0 1 3 2; 2 1 1 0; 1 0 2 1",
    "B": "2 1 0 1; 1 0 2 3; 0 1 1 2; 3 2 1 0",
    "Q": "1 0 2 1; 0 2 1 1; 3 1 0 2; 1 1 1 0",
    "K": "1 1 0 0; 0 1 0 1; 2 0 2 1; 1 3 1 1",
    "V": "4 0 1; 0 2 1; 1 1 3; 2 0 5",
}
WAYS = {"each tile its own softmax": "own", "running max and sum": "online"}
QUIET = {"delta_color": "off", "delta_arrow": "off", "border": True}


def show() -> None:
    parts = st.tabs(PARTS, key="tiling_part", bind="query-params")
    for part, names, draw in zip(parts, ("AB", "QKV", "QKV"), (_product, _no_softmax, _softmax), strict=True):
        if part.open:
            with part:
                figure = st.container()
                given, tile = _matrices(names)
                with figure:
                    _drawn(draw, given, tile)


def _drawn(draw: Callable[..., tuple[int, int]], given: list[np.ndarray] | None, tile: int) -> None:
    """The figure, or what is wrong with the matrices."""
    if given is None:
        return
    try:
        q_tiles, kv_tiles = draw(*given, tile)
    except UnfitMatrices as error:
        st.error(str(error), icon=":material/error:")
        return
    problem = AttentionProblem(q_len=4 * q_tiles, kv_len=4 * kv_tiles, head_dim=16, block_m=4, block_n=4)
    explore_link(f"The kernel at work on {q_tiles} × {kv_tiles} tiles, with softmax in between", problem)


def _matrices(names: str) -> tuple[list[np.ndarray] | None, int]:
    """The reader's matrices and tile size; None after saying which text is no matrix."""
    st.markdown("**Your matrices**, rows apart by “;”")
    places = st.columns([3] * len(names) + [2])
    read, failed = [], []
    for name, place in zip(names, places, strict=False):
        text = place.text_input(name, MATRICES[name], key=f"tiling_{name.lower()}", bind="query-params")
        try:
            read.append(parse_matrix(text, name))
        except UnreadableNumbers as error:
            failed.append(str(error))
    tile = places[-1].number_input("rows of a tile", 1, 8, 2, key="tiling_tile", bind="query-params")
    for message in failed:
        st.error(message, icon=":material/error:")
    return None if failed else read, int(tile)


def _product(a: np.ndarray, b: np.ndarray, tile: int) -> tuple[int, int]:
    steps = tiled_product(a, b, tile)
    step = steps[stepper("tiling_step", len(steps), first=2) - 1]
    st.html(matrices_html(product_matrices(a, b, tile, step), colors()))
    names = [
        f"A_{{{step.i + 1}{k + 1}}} B_{{{k + 1}{step.j + 1}}}" for k in range(tiles_of(a.shape[1], tile))
    ]
    names[step.k] = rf"\boldsymbol{{{names[step.k]}}}"
    words, numbers = st.columns([3, 4], gap="large", vertical_alignment="center")
    words.latex(f"C_{{{step.i + 1}{step.j + 1}}} = {' + '.join(names)}")
    one_by_one, tiled = elements_one_by_one(a, b), steps[-1].elements_read
    with numbers.container(horizontal=True):
        st.metric(
            "Numbers read so far",
            f"{step.elements_read:,}",
            f"of {tiled:,} in tiles of {tile} × {tile}",
            **QUIET,
        )
        st.metric(
            "Element by element",
            f"{one_by_one:,}",
            f"{format_number(one_by_one / tiled, 2)}× as many",
            **QUIET,
        )
    st.caption(
        "A sum does not care in which portions it is added up, so a product falls apart into products of tiles. A tile that has been fetched is "
        "used for every row or column of its partner: larger tiles, fewer reads. Reads are **counted** by the loop that made this picture."
    )
    return tiles_of(a.shape[0], tile), tiles_of(b.shape[1], tile)


def _no_softmax(query: np.ndarray, key: np.ndarray, value: np.ndarray, tile: int) -> tuple[int, int]:
    steps = tiled_attention(query, key, value, tile, "none")
    step = steps[stepper("tiling_step", len(steps), first=2) - 1]
    st.html(matrices_html(attention_matrices(query, key, value, tile, step), colors()))
    i, j = step.i + 1, step.j + 1
    st.latex(
        rf"O_{{{i}}} \mathrel{{+}}= S_{{{i}{j}}} V_{{{j}}}, \quad S_{{{i}{j}}} = Q_{{{i}}} K_{{{j}}}^\top / \sqrt{{{query.shape[1]}}}"
    )
    difference = np.abs(steps[-1].output - whole_attention(query, key, value, "none")).max()
    held = sum(
        part.size
        for part in (query[span(step.i, tile)], key[span(step.j, tile)], step.scores, step.accumulator)
    )
    st.caption(
        f"Only one tile of S exists at a time: {step.scores.size} numbers instead of {len(query) * len(key)}. Held at once: Q and O of the query "
        f"tile, K or V of the key tile, and that tile of S, {held} numbers (Chu, Liu and Lin 2026, algorithm 2; the scale 1/√d is added here). "
        f"At the end O differs from S V taken at once by {format_error(difference)} (computed)."
    )
    return tiles_of(len(query), tile), step.kv_tiles


def _softmax(query: np.ndarray, key: np.ndarray, value: np.ndarray, tile: int) -> tuple[int, int]:
    words = st.segmented_control(
        "How tiles are joined",
        list(WAYS),
        default=next(iter(WAYS)),
        required=True,
        key="tiling_join",
        bind="query-params",
        label_visibility="collapsed",
    )
    way = WAYS[words]
    steps = tiled_attention(query, key, value, tile, way)
    step = steps[stepper("tiling_step", len(steps), first=2) - 1]
    exact = whole_attention(query, key, value, "online")
    st.html(matrices_html(softmax_matrices(value, exact, tile, step, way == "online"), colors()))
    error = float(np.abs(steps[-1].output - exact).max())
    _broken(step, error) if way == "own" else _mended(step, steps, tile, error)
    return tiles_of(len(query), tile), step.kv_tiles


def _broken(step: AttentionStep, error: float) -> None:
    if step.kv_tiles == 1:
        st.info(
            "One tile holds the whole row here, so its own sum is the sum of the row. Take smaller tiles.",
            icon=":material/info:",
        )
        return
    i, j = step.i + 1, step.j + 1
    st.latex(
        rf"O_{{{i}}} \mathrel{{+}}= \text{{softmax}}(S_{{{i}{j}}})\, V_{{{j}}} \quad \text{{divides by the sum of one tile}}"
    )
    st.error(
        f"The weights of a row add up to {step.kv_tiles}, 1 for each key tile, instead of 1 (Σ), and O is off by up to {format_number(error)} "
        "(computed). A sum can be taken in portions; a quotient whose denominator needs the whole row cannot.",
        icon=":material/close:",
    )


def _mended(step: AttentionStep, steps: tuple[AttentionStep, ...], tile: int, error: float) -> None:
    before = steps[steps.index(step) - 1] if step.j else None
    m_old, l_old = (before.m[0], before.l[0]) if before else (-np.inf, 0.0)
    m, alpha, l_before, l, added = (
        format_tex(value, 4) for value in (step.m[0], step.alpha[0], l_old, step.l[0], step.weights[0].sum())
    )
    for place, formula in zip(
        st.columns([2, 1, 2], vertical_alignment="center"),
        (
            rf"m' = \max({format_tex(m_old, 4)},\, {format_tex(step.scores[0].max(), 4)}) = {m}",
            rf"\alpha = e^{{m - m'}} = {alpha}",
            rf"\begin{{aligned}} l' &= \alpha\, l + \textstyle\sum P \\ &= {alpha} \cdot {l_before} + {added} = {l} \end{{aligned}}",
        ),
        strict=True,
    ):
        place.latex(formula)
    st.success(
        f"Row {step.i * tile + 1} is written out above. Each row keeps two numbers more, m and l; what was summed up before is multiplied by α. "
        f"acc' = α acc + P V, and O = acc / l. At the end O differs from the softmax taken at once by {format_error(error)} (computed, float64).",
        icon=":material/check:",
    )
