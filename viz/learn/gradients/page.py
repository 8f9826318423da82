"""Chapter "Gradients": P from lse, the derivation line by line against autograd, and what moves."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.row_wise.entry import BACKWARD as ROW_WISE
from kernels.algorithms.standard.traffic import matrix_bytes, standard_requested
from kernels.lessons.gradients import LIMITS, GradientLesson
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import forward_flops
from kernels.worker.requests import LessonGradientsRequest
from viz.learn import controls
from viz.learn.controls import parts
from viz.learn.counts import counted_runs, where_counted
from viz.learn.gradients import maths
from viz.learn.io.figures import ByteBars, bytes_figure
from viz.learn.io.maths import row_wise_block
from viz.learn.matrices import Matrix, matrices_html
from viz.learn.predict import type_in, weight_of_lse
from viz.learn.stage import stage
from viz.shared import runs, theme
from viz.shared.formats import format_error, format_tex, significant
from viz.shared.layout import colors
from viz.shared.waiting import result_of
from viz.shared.words import Words, filled, formulas, links


@dataclass(frozen=True)
class DerivationLine:
    words: str
    formulas: tuple[str, ...]
    equations: tuple[str, ...]
    checks: tuple[str, ...] = ()
    """The results to check: keys of LINE_WORDS."""
    checked_against: str = ""
    """What is differentiated, if it is not the loss by the quantity itself."""


DOCUMENT = tomllib.loads(Path(__file__).with_name("derivation.toml").read_text("utf-8"))
LINES = {name: DerivationLine(**line) for name, line in DOCUMENT["lines"].items()}
"""In the order of the derivation. The URL uses the keys."""
LINE_WORDS: dict[str, str] = DOCUMENT["results"]
ROW_BY_ROW = ("dS deltas", "dS log")
"""Lines that show one row of S."""
SHOWN_ROW = 0


def numbers_of(lesson: GradientLesson, heads: int) -> dict[str, int | str]:
    length, dim = lesson.length, lesson.dim
    shape: dict[str, Any] = {"length": length, "square": length**2, "dim": dim, "size": dim // heads}
    return {"row": SHOWN_ROW, "heads": heads, "scale": significant(lesson.scale), **shape}


def equations_of(name: str, lesson: GradientLesson, heads: int) -> list[list[Matrix | str]]:
    """The equations of a line as matrices of the reader's numbers and the signs between them."""
    values = maths.several_heads(lesson, heads) if name == "heads" else maths.derived(lesson)
    marked_row = SHOWN_ROW if name in ROW_BY_ROW else None

    def of_each_head(part: re.Match) -> str:
        return "".join(f"{{{part[1]}_{head}}}" for head in range(heads))

    drawn = []
    for equation in LINES[name].equations:
        text = filled(re.sub(r"{(\w+)_\*}", of_each_head, equation), numbers_of(lesson, heads))
        pieces = re.split("{(.+?)}", text)  # sign, name, sign and so on
        parts = [
            _matrix(piece, values, marked_row) if place % 2 else piece.strip()
            for place, piece in enumerate(pieces)
        ]
        drawn.append([part for part in parts if part != ""])
    return drawn


def _matrix(shown: str, values: Mapping[str, np.ndarray], marked_row: int | None) -> Matrix:
    name = shown.removesuffix("ᵀ").removesuffix("[row]")
    array, label = values[name], re.sub(r"_(\w)", r"<sub>\1</sub>", maths.CHECKED_AGAINST.get(name, name))
    if "[row]" in shown:
        array, label, marked_row = array[SHOWN_ROW], f"{label}, row {SHOWN_ROW}", None
    if shown.endswith("ᵀ"):
        array, label = array.T, f"{label}<sup>T</sup>"
    color = "bad" if name == "difference" else theme.tensor_entry(name.partition("_")[0])
    return Matrix(label, array, color, marked_row=marked_row)


WORDS = Words(__file__)
DEFAULT = GradientLesson()
PREDICTED_ROW = 0
"""Row of the default lesson of which a weight is to be predicted."""
WAIT_S = 0.4
"""How long the page waits for autograd before it is drawn without it."""
AUTOGRAD, KERNEL = "autograd, float64", "Triton kernels, float32"
ALLOWED = {AUTOGRAD: 1e-12, KERNEL: 1e-4}
"""Largest difference that counts as only rounding, as a share of the largest value or 1."""
LENGTHS = (16, 1 << 16)
SRAM_BYTES = 64 << 10
"""On-chip memory of the row-wise algorithm, which keeps as many rows of P and dP as fit."""
LINKS = {
    "Play our two kernels on this shape": "backward",
    "Play the query-outer order on this shape": "backward_q_outer",
    "Play the key-outer order on this shape": "backward_kv_outer",
}

References = Mapping[str, Mapping[str, np.ndarray]]
"""Who computed them -> derivative -> values."""


def show() -> None:
    draws = {
        "P from lse": _rebuild,
        "Line by line": _line_by_line,
        "Row sums D": _row_sums,
        "Traffic": _traffic,
        "Graphs": _graphs,
    }
    parts("gradients_view", draws)


def _rebuild() -> None:
    """The failure, storing P, and its fix: P from S and lse, with one weight to predict."""
    lines = maths.derived(DEFAULT)
    scores, lse = lines["S"], lines["lse"]
    WORDS.draw("P from lse")
    figure = st.container()
    numbers = {
        "row": PREDICTED_ROW,
        "score": float(scores[PREDICTED_ROW, 0]),
        "lse": float(lse[PREDICTED_ROW]),
    }
    answered = type_in(
        "gradients_rebuild",
        WORDS("weight question", **numbers),
        (weight_of_lse(numbers["score"], numbers["lse"]),),
        WORDS("weight answer", **numbers),
    )
    hidden = np.full(scores.shape, "empty", dtype=object)
    if answered:
        hidden[PREDICTED_ROW, 0] = "now"
    rebuilt = (
        "exp (",
        Matrix("S", scores, "muted", marked_row=PREDICTED_ROW),
        "−",
        Matrix("lse", lse, "state", marked_row=PREDICTED_ROW),
        ") =",
        Matrix("P", lines["P"], "muted", hidden, note="hatched: not stored"),
    )
    figure.html(matrices_html(rebuilt, colors()))
    tiny = AttentionProblem(q_len=32, kv_len=32, head_dim=16, block_m=4, block_n=4)
    if answered:
        WORDS.draw("rebuilt", stage=stage("text", "backward", {"step": "5.4"}))
    links(("The same with the query tile outside", tiny, "backward_q_outer"))


def _row_sums() -> None:
    """What happens if each block of keys uses its own sum as D."""
    WORDS.draw("Row sums D")
    with _inputs():
        lesson = _lesson()
    block = controls.whole_number(
        "Keys in a block", "gradients_block", 1, lesson.length, min(2, lesson.length)
    )
    sign, color = ("=", "green") if block == lesson.length else ("≠", "red")
    sums = Matrix("rowsum(P ∘ dP) in each block", maths.block_sums(lesson, block), "bad")
    row_sums = Matrix("D", maths.derived(lesson)["D of O"], "state")
    st.html(matrices_html([sums, sign, row_sums], colors()))
    error, share = maths.block_error(lesson, block)
    WORDS.draw("block error", color=color, error=error, share=share)


def _line_by_line() -> None:
    """One line of the derivation, checked against autograd and our kernels."""
    WORDS.draw("Line by line")
    lines = list(LINES)
    name = controls.switch("Line of the derivation", lines, "gradients_derivation")
    with _inputs():
        lesson, heads = _lesson(), 1
        if name == "heads":
            counts = [each for each in range(1, lesson.dim + 1) if lesson.dim % each == 0]
            heads = controls.choice(
                "Heads h", counts, counts[min(1, len(counts) - 1)], "gradients_heads", 100
            )
    slide, below = st.container(border=True, key="gradients_slide"), st.container()
    with below:  # its progress would push the line down
        references, note = _references(lesson)
        st.caption(note)
        if references:
            WORDS.draw("with kernels")
    with slide:
        _one_line(name, lesson, heads, references)
        with st.container(horizontal=True, gap="small", vertical_alignment="center"):
            # arrow keys for the speaker
            controls.step_buttons("gradients_derivation", lines, name, "Back", "Forward")
            st.caption(f"line {lines.index(name) + 1} of {len(lines)}", width="content")
    with st.expander("If scores are capped, fall with the distance, or have a sink"):
        WORDS.draw("changed scores")


def _graphs() -> None:
    """The layer on the reader's N and d, and two tokens with the reader's seed and spread."""
    WORDS.draw("Graphs")
    with st.expander("The graph: what flows from Z to the output, and back", expanded=True):
        problem = traffic_problem(tiles=False)
        backward = controls.switch("Direction", ("Forward", "Backward"), "gradients_direction") == "Backward"
        st.graphviz_chart(layer_graph(problem, backward, colors()))
        WORDS.draw("layer graph", problem=problem, kept=2 * matrix_bytes(problem))
    with st.expander("Two tokens, every path: N = 2, d = 1"):
        with _inputs():
            lesson = _lesson(length=2, dim=1)
        _two_tokens(lesson)
        WORDS.draw("two tokens")


def layer_graph(problem: AttentionProblem, backward: bool, palette: theme.Palette) -> str:
    """The layer in the DOT language, with bytes on its edges, forward or backward.

    Chu, Liu and Lin 2026, figure 1. What flows along an edge is the tensor at its start.
    """
    letter, way = ("d", "back") if backward else ("", "forward")
    matrix, square = problem.q_len * problem.head_dim * problem.itemsize, matrix_bytes(problem)
    return _graph("layer", palette, problem=problem, d=letter, way=way, matrix=matrix, square=square)


def two_tokens_graphs(lesson: GradientLesson, palette: theme.Palette) -> tuple[str, str]:
    """From V to the loss, with the paths of V00 marked; and from S00 through row 0 of P to the loss. DOT."""
    v = maths.derived(lesson)
    v |= {"J": v["J quotient"], "PV": v["P"] * v["V"][:, 0]}
    return _graph("paths of V00", palette, **v), _graph("paths of S00", palette, **v)


def _graph(section: str, palette: theme.Palette, **given: Any) -> str:
    font, parts = theme.FONT.split(",")[0], WORDS(section, c=palette, **given)
    return WORDS("graph", c=palette, font=font, parts=parts)


LABELS = {"length": "N, tokens", "dim": "d, features", "spread": "Spread of S", "seed": "Seed"}


def _inputs() -> st.delta_generator.DeltaGenerator:
    return st.container(horizontal=True, gap="small", vertical_alignment="bottom", key="gradients_inputs")


def _lesson(**fixed: int) -> GradientLesson:
    """The reader's layer: a number input for each of its fields but those that are fixed."""
    chosen = {}
    for field, label in LABELS.items():
        if field not in fixed:
            default = getattr(DEFAULT, field)
            step = 1 if isinstance(default, int) else 0.1
            chosen[field] = controls.number(label, *LIMITS[field], default, step, f"gradients_{field}", 105)
    return GradientLesson(**fixed, **chosen)


def _references(lesson: GradientLesson) -> tuple[References, str]:
    """Derivatives by who computed them, none until they are there; and words on that."""
    store = runs.run_store()
    if store is None or runs.backend(store) == "replay":
        return {}, "Autograd runs in the worker process, and none runs here."
    answer = result_of(store, store.job(LessonGradientsRequest(lesson)), "gradients", WAIT_S)
    if answer is None:
        return {}, "Autograd has not answered yet."
    found = {AUTOGRAD: answer.autograd, KERNEL: answer.kernel}
    note = f"**Measured** now, on the same numbers: torch {answer.torch}, in the worker process."
    return found, f"{note} Largest difference of any element; green if it is only rounding."


def _verdict(lesson: GradientLesson, line: str, difference: float, who: str) -> str:
    """A badge with the largest difference: green if it is only rounding."""
    largest = max(1.0, float(np.abs(maths.derived(lesson)[line]).max()))
    color = "green" if difference <= ALLOWED[who] * largest else "red"
    return f":{color}-badge[{format_error(difference)}]"


def _one_line(name: str, lesson: GradientLesson, heads: int, references: References) -> None:
    line = LINES[name]
    st.markdown(filled(line.words, numbers_of(lesson, heads)))
    for equation in equations_of(name, lesson, heads):
        st.html(matrices_html(equation, colors()))
    formulas(*line.formulas)
    remark = f" · {line.checked_against}" if line.checked_against else ""
    for who, reference in references.items():
        differences = maths.largest_differences(lesson, reference)
        verdicts = [
            f"{LINE_WORDS[check]} {_verdict(lesson, check, differences[check], who)}"
            for check in line.checks
            if check in differences
        ]
        if verdicts:
            st.markdown(f"Largest difference from {who}{remark}: {' · '.join(verdicts)}")


def _two_tokens(lesson: GradientLesson) -> None:
    v = maths.derived(lesson)
    of_value = ("dV_{00}", v["dV"][0, 0], v["dO"][:, 0], v["P"][:, 0])
    of_score = ("dS_{00}", v["dS"][0, 0], v["dP"][0], v["J quotient"][0][:, 0])
    for words, graph, (name, total, *factors) in zip(
        ("V00 reaches the loss on two paths:", "S00 reaches it through both weights of its row:"),
        two_tokens_graphs(lesson, colors()),
        (of_value, of_score),
        strict=True,
    ):
        st.markdown(words)
        st.graphviz_chart(graph)
        products = (rf"({format_tex(a)}) \cdot ({format_tex(b)})" for a, b in zip(*factors, strict=True))
        st.latex(f"{name} = {' + '.join(products)} = {format_tex(total)}", width="content")


def _traffic() -> None:
    """Bytes of each way through the backward pass, and folded what moves and what is computed."""
    WORDS.draw("Traffic")
    problem = traffic_problem()
    page = st.container()
    wanted = [(problem, name) for name in LINKS.values()]
    rows = row_wise_block(problem, SRAM_BYTES, ROW_WISE)
    by_rows = problem.with_(block_m=rows or problem.block_m)
    wanted += [(by_rows, ROW_WISE.name)] if rows else []
    found = counted_runs(wanted, "gradients_orders")  # below the rest, which its progress would push down
    ready = {name: run for (_, name), run in found.items()}
    forward, backward = ALGORITHMS["flash2"], ALGORITHMS["backward"]
    squares = 7 * problem.q_len * problem.kv_len
    least = 8 * problem.q_len * problem.head_dim * problem.itemsize
    orders = (
        {"order": order, "moves": ", ".join(order.blocks), "count": len(order.blocks)}
        | {"modelled": order.elements(problem)}
        for order in maths.LOOP_ORDERS
    )
    with page:
        WORDS.draw(
            "bytes",
            bytes=bytes_figure(byte_bars(problem, ready), least, colors()),
            row_wise=WORDS("row-wise", rows=rows, room=SRAM_BYTES, times=by_rows.q_tiles) if rows else "",
            where=where_counted(found),
            links=[
                *((label, problem, name) for label, name in LINKS.items()),
                ("Play the row-wise pass on this shape", by_rows, ROW_WISE.name),
            ],
            orders=WORDS.rows("orders", orders),
            problem=problem,
            query=maths.QUERY_OUTER.elements(problem),
            key=maths.KEY_OUTER.elements(problem),
            query_bytes=maths.QUERY_OUTER.requested_bytes(problem),
            key_bytes=maths.KEY_OUTER.requested_bytes(problem),
            squares=squares,
            squares_bytes=squares * problem.itemsize,
            products=sum(kernel.products for kernel in backward.kernels),
            forward_flops=forward_flops(problem),
            forward_chip=forward.chip_bytes(problem),
            backward_chip=backward.chip_bytes(problem),
            forward_bytes=forward.requested_bytes(problem),
            backward_bytes=backward.requested_bytes(problem),
            **maths.backward_work(problem),
        )


def traffic_problem(tiles: bool = True) -> AttentionProblem:
    """The reader's shape and tiles, with one head and no mask. Without `tiles` they have no controls."""
    with st.container(horizontal=True, gap="small"):
        length = st.number_input(
            "N, queries and keys", *LENGTHS, 512, 16, key="gradients_tokens", bind="query-params", width=160
        )
        head_dim = controls.choice("d, head_dim", controls.HEAD_DIMS, 32, "gradients_head_dim", 140)
        shape = AttentionProblem(q_len=length, kv_len=length, head_dim=head_dim)
        if not tiles:
            return shape
        return shape.with_(
            block_m=controls.choice("BLOCK_M", controls.TILE_SIZES, 64, "gradients_block_m", 140),
            block_n=controls.choice("BLOCK_N", controls.TILE_SIZES, 64, "gradients_block_n", 140),
        )


def byte_bars(problem: AttentionProblem, ready: Mapping[str, runs.Run]) -> ByteBars:
    """A bar for each way through the backward pass; counted if a kernel has run."""
    bars: dict = {"standard": (standard_requested(problem, "backward"), None, "standard")}
    counted = {name: run.trace.total_bytes for name, run in ready.items()}
    if rows := row_wise_block(problem, SRAM_BYTES, ROW_WISE):
        moved = ROW_WISE.requested_bytes(problem.with_(block_m=rows))
        bars[f"row-wise, {rows} rows"] = (moved, counted.get(ROW_WISE.name), "state")
    for order in maths.LOOP_ORDERS:
        bars[order.label] = (order.requested_bytes(problem), counted.get(order.algorithm), order.color)
    return bars
