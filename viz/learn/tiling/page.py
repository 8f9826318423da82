"""Chapter "Tiles": a product in tiles, attention without softmax in tiles, and what softmax adds."""

import functools
from collections.abc import Callable, Mapping

import numpy as np
import streamlit as st

from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from kernels.problem.tiles import visited_tiles
from viz.learn.controls import parts, stepper, switch
from viz.learn.matrices import matrices_html
from viz.learn.numbers import UnreadableNumbers, parse_matrix
from viz.learn.predict import ask, next_state, type_in, update_tex, update_words
from viz.learn.softmax.maths import attention
from viz.learn.stage import stage
from viz.learn.tiling import maths as lesson
from viz.learn.tiling.figures import attention_matrices, product_matrices, softmax_matrices
from viz.learn.tiling.maths import AttentionStep, span, tiles_of
from viz.shared.formats import format_count, format_number, plain
from viz.shared.layout import colors, explore_link
from viz.shared.words import Words

WORDS = Words(__file__)
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
    draws = {
        "A product in tiles": lambda: _part("AB", _product),
        "Attention without softmax": lambda: _part("QKV", _no_softmax),
        "Softmax in between": lambda: _part("QKV", _softmax),
    }
    parts("tiling_part", draws, "tiling_step")


def _part(names: str, draw: Callable[[Matrices, int], None]) -> None:
    """A figure, and below it the matrices of these names from which it is computed, or what is wrong."""
    figure = st.container()
    st.markdown("**Your matrices**, with “;” between rows")
    columns = st.columns([3] * len(names) + [2])
    matrices: dict[str, np.ndarray] = {}
    for name, column in zip(names, columns, strict=False):
        text = column.text_input(name, MATRICES[name], key=f"tiling_{name.lower()}", bind="query-params")
        try:
            matrices[name] = parse_matrix(text, name)
        except UnreadableNumbers as error:
            st.error(plain(str(error)), icon=":material/error:")
    tile = int(columns[-1].number_input("rows per tile", 1, 8, 2, key="tiling_tile", bind="query-params"))
    if len(matrices) < len(names):
        return
    with figure:
        try:
            draw(matrices, tile)
        except lesson.UnfitMatrices as error:
            st.error(str(error), icon=":material/error:")
            return
        keys = matrices["B"].shape[1] if names == "AB" else len(matrices["K"])
        q_tiles, kv_tiles = tiles_of(len(matrices[names[0]]), tile), tiles_of(keys, tile)
        problem = AttentionProblem(q_len=4 * q_tiles, kv_len=4 * kv_tiles, head_dim=16, block_m=4, block_n=4)
        label = f"The kernel at work, {format_count(q_tiles, 'query tile')}, with softmax in between"
        explore_link(label, problem)


def _stepped(steps: tuple) -> int:
    return stepper("tiling_step", len(steps), "rows per tile") - 1


def _product(matrices: Matrices, tile: int) -> None:
    WORDS.draw("product")
    a, b = matrices["A"], matrices["B"]
    steps = lesson.tiled_product(a, b, tile)
    step = steps[_stepped(steps)]
    names = [f"A_{{{step.i}{k}}} B_{{{k}{step.j}}}" for k in range(tiles_of(a.shape[1], tile))]
    names[step.k] = rf"\boldsymbol{{{names[step.k]}}}"
    one_by_one, tiled = 2 * a.size * b.shape[1], steps[-1].elements_read  # of A and B, for each number of C

    answered = False

    def predict() -> None:
        nonlocal answered
        options = [f"{count:,}" for count in sorted({tiled, one_by_one, 2 * tile * tiled})]
        key, shape = f"tiling_reads_{one_by_one}_{tiled}", {"rows": a.shape[0], "columns": b.shape[1]}
        given = {"tile": tile, "tiled": tiled, "inner": a.shape[1], **shape}
        answered = ask(WORDS, "reads", key, options, f"{one_by_one:,}", **given)

    def reads() -> None:
        metric = functools.partial(st.metric, delta_color="off", delta_arrow="off", border=True)
        with st.container(horizontal=True):
            of_all = f"of {tiled:,} in tiles of {tile} × {tile}"
            metric("Numbers read so far", f"{step.elements_read:,}", of_all)
            if answered:
                ratio = f"{format_number(one_by_one / tiled, 2)}× as many"
                metric("Element by element", f"{one_by_one:,}", ratio)

    WORDS.draw(
        "product step",
        matrices=matrices_html(product_matrices(a, b, tile, step), colors()),
        predict=predict,
        formula=lambda: st.latex(f"C_{{{step.i}{step.j}}} = {' + '.join(names)}"),
        reads=reads,
    )


def _no_softmax(matrices: Matrices, tile: int) -> None:
    WORDS.draw("no softmax")
    query, key, value = (matrices[name] for name in "QKV")
    steps = lesson.tiled_attention(query, key, value, tile, "none")
    step = steps[_stepped(steps)]
    rows = span(step.i, tile)
    q, s, o = (block.size for block in (query[rows], step.scores, step.output[rows]))
    k_or_v = max(matrix[span(step.j, tile)].size for matrix in (key, value))
    WORDS.draw(
        "no softmax step",
        matrices=matrices_html(attention_matrices(query, key, value, tile, step), colors()),
        step=step,
        d=query.shape[1],
        whole=len(query) * len(key),
        s=s,
        held=q + o + k_or_v + s,
        difference=np.abs(steps[-1].output - query @ key.T / np.sqrt(query.shape[1]) @ value).max(),
    )


def _softmax(matrices: Matrices, tile: int) -> None:
    WORDS.draw("softmax")
    query, key, value = (matrices[name] for name in "QKV")
    way = WAYS[switch("How tiles are joined", WAYS, "tiling_join")]
    steps = lesson.tiled_attention(query, key, value, tile, way)
    place = _stepped(steps)
    step = steps[place]
    exact = attention(query, key, value)
    error = float(np.abs(steps[-1].output - exact).max())
    WORDS.draw(
        "softmax step",
        matrices=matrices_html(softmax_matrices(value, exact, tile, step, way == "online"), colors()),
        joined=functools.partial(JOINED[way], steps, place, tile, error),
        causal=_causal,
        stage=stage("text", "flash2", {"step": "2.2"}),
    )


def _causal() -> None:
    """How many tiles of the sentence below a causal mask leaves; and of a long text."""
    problem, long = (PRESETS[name].problem for name in ("text", "gpt2"))
    (visited, every), (long_visited, long_all) = (
        (
            sum(visited_tiles(each, q_tile).count for q_tile in range(each.q_tiles)),
            each.q_tiles * each.kv_tiles,
        )
        for each in (problem, long)
    )
    options = [str(count) for count in sorted({every // 2, visited, every - problem.q_tiles, every})]
    given = {"long": long, "long_visited": long_visited, "long_all": long_all}
    ask(WORDS, "causal question", "tiling_causal", options, str(visited), problem=problem, all=every, **given)


def _say_own_softmax(steps: tuple[AttentionStep, ...], place: int, tile: int, error: float) -> None:
    step = steps[place]
    if step.kv_tiles == 1:
        st.info(WORDS("one tile"), icon=":material/info:")
        return
    tiles = f"{step.kv_tiles}"
    options = sorted({"1", tiles, f"1/{tiles}"})
    if ask(WORDS, "own question", f"tiling_own_{tiles}", options, tiles, kv_tiles=tiles):
        st.error(WORDS("own error", kv_tiles=step.kv_tiles, error=error), icon=":material/close:")
        WORDS.draw("own sum", step=step)


def _say_online_softmax(steps: tuple[AttentionStep, ...], place: int, tile: int, error: float) -> None:
    """The first row of the tile at work: its next state to predict, and its last update with its numbers."""
    row = steps[place].i * tile
    now = lesson.first_row(steps, place)
    if not steps[place].last_of_row:
        following = lesson.first_row(steps, place + 1)
        numbers = ", ".join(format_number(score) for score in following.scores)
        type_in(
            f"tiling_{'_'.join(map(str, following.scores))}_{place}_{tile}",
            WORDS("online question", row=row, now=now, numbers=numbers),
            next_state(following),
            f"{update_words(following, digits=3)} The row of acc is multiplied by the same α.",
        )
    columns = st.columns([3, 3, 2], vertical_alignment="center")
    for column, formula in zip(columns, update_tex(now), strict=True):
        column.latex(formula)
    st.success(WORDS("online success", row=row, error=error), icon=":material/check:")


JOINED = {"own": _say_own_softmax, "online": _say_online_softmax}
