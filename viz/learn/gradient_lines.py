"""The lines of the derivation that the Gradients chapter steps through: words, formulas, and the reader's numbers under them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernels.lessons.gradients import GradientLesson
from viz.learn.figures.matrices import Matrix
from viz.shared import theme

T = "<sup>T</sup>"


@dataclass(frozen=True, eq=False)
class Slide:
    """One line: what happens, in a sentence; LaTeX; equations of matrices; the names of the results to check."""

    words: str
    formulas: tuple[str, ...]
    equations: tuple[tuple[Matrix | str, ...], ...]
    checks: tuple[str, ...] = ()
    checked_against: str = ""
    """What the derivative is, where it is not that of the loss by the quantity itself."""


class Draw:
    """Makes a Matrix of a named value, in its tensor's colour."""

    def __init__(self, values: Mapping[str, np.ndarray]) -> None:
        self.values = values

    def __call__(
        self, name: str, *, transposed: bool = False, label: str = "", marked_row: int | None = None
    ) -> Matrix:
        values = self.values[name].T if transposed else self.values[name]
        shown = label or (name.replace("W_", "W<sub>") + "</sub>" if "W_" in name else name)
        return Matrix(
            shown + (T if transposed else ""), values, theme.tensor_entry(name), marked_row=marked_row
        )


def _forward_slide(draw: Draw, lesson: GradientLesson, row: int) -> Slide:
    times = f"× {theme.significant(lesson.scale)} ="
    return Slide(
        "First forward. The loss **L** is any number computed from O; the backward pass starts from dO = ∂L/∂O, which the layers above hand down.",
        (r"S = \tfrac{1}{\sqrt d}\,Q K^{\mathsf T}", r"P = \mathrm{softmax}(S)", r"O = P\,V"),
        ((draw("Q"), draw("K", transposed=True), times, draw("S")), (draw("P"), draw("V"), "=", draw("O"))),
    )


def _dv_slide(draw: Draw, lesson: GradientLesson, row: int) -> Slide:
    return Slide(
        "Row j of V enters **every** row i of O, with weight $P_{ij}$: add up what comes back from all of them.",
        (
            r"dV_{jk} = \sum_{m,n} dO_{mn}\,\frac{\partial O_{mn}}{\partial V_{jk}}",
            r"= \sum_{m,n,l} dO_{mn}\,P_{ml}\,\delta_{lj}\,\delta_{nk}",
            r"= \sum_m P_{mj}\,dO_{mk}",
            r"\boxed{dV = P^{\mathsf T} dO}",
        ),
        ((draw("P", transposed=True), draw("dO"), "=", draw("dV")),),
        ("dV",),
    )


def _dp_slide(draw: Draw, lesson: GradientLesson, row: int) -> Slide:
    return Slide(
        "$P_{ij}$ multiplies row j of V into row i of O: its gradient is the dot product of the two rows.",
        (
            r"dP_{ij} = \sum_{m,n} dO_{mn}\,\frac{\partial O_{mn}}{\partial P_{ij}}",
            r"= \sum_k dO_{ik}\,V_{jk}",
            r"\boxed{dP = dO\,V^{\mathsf T}}",
        ),
        ((draw("dO"), draw("V", transposed=True), "=", draw("dP")),),
        ("dP",),
    )


def _ds_by_deltas_slide(draw: Draw, lesson: GradientLesson, row: int) -> Slide:
    v = draw.values
    return Slide(
        f"Softmax ties a row together: each score of row {row} moves every entry of that row of P. The quotient rule, with δ for "
        "“the same index”, gives the table J of all those effects; the chain rule adds them up.",
        (
            r"\frac{\partial P_l}{\partial S_t} = \frac{e^{S_l}\,\delta_{lt}\,\sum_m e^{S_m} - e^{S_l}\,e^{S_t}}{\left(\sum_m e^{S_m}\right)^2}",
            r"= P_l\,(\delta_{lt} - P_t)",
            r"\boxed{dS_t = \sum_l dP_l\,\frac{\partial P_l}{\partial S_t} = P_t\,\Big(dP_t - \sum_l P_l\,dP_l\Big)}",
        ),
        (
            (
                Matrix(f"J{T} of row {row}", v["J quotient"][row].T, "state"),
                Matrix(f"dP, row {row}", v["dP"][row], "muted"),
                "=",
                Matrix(f"dS, row {row}", v["dS deltas"][row], "output"),
            ),
        ),
        ("J quotient", "dS deltas"),
        "J: Jacobian of softmax, all rows",
    )


def _ds_by_logarithm_slide(draw: Draw, lesson: GradientLesson, row: int) -> Slide:
    v = draw.values
    return Slide(
        "The logarithm turns the quotient into a difference, so no quotient rule. Differentiate, multiply by P, and the same J stands there.",
        (
            r"\ln P_l = S_l - \ln\sum_m e^{S_m}",
            r"\Rightarrow\; \frac{1}{P_l}\,\frac{\partial P_l}{\partial S_t} = \delta_{lt} - P_t",
            r"\boxed{dS = P \circ (dP - D\,\mathbf 1^{\mathsf T}),\;\; D = \mathrm{rowsum}(P \circ dP)}",
        ),
        (
            (
                Matrix(f"P, row {row}", v["P"][row], "muted"),
                "∘ (",
                Matrix("δ − P<sub>t</sub>", np.eye(len(v["P"])) - v["P"][row][None, :], "muted"),
                ") =",
                Matrix(f"J of row {row}", v["J logarithm"][row], "state"),
            ),
            (
                draw("P", marked_row=row),
                "∘ (",
                draw("dP", marked_row=row),
                "−",
                draw("D of O", label="D"),
                ") =",
                draw("dS", marked_row=row),
            ),
        ),
        ("J logarithm", "dS"),
        "J: Jacobian of softmax, all rows",
    )


def _d_slide(draw: Draw, lesson: GradientLesson, row: int) -> Slide:
    v = draw.values
    return Slide(
        f"Swap the two sums and P, dP are gone: {lesson.dim} products a row in place of {lesson.length}, and no square matrix has to be there.",
        (
            r"D_i = \sum_j P_{ij}\,dP_{ij} = \sum_j P_{ij} \sum_k dO_{ik} V_{jk}",
            r"= \sum_k dO_{ik} \sum_j P_{ij} V_{jk}",
            r"= \sum_k dO_{ik}\,O_{ik}",
            r"\boxed{D = \mathrm{rowsum}(O \circ dO)}",
        ),
        (
            (draw("P"), "∘", draw("dP"), "→", draw("D of P", label="row sums")),
            (
                draw("O"),
                "∘",
                draw("dO"),
                "→",
                draw("D of O", label="row sums"),
                "&emsp;",
                Matrix("difference", v["D of P"] - v["D of O"], "bad"),
            ),
        ),
        ("D of P", "D of O"),
        "D: derivative of L by a factor on row i of P",
    )


def _dq_slide(draw: Draw, lesson: GradientLesson, row: int) -> Slide:
    return Slide(
        "S = QKᵀ/√d is a product like O = PV: the same rule once more, and the factor 1/√d comes along.",
        (r"dQ = \tfrac{1}{\sqrt d}\,dS\,K",),
        ((draw("dS"), draw("K"), f"× {theme.significant(lesson.scale)} =", draw("dQ")),),
        ("dQ",),
    )


def _dk_slide(draw: Draw, lesson: GradientLesson, row: int) -> Slide:
    return Slide(
        "A key is seen by every query: add over the rows, as for dV.",
        (r"dK = \tfrac{1}{\sqrt d}\,dS^{\mathsf T} Q",),
        ((draw("dS", transposed=True), draw("Q"), f"× {theme.significant(lesson.scale)} =", draw("dK")),),
        ("dK",),
    )


def _lse_slide(draw: Draw, lesson: GradientLesson, row: int) -> Slide:
    kept, square = lesson.length, lesson.length**2
    return Slide(
        f"P need not be kept. One number a row brings it back, tile by tile: {kept} numbers instead of {square} here, N instead of N².",
        (
            r"\mathrm{lse}_i = m_i + \ln l_i = \ln\sum_j e^{S_{ij}}",
            r"P_{ij} = \frac{e^{S_{ij} - m_i}}{l_i}",
            r"\boxed{P_{ij} = e^{\,S_{ij} - \mathrm{lse}_i}}",
        ),
        (("exp (", draw("S"), "−", draw("lse"), ") =", draw("P of lse", label="P")),),
        ("P of lse",),
        "P: gradient of the sum of lse by S",
    )


def _layer_slide(draw: Draw, lesson: GradientLesson, row: int) -> Slide:
    return Slide(
        "Around attention stand four more products of the same kind: $Q = Z W_Q$, $K = Z W_K$, $V = Z W_V$ and $Y = O W_O$. Z feeds Q, K and V, "
        "so three gradients come back to it.",
        (
            r"dW_O = O^{\mathsf T} dY, \;\; dO = dY\,W_O^{\mathsf T},",
            r"dW_Q = Z^{\mathsf T} dQ, \;\; dW_K = Z^{\mathsf T} dK,",
            r"dW_V = Z^{\mathsf T} dV,",
            r"dZ = dQ\,W_Q^{\mathsf T} + dK\,W_K^{\mathsf T} + dV\,W_V^{\mathsf T}",
        ),
        (
            (
                draw("O", transposed=True),
                draw("dY"),
                "=",
                draw("dW_O"),
                "&emsp;",
                draw("dY"),
                draw("W_O", transposed=True),
                "=",
                draw("dO"),
            ),
            (draw("Z", transposed=True), "× (dQ, dK, dV) =", draw("dW_Q"), draw("dW_K"), draw("dW_V")),
            (draw("dZ"),),
        ),
        ("dW_O", "dO", "dW_Q", "dW_K", "dW_V", "dZ"),
    )


SLIDES = {
    "forward": _forward_slide,
    "dV": _dv_slide,
    "dP": _dp_slide,
    "dS deltas": _ds_by_deltas_slide,
    "dS log": _ds_by_logarithm_slide,
    "D": _d_slide,
    "dQ": _dq_slide,
    "dK": _dk_slide,
    "lse": _lse_slide,
    "layer": _layer_slide,
}
"""In the order of the derivation; the keys stand in the URL."""

ROW_BY_ROW = ("dS deltas", "dS log")
"""Slides that show one row of S at a time."""

LINE_WORDS = {
    "dV": "dV = Pᵀ dO", "dP": "dP = dO Vᵀ", "J quotient": "∂P/∂S, quotient rule with deltas", "J logarithm": "∂P/∂S, logarithm of softmax",
    "dS deltas": "dS, row by row: Jᵀ dP", "dS": "dS = P ∘ (dP − D)", "D of P": "D = rowsum(P ∘ dP)", "D of O": "D = rowsum(O ∘ dO)",
    "dQ": "dQ = dS K / √d", "dK": "dK = dSᵀ Q / √d", "P of lse": "P = exp(S − lse)", "dW_O": "dW_O = Oᵀ dY", "dO": "dO = dY W_Oᵀ",
    "dW_Q": "dW_Q = Zᵀ dQ", "dW_K": "dW_K = Zᵀ dK", "dW_V": "dW_V = Zᵀ dV", "dZ": "dZ = dQ W_Qᵀ + dK W_Kᵀ + dV W_Vᵀ",
}  # fmt: skip
"""Each checked line in one line of text."""
