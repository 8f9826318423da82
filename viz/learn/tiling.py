"""Chapter "Tiles": a product in tiles, attention without softmax in tiles, and what softmax adds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import streamlit as st

from kernels.lessons.division import KINDS, tiled_softmax
from kernels.lessons.numbers import UnreadableNumbers, parse_matrix
from kernels.lessons.predictions import next_state
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
from viz.learn.comparing import compared
from viz.learn.controls import switch
from viz.learn.figures.matrices import matrices_html
from viz.learn.figures.tiles_at_work import attention_matrices, product_matrices, softmax_matrices
from viz.learn.predict import choose, type_in
from viz.learn.stepper import parts, stepper
from viz.shared.formats import equals_tex, format_error, format_number, format_tex, plain
from viz.shared.glossary import say
from viz.shared.layout import colors, explore_link

MATRICES = {
    "A": "1 2 0 1; 0 1 3 2; 2 1 1 0; 1 0 2 1",
    "B": "2 1 0 1; 1 0 2 3; 0 1 1 2; 3 2 1 0",
    "Q": "1 0 2 1; 0 2 1 1; 3 1 0 2; 1 1 1 0",
    "K": "1 1 0 0; 0 1 0 1; 2 0 2 1; 1 3 1 1",
    "V": "4 0 1; 0 2 1; 1 1 3; 2 0 5",
}
WAYS = {"each tile its own softmax": "own", "running max and sum": "online"}

Matrices = Mapping[str, np.ndarray]
"""The reader's matrices by name: A and B, or Q, K and V."""


def show() -> None:
    """Draw the chapter."""
    draws = {
        "A product in tiles": ("AB", _product),
        "Attention without softmax": ("QKV", _no_softmax),
        "Softmax in between": ("QKV", _softmax),
    }
    parts(
        "tiling_part", {name: functools.partial(_part, *part) for name, part in draws.items()}, "tiling_step"
    )


def _part(names: str, draw: Callable[[Matrices, int], tuple[int, int]]) -> None:
    """A figure, and below it the matrices with these names, from which it is computed."""
    figure = st.container()
    matrices, tile = _matrices(names)
    with figure:
        _figure(draw, matrices, tile)


def _figure(draw: Callable[[Matrices, int], tuple[int, int]], matrices: Matrices | None, tile: int) -> None:
    """The figure, or what is wrong with the matrices. `draw` returns the numbers of query and key tiles."""
    if matrices is None:
        return
    try:
        q_tiles, kv_tiles = draw(matrices, tile)
    except UnfitMatrices as error:
        st.error(str(error), icon=":material/error:")
        return
    problem = AttentionProblem(q_len=4 * q_tiles, kv_len=4 * kv_tiles, head_dim=16, block_m=4, block_n=4)
    explore_link(
        f"The kernel at work: {q_tiles} query tiles, {kv_tiles} key tiles, with softmax in between", problem
    )


def _matrices(names: str) -> tuple[Matrices | None, int]:
    """The reader's matrices and tile size; None, after errors on the page, if a text is not a matrix."""
    st.markdown("**Your matrices**, with “;” between rows")
    columns = st.columns([3] * len(names) + [2])
    matrices, errors = {}, []
    for name, column in zip(names, columns, strict=False):
        text = column.text_input(name, MATRICES[name], key=f"tiling_{name.lower()}", bind="query-params")
        try:
            matrices[name] = parse_matrix(text, name)
        except UnreadableNumbers as error:
            errors.append(str(error))
    tile = columns[-1].number_input("rows per tile", 1, 8, 2, key="tiling_tile", bind="query-params")
    for message in errors:
        st.error(plain(message), icon=":material/error:")
    return None if errors else matrices, int(tile)


def _product(matrices: Matrices, tile: int) -> tuple[int, int]:
    """C = A B, one product of tiles at a time."""
    say(
        "A [[tile]] is a block of a matrix, small enough for the [[SRAM]] of an [[SM]]. Below, A and B are "
        "in [[HBM]]. Only the tiles at work (strong colour) are [[on the chip]]. Each step multiplies one "
        "tile of A with one tile of B."
    )
    a, b = matrices["A"], matrices["B"]
    steps = tiled_product(a, b, tile)
    step = steps[stepper("tiling_step", len(steps), "rows per tile") - 1]
    st.html(matrices_html(product_matrices(a, b, tile, step), colors()))
    answered = _predict_reads(a, b, tile, steps[-1].elements_read)
    names = [f"A_{{{step.i}{k}}} B_{{{k}{step.j}}}" for k in range(tiles_of(a.shape[1], tile))]
    names[step.k] = rf"\boldsymbol{{{names[step.k]}}}"
    words, numbers = st.columns([3, 4], gap="large", vertical_alignment="center")
    words.latex(f"C_{{{step.i}{step.j}}} = {' + '.join(names)}")
    one_by_one, tiled = elements_one_by_one(a, b), steps[-1].elements_read
    with numbers.container(horizontal=True):
        of_all = f"of {tiled:,} in tiles of {tile} × {tile}"
        _metric("Numbers read so far", f"{step.elements_read:,}", of_all)
        times = f"{format_number(one_by_one / tiled, 2)}× as many"
        if answered:
            _metric("Element by element", f"{one_by_one:,}", times)
    st.caption(
        "A sum can be added up in any portions, so a product splits into products of tiles. Reads are "
        "**counted** by the loop that made this picture."
    )
    return tiles_of(a.shape[0], tile), tiles_of(b.shape[1], tile)


def _predict_reads(a: np.ndarray, b: np.ndarray, tile: int, tiled: int) -> bool:
    """How many numbers are read without tiles; whether the reader has answered."""
    one_by_one = elements_one_by_one(a, b)
    options = sorted({tiled, one_by_one, 2 * tile * tiled})
    return choose(
        f"tiling_reads_{one_by_one}_{tiled}",
        f"In tiles of {tile} × {tile}, {tiled:,} numbers are read in all. How many are read if each number "
        "of C fetches its own row of A and column of B?",
        [f"{count:,}" for count in options],
        f"{one_by_one:,}",
        f"Each of the {a.shape[0]} × {b.shape[1]} numbers of C fetches 2 · {a.shape[1]} numbers. A tile that "
        "has been read is used for every row or column of its partner: larger tiles, fewer reads.",
    )


def _metric(label: str, value: str, comparison: str) -> None:
    st.metric(label, value, comparison, delta_color="off", delta_arrow="off", border=True)


def _no_softmax(matrices: Matrices, tile: int) -> tuple[int, int]:
    """O = (Q K^T) V, one tile of S at a time."""
    say(
        "Now two products, one after the other. A [[tile]] of [[score|S]] is computed from [[query|Q]] and "
        "[[key|K]]. It is multiplied at once with its rows of [[value|V]], the product is added to "
        "[[output|O]], and the tile is forgotten. Without softmax that is all: **the hatched parts of S are "
        "not stored.** The hatched parts of O are still to come."
    )
    query, key, value = (matrices[name] for name in "QKV")
    steps = tiled_attention(query, key, value, tile, "none")
    step = steps[stepper("tiling_step", len(steps), "rows per tile") - 1]
    st.html(matrices_html(attention_matrices(query, key, value, tile, step), colors()))
    i, j = step.i, step.j
    st.latex(
        rf"O_{{{i}}} \mathrel{{+}}= S_{{{i}{j}}} V_{{{j}}}, \quad "
        rf"S_{{{i}{j}}} = Q_{{{i}}} K_{{{j}}}^\top / \sqrt{{{query.shape[1]}}}"
    )
    difference = np.abs(steps[-1].output - whole_attention(query, key, value, "none")).max()
    q, s, o = (block.size for block in (query[span(step.i, tile)], step.scores, step.accumulator))
    k_or_v = max(matrix[span(step.j, tile)].size for matrix in (key, value))
    st.caption(
        f"Only one tile of S exists at a time: {s} numbers instead of {len(query) * len(key)}. Held at once: "
        "Q and O of the query tile, K or V of the key tile, and that tile of S: "
        f"{q} + {o} + {k_or_v} + {s} = {q + o + k_or_v + s} numbers "
        "(Chu, Liu and Lin 2026, algorithm 2; this app adds the scale 1/√d). At the "
        f"end O differs from S V computed without tiles by {format_error(difference)} (measured)."
    )
    return tiles_of(len(query), tile), step.kv_tiles


def _softmax(matrices: Matrices, tile: int) -> tuple[int, int]:
    """O = softmax(Q K^T) V, with each tile's own softmax or with the online softmax."""
    say(
        "Now softmax comes between the products. **First try**: each tile of [[score|S]] gets its own "
        "softmax. Press Forward until the first row of tiles is done, and compare [[output|O]] with “O "
        "without tiles”. **Then** keep the running [[row max|m]] and [[row sum|l]] of the Softmax "
        "chapter. A [[mask]], if there is one, fits in here: a key that a row may not see gets the score "
        "−∞ before m is taken, and e^(−∞) = 0, so it counts neither in l nor in O. A tile of nothing but "
        "such keys is skipped."
    )
    query, key, value = (matrices[name] for name in "QKV")
    way = WAYS[switch("How tiles are joined", WAYS, "tiling_join")]
    steps = tiled_attention(query, key, value, tile, way)
    place = stepper("tiling_step", len(steps), "rows per tile") - 1
    step = steps[place]
    exact = whole_attention(query, key, value, "online")
    st.html(matrices_html(softmax_matrices(value, exact, tile, step, way == "online"), colors()))
    error = float(np.abs(steps[-1].output - exact).max())
    if way == "own":
        _say_own_softmax(step, error)
    else:
        _predict_row(steps, place, tile)
        _say_online_softmax(step, steps, tile, error)
    _divisions(query, key, value, tile)
    return tiles_of(len(query), tile), step.kv_tiles


def _say_own_softmax(step: AttentionStep, error: float) -> None:
    """What goes wrong if each tile has its own softmax."""
    if step.kv_tiles == 1:
        st.info(
            "One tile holds the whole row, so its own sum is the sum of the row. Choose smaller tiles.",
            icon=":material/info:",
        )
        return
    answered = choose(
        f"tiling_own_{step.kv_tiles}",
        f"Each of the {step.kv_tiles} key tiles divides by its own sum. What do the [[weight|weights]] of a "
        "whole row add up to?",
        sorted({"1", f"{step.kv_tiles}", f"1/{step.kv_tiles}"}),
        f"{step.kv_tiles}",
        "Each tile adds weights with the sum 1.",
    )
    if not answered:
        return
    st.error(
        f"The weights of a row add up to {step.kv_tiles} (Σ), 1 for each key tile, instead of 1, and O is "
        f"off by up to {format_number(error)} (measured). A sum can be added up in portions; a quotient "
        "cannot, because its denominator needs the whole row.",
        icon=":material/close:",
    )
    i, j = step.i, step.j
    st.latex(
        rf"O_{{{i}}} \mathrel{{+}}= \text{{softmax}}(S_{{{i}{j}}})\, V_{{{j}}} \quad "
        r"\text{divides by the sum of one tile}"
    )


def _predict_row(steps: tuple[AttentionStep, ...], place: int, tile: int) -> None:
    """m, alpha and l of the first row of the tile at work, after its next key tile."""
    step = steps[place]
    if step.last_of_row:
        return
    following = steps[place + 1]
    m, l, scores = float(step.m[0]), float(step.l[0]), following.scores[0]
    numbers = ", ".join(format_number(score) for score in scores)
    added = format_number(float(following.weights[0].sum()), 4)
    type_in(
        f"tiling_{'_'.join(map(str, scores))}_{place}_{tile}",
        f"Row {step.i * tile} has [[row max|m]] = {format_number(m)} and [[row sum|l]] = "
        f"{format_number(l)}. Its scores in the next tile are **{numbers}**. What will m, [[rescale "
        f"factor|α]] and l be?",
        next_state(m, l, scores),
        f"l = α · {format_number(l)} + {added}. The row of acc is multiplied by the same α.",
    )


def _say_online_softmax(
    step: AttentionStep, steps: tuple[AttentionStep, ...], tile: int, error: float
) -> None:
    """The update of one row's state, with its numbers."""
    before = steps[steps.index(step) - 1] if step.j else None
    m_old, l_old = (before.m[0], before.l[0]) if before else (-np.inf, 0.0)
    m, alpha, l_before, l, added = (
        format_tex(value, 4) for value in (step.m[0], step.alpha[0], l_old, step.l[0], step.weights[0].sum())
    )
    is_alpha, is_l = (
        equals_tex(*map(float, numbers))
        for numbers in ([step.alpha[0]], [step.alpha[0], l_old, step.l[0], step.weights[0].sum()])
    )
    for column, formula in zip(
        st.columns([2, 1, 2], vertical_alignment="center"),
        (
            rf"m' = \max({format_tex(m_old, 4)},\, {format_tex(step.scores[0].max(), 4)}) = {m}",
            rf"\alpha = e^{{m - m'}} {is_alpha} {alpha}",
            r"\begin{aligned} l' &= \alpha\, l + \textstyle\sum P \\ "
            rf"&{is_l} {alpha} \cdot {l_before} + {added} {is_l} {l} \end{{aligned}}",
        ),
        strict=True,
    ):
        column.latex(formula)
    st.success(
        f"The update of row {step.i * tile} is written out above. Each row keeps two more numbers, m and "
        "l, and what was added up before is multiplied by α: acc' = α acc + P V, and O = acc / l. At the end "
        f"O differs from the softmax computed without tiles by {format_error(error)} (measured, float64).",
        icon=":material/check:",
    )


def _divisions(query: np.ndarray, key: np.ndarray, value: np.ndarray, tile: int) -> None:
    """Dividing O at every key tile against once at the end, counted on the reader's matrices."""
    with st.expander("Divide O at every key tile, or once at the end?"):
        each, last = (tiled_softmax(query, key, value, tile, every_step) for every_step in (True, False))
        rows = [f"| {kind} | {each.operations[kind]:,} | {last.operations[kind]:,} |" for kind in KINDS]
        head = ["| outside the products | at every tile | once at the end |", "|:--|--:|--:|"]
        total = f"| **all** | **{each.total:,}** | **{last.total:,}** |"
        st.markdown("\n".join([*head, *rows, total]))
        st.markdown(
            f"Once at the end, the operations are {compared(last.total, each.total, 'fewer', 'more')} at "
            f"every tile, and O differs by {format_error(float(np.abs(each.output - last.output).max()))} "
            "(measured). FlashAttention-1 divides at every tile, FlashAttention-2 at the end. It matters "
            "because only products run on the tensor cores: on an A100 312 TFLOP/s against 19.5 for other "
            "float32 operations (Dao 2023, section 3.1)."
        )
        st.caption(
            "**Counted** by two runs in NumPy on your matrices and tiles. A row is divided by its l with one "
            "division, 1 / l, and a multiplication for each number of the row."
        )
