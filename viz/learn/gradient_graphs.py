"""Panel of the Gradients chapter: the graph of a layer with bytes on its edges, and the graphs for N = 2."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from kernels.lessons.gradients import GradientLesson
from kernels.lessons.graphs import layer_flows, two_tokens
from kernels.problem import AttentionProblem
from viz.learn.controls import switch
from viz.learn.figures.graph import Arrow, Node, graph_html
from viz.shared import theme
from viz.shared.formats import format_bytes, format_entry, format_tex

PLACES = {
    "Z": (60, 165),
    "Q": (250, 50),
    "K": (250, 165),
    "V": (250, 280),
    "S": (450, 105),
    "P": (640, 105),
    "O": (830, 165),
    "Z_out": (1020, 165),
}
DIRECTIONS = ("Forward", "Backward")


def graphs_panel(
    asks_problem: Callable[[], AttentionProblem],
    asks_lesson: Callable[[], GradientLesson],
    palette: theme.Palette,
) -> None:
    """Two expanders: the layer on the reader's N and d, and two tokens with the reader's seed and spread.

    `asks_problem` and `asks_lesson` draw the controls for these, and return what they say.
    """
    with st.expander("The graph: what flows from Z to the output, and back", expanded=True):
        problem = asks_problem()
        backward = switch("Direction", DIRECTIONS, "gradients_direction") == DIRECTIONS[1]
        st.html(layer_graph_html(problem, backward, palette))
        squares = sum(flow.bytes for flow in layer_flows(problem) if flow.stays_on_chip)
        st.caption(
            f"Modelled: N = {problem.q_len:,}, d = {problem.head_dim}, one head, {problem.dtype}. Each edge "
            "carries the tensor at its start; backward it carries that tensor's gradient, of the same size, "
            "and Z adds up what three edges bring. FlashAttention keeps the dashed edges on the chip: "
            f"{format_bytes(squares)} in each direction. Z_out is Y, the output of the layer. Graph of Chu, "
            "Liu and Lin 2026, figure 1."
        )
    with st.expander("Two tokens, every path: N = 2, d = 1"):
        lesson = asks_lesson()
        _two_tokens(two_tokens_html(lesson, palette), lesson)


def layer_graph_html(problem: AttentionProblem, backward: bool, palette: theme.Palette) -> str:
    """The layer's graph with bytes on its edges, forward or backward."""
    flows = layer_flows(problem)
    shapes = {flow.source: flow.shape for flow in flows} | {"Z_out": (problem.q_len, problem.head_dim)}
    squares = [flow.source for flow in flows if flow.stays_on_chip]
    letter = "d" if backward else ""
    nodes = [
        Node(
            letter + name,
            *place,
            " × ".join(f"{length:,}" for length in shapes[name]),
            theme.tensor_entry(name),
            name in squares,
        )
        for name, place in PLACES.items()
    ]
    arrows = []
    for flow in flows:
        ends = (letter + flow.source, letter + flow.target)
        start, end = reversed(ends) if backward else ends
        color = "now" if flow.stays_on_chip else "muted"
        arrows.append(Arrow(start, end, format_bytes(flow.bytes), color, flow.stays_on_chip))
    alt = "Z leads to Q, K and V; Q and K to S; S to P; P and V to O; O to the output Z_out"
    return graph_html(nodes, arrows, (1080, 330), palette, alt)


def two_tokens_html(lesson: GradientLesson, palette: theme.Palette) -> tuple[str, str]:
    """From V to the loss, with the paths of V00 marked; and from S00 through row 0 of P to the loss."""
    v, both = two_tokens(lesson.seed, lesson.spread), (0, 1)
    products = [("V00", 0, 0), ("V10", 0, 1), ("V00", 1, 0), ("V10", 1, 1)]
    value = [Node(f"V{j}0", 60, 60 + 150 * j, format_entry(v["V"][j, 0]), "value") for j in both]
    middle = [
        Node(f"P{i}{j} {name}", 300, 30 + 70 * index, format_entry(v["P"][i, j] * v["V"][j, 0]))
        for index, (name, i, j) in enumerate(products)
    ]
    output = [Node(f"O{i}0", 540, 65 + 140 * i, format_entry(v["O"][i, 0]), "output") for i in both]
    arrows = []
    for name, i, j in products:
        color = "now" if name == "V00" else "muted"
        product = f"P{i}{j} {name}"
        arrows.append(Arrow(name, product, f"× {format_entry(v['P'][i, j])}", color))
        arrows.append(Arrow(product, f"O{i}0", "+", color))
    arrows += [Arrow(f"O{i}0", "L", f"dO{i}0 = {format_entry(v['dO'][i, 0])}") for i in both]
    of_value = graph_html(
        [*value, *middle, *output, Node("L", 780, 135)],
        arrows,
        (840, 270),
        palette,
        "paths of V00 to the loss",
    )
    weights = [Node(f"P0{k}", 400, 45 + 100 * k, format_entry(v["P"][0, k])) for k in both]
    jacobian, d_weights = v["J quotient"][0][:, 0], v["dP"][0]
    paths = [Arrow("S00", f"P0{k}", f"∂P0{k}/∂S00 = {format_entry(jacobian[k])}", "now") for k in both]
    paths += [Arrow(f"P0{k}", "L", f"dP0{k} = {format_entry(d_weights[k])}", "now") for k in both]
    score = Node("S00", 60, 95, format_entry(v["S"][0, 0]))
    return of_value, graph_html(
        [score, *weights, Node("L", 720, 95)], paths, (790, 190), palette, "paths of S00 to the loss"
    )


def _two_tokens(graphs: tuple[str, str], lesson: GradientLesson) -> None:
    v = two_tokens(lesson.seed, lesson.spread)
    of_value = zip(v["dO"][:, 0], v["P"][:, 0], strict=True)
    of_score = zip(v["dP"][0], v["J quotient"][0][:, 0], strict=True)
    for words, graph, terms, name, total in zip(
        ("V00 reaches the loss on two paths:", "S00 reaches it through both weights of its row:"),
        graphs,
        (of_value, of_score),
        ("dV_{00}", "dS_{00}"),
        (v["dV"][0, 0], v["dS"][0, 0]),
        strict=True,
    ):
        st.markdown(words)
        st.html(graph)
        added = " + ".join(rf"({format_tex(a)}) \cdot ({format_tex(b)})" for a, b in terms)
        st.latex(f"{name} = {added} = {format_tex(total)}", width="content")
    st.caption(
        "Along a path the factors are multiplied, and the paths are added: the chain rule (Chu, Liu and Lin "
        "2026, eq 14 and 19). Numbers of your seed and spread; d = 1, so the scale is 1."
    )
