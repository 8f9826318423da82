"""Graphs of the Gradients chapter in DOT: a layer with bytes on its edges, and every path of two tokens."""

from collections.abc import Iterable

from kernels.lessons.gradients import GradientLesson
from kernels.problem import AttentionProblem
from viz.learn.gradients.maths import derived
from viz.shared import theme
from viz.shared.formats import format_bytes, format_entry

EDGES = {"Z": "QKV", "Q": "S", "K": "S", "S": "P", "P": "O", "V": "O", "O": ("Z_out",)}
"""Chu, Liu and Lin 2026, figure 1. What flows along an edge is the tensor at its start."""
SQUARE = ("S", "P")
"""FlashAttention keeps these on the chip in both passes."""


def flow(problem: AttentionProblem, name: str) -> tuple[str, int]:
    """Shape and bytes of a tensor of the layer, or of its gradient."""
    columns = problem.kv_len if name in SQUARE else problem.head_dim
    return f"{problem.q_len:,} × {columns:,}", problem.q_len * columns * problem.itemsize


def layer_graph(problem: AttentionProblem, backward: bool, palette: theme.Palette) -> str:
    """The layer in the DOT language, with bytes on its edges, forward or backward."""
    letter, way = ("d", "back") if backward else ("", "forward")
    parts = []
    for name in (*EDGES, "Z_out"):
        color, (shape, _) = getattr(palette, theme.tensor_entry(name)), flow(problem, name)
        parts.append(_node(letter + name, color, shape, dashed=name in SQUARE))
    for start, ends in EDGES.items():
        color, style = (palette.now, "dashed") if start in SQUARE else (palette.muted, "solid")
        label, look = format_bytes(flow(problem, start)[1]), f'dir="{way}" style="{style}"'
        parts += [_edge(letter + start, letter + end, label, color, look) for end in ends]
    return _graph(parts, palette)


def two_tokens_graphs(lesson: GradientLesson, palette: theme.Palette) -> tuple[str, str]:
    """From V to the loss, with the paths of V00 marked; and from S00 through row 0 of P to the loss. DOT."""
    v, both = derived(lesson), (0, 1)
    value = [_node(f"V{j}0", palette.value, format_entry(v["V"][j, 0])) for j in both]
    for i in both:
        value.append(_node(f"O{i}0", palette.output, format_entry(v["O"][i, 0])))
        value.append(_edge(f"O{i}0", "L", f"dO{i}0 = {format_entry(v['dO'][i, 0])}", palette.muted))
        for j in both:
            color, product = palette.muted if j else palette.now, f"P{i}{j} V{j}0"
            value.append(_node(product, palette.text, format_entry(v["P"][i, j] * v["V"][j, 0])))
            value.append(_edge(f"V{j}0", product, f"× {format_entry(v['P'][i, j])}", color))
            value.append(_edge(product, f"O{i}0", "+", color))
    score = [_node("S00", palette.text, format_entry(v["S"][0, 0]))]
    for k in both:
        jacobian, d_weight = v["J quotient"][0, k, 0], v["dP"][0, k]
        score.append(_node(f"P0{k}", palette.text, format_entry(v["P"][0, k])))
        score.append(_edge("S00", f"P0{k}", f"∂P0{k}/∂S00 = {format_entry(jacobian)}", palette.now))
        score.append(_edge(f"P0{k}", "L", f"dP0{k} = {format_entry(d_weight)}", palette.now))
    return _graph(value, palette), _graph(score, palette)


def _graph(parts: Iterable[str], palette: theme.Palette) -> str:
    font = f'fontname="{theme.FONT.split(",")[0]}" fontcolor="{palette.text}"'
    box = (
        f'shape="box" style="rounded,filled" fillcolor="{palette.surface}" color="{palette.text}" penwidth=2'
    )
    return (
        f'digraph {{ rankdir="LR" bgcolor="transparent" node [{box} {font} fontsize=18] '
        f"edge [{font} fontsize=14 penwidth=2]; {'; '.join(parts)} }}"
    )


def _node(name: str, color: str, small: str, dashed: bool = False) -> str:
    style = "rounded,filled,dashed" if dashed else "rounded,filled"
    label = f'<<b>{name}</b><br/><font point-size="13">{small}</font>>'
    return f'"{name}" [label={label} color="{color}" style="{style}"]'


def _edge(start: str, end: str, label: str, color: str, more: str = "") -> str:
    """An arrow; a colour's contrast need not hold for its label, which is text."""
    return f'"{start}" -> "{end}" [label=" {label} " color="{color}" {more}]'
