"""The lines of the derivation in the Gradients chapter: words, formulas and the reader's numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from kernels.lessons.gradients import GradientLesson
from kernels.lessons.heads import difference_of_dz, several_heads
from viz.learn.figures.matrices import Matrix
from viz.shared import theme
from viz.shared.formats import format_error, significant

T = "<sup>T</sup>"


@dataclass(frozen=True, eq=False)
class DerivationLine:
    """One line of the derivation."""

    words: str
    """What happens, in a sentence or two."""
    formulas: tuple[str, ...]
    """LaTeX."""
    equations: tuple[tuple[Matrix | str, ...], ...]
    """Matrices of the reader's numbers, and the signs between them."""
    checks: tuple[str, ...] = ()
    """The results to check: keys of LINE_WORDS."""
    checked_against: str = ""
    """What is differentiated, if it is not the loss by the quantity itself."""
    remark: str = ""
    """A check of another kind, in a sentence."""


class MatrixMaker:
    """Makes a Matrix of a named value, in the colour of its tensor."""

    def __init__(self, values: Mapping[str, np.ndarray]) -> None:
        self.values = values

    def __call__(
        self,
        name: str,
        *,
        transposed: bool = False,
        label: str = "",
        marked_row: int | None = None,
        color: str = "",
    ) -> Matrix:
        values = self.values[name].T if transposed else self.values[name]
        label = label or (name.replace("W_", "W<sub>") + "</sub>" if "W_" in name else name)
        label += T if transposed else ""
        return Matrix(label, values, theme.tensor_entry(color or name), marked_row=marked_row)


def _forward_line(matrix: MatrixMaker, lesson: GradientLesson, row: int) -> DerivationLine:
    times = f"× {significant(lesson.scale)} ="
    return DerivationLine(
        "First the forward pass. The loss **L** is any number computed from O. The backward pass starts from "
        "dO = ∂L/∂O, which the layers after attention pass back.",
        (r"S = \tfrac{1}{\sqrt d}\,Q K^{\mathsf T}", r"P = \mathrm{softmax}(S)", r"O = P\,V"),
        (
            (matrix("Q"), matrix("K", transposed=True), times, matrix("S")),
            (matrix("P"), matrix("V"), "=", matrix("O")),
        ),
    )


def _dv_line(matrix: MatrixMaker, lesson: GradientLesson, row: int) -> DerivationLine:
    return DerivationLine(
        "Row j of V enters **every** row i of O with weight $P_{ij}$, so its gradient adds up what comes "
        "back from all of them.",
        (
            r"dV_{jk} = \sum_{m,n} dO_{mn}\,\frac{\partial O_{mn}}{\partial V_{jk}}",
            r"= \sum_{m,n,l} dO_{mn}\,P_{ml}\,\delta_{lj}\,\delta_{nk}",
            r"= \sum_m P_{mj}\,dO_{mk}",
            r"\boxed{dV = P^{\mathsf T} dO}",
        ),
        ((matrix("P", transposed=True), matrix("dO"), "=", matrix("dV")),),
        ("dV",),
    )


def _dp_line(matrix: MatrixMaker, lesson: GradientLesson, row: int) -> DerivationLine:
    return DerivationLine(
        "$P_{ij}$ is the weight of row j of V in row i of O, so its gradient is the dot product of row i "
        "of dO and row j of V.",
        (
            r"dP_{ij} = \sum_{m,n} dO_{mn}\,\frac{\partial O_{mn}}{\partial P_{ij}}",
            r"= \sum_k dO_{ik}\,V_{jk}",
            r"\boxed{dP = dO\,V^{\mathsf T}}",
        ),
        ((matrix("dO"), matrix("V", transposed=True), "=", matrix("dP")),),
        ("dP",),
    )


def _ds_by_deltas_line(matrix: MatrixMaker, lesson: GradientLesson, row: int) -> DerivationLine:
    values = matrix.values
    return DerivationLine(
        f"Softmax ties a row together: each score of row {row} changes every entry of that row of P. "
        "The quotient rule gives the matrix J of all these effects (δ is 1 for equal indices, else 0), "
        "and the chain rule adds them up.",
        (
            r"\frac{\partial P_l}{\partial S_t} = "
            r"\frac{e^{S_l}\,\delta_{lt}\,\sum_m e^{S_m} - e^{S_l}\,e^{S_t}}{\left(\sum_m e^{S_m}\right)^2}",
            r"= P_l\,(\delta_{lt} - P_t)",
            r"\boxed{dS_t = \sum_l dP_l\,\frac{\partial P_l}{\partial S_t} "
            r"= P_t\,\Big(dP_t - \sum_l P_l\,dP_l\Big)}",
        ),
        (
            (
                Matrix(f"J{T} of row {row}", values["J quotient"][row].T, "state"),
                Matrix(f"dP, row {row}", values["dP"][row], "muted"),
                "=",
                Matrix(f"dS, row {row}", values["dS deltas"][row], "output"),
            ),
        ),
        ("J quotient", "dS deltas"),
        "J: Jacobian of softmax, all rows",
    )


def _ds_by_logarithm_line(matrix: MatrixMaker, lesson: GradientLesson, row: int) -> DerivationLine:
    values = matrix.values
    return DerivationLine(
        "The logarithm turns the quotient into a difference, so the quotient rule is not needed: "
        "differentiate, multiply by P, and the same J appears.",
        (
            r"\ln P_l = S_l - \ln\sum_m e^{S_m}",
            r"\Rightarrow\; \frac{1}{P_l}\,\frac{\partial P_l}{\partial S_t} = \delta_{lt} - P_t",
            r"\boxed{dS = P \circ (dP - D\,\mathbf 1^{\mathsf T}),\;\; D = \mathrm{rowsum}(P \circ dP)}",
        ),
        (
            (
                Matrix(f"P, row {row}", values["P"][row], "muted"),
                "∘ (",
                Matrix("δ − P<sub>t</sub>", np.eye(len(values["P"])) - values["P"][row][None, :], "muted"),
                ") =",
                Matrix(f"J of row {row}", values["J logarithm"][row], "state"),
            ),
            (
                matrix("P", marked_row=row),
                "∘ (",
                matrix("dP", marked_row=row),
                "−",
                matrix("D of O", label="D"),
                ") =",
                matrix("dS", marked_row=row),
            ),
        ),
        ("J logarithm", "dS"),
        "J: Jacobian of softmax, all rows",
    )


def _d_line(matrix: MatrixMaker, lesson: GradientLesson, row: int) -> DerivationLine:
    values = matrix.values
    return DerivationLine(
        "Swap the two sums, and P and dP drop out: "
        f"{lesson.dim} products per row instead of {lesson.length}, and no square matrix is needed.",
        (
            r"D_i = \sum_j P_{ij}\,dP_{ij} = \sum_j P_{ij} \sum_k dO_{ik} V_{jk}",
            r"= \sum_k dO_{ik} \sum_j P_{ij} V_{jk}",
            r"= \sum_k dO_{ik}\,O_{ik}",
            r"\boxed{D = \mathrm{rowsum}(O \circ dO)}",
        ),
        (
            (matrix("P"), "∘", matrix("dP"), "→", matrix("D of P", label="row sums")),
            (
                matrix("O"),
                "∘",
                matrix("dO"),
                "→",
                matrix("D of O", label="row sums"),
                "&emsp;",
                Matrix("difference", values["D of P"] - values["D of O"], "bad"),
            ),
        ),
        ("D of P", "D of O"),
        "D: derivative of L by a factor on row i of P",
    )


def _dq_line(matrix: MatrixMaker, lesson: GradientLesson, row: int) -> DerivationLine:
    return DerivationLine(
        "S = QKᵀ/√d is a product like O = PV, so the same rule applies, with the factor 1/√d.",
        (r"dQ = \tfrac{1}{\sqrt d}\,dS\,K",),
        ((matrix("dS"), matrix("K"), f"× {significant(lesson.scale)} =", matrix("dQ")),),
        ("dQ",),
    )


def _dk_line(matrix: MatrixMaker, lesson: GradientLesson, row: int) -> DerivationLine:
    return DerivationLine(
        "Every query uses each key, so its gradient adds up the rows, as for dV.",
        (r"dK = \tfrac{1}{\sqrt d}\,dS^{\mathsf T} Q",),
        (
            (
                matrix("dS", transposed=True),
                matrix("Q"),
                f"× {significant(lesson.scale)} =",
                matrix("dK"),
            ),
        ),
        ("dK",),
    )


def _lse_line(matrix: MatrixMaker, lesson: GradientLesson, row: int) -> DerivationLine:
    kept, square = lesson.length, lesson.length**2
    return DerivationLine(
        f"P need not be stored: one number per row, lse, is enough to rebuild any tile of it. These are "
        f"{kept} numbers instead of {square}; in general N instead of N².",
        (
            r"\mathrm{lse}_i = m_i + \ln l_i = \ln\sum_j e^{S_{ij}}",
            r"P_{ij} = \frac{e^{S_{ij} - m_i}}{l_i}",
            r"\boxed{P_{ij} = e^{\,S_{ij} - \mathrm{lse}_i}}",
        ),
        (("exp (", matrix("S"), "−", matrix("lse"), ") =", matrix("P of lse", label="P")),),
        ("P of lse",),
        "P: gradient of the sum of lse by S",
    )


def _layer_line(matrix: MatrixMaker, lesson: GradientLesson, row: int) -> DerivationLine:
    return DerivationLine(
        "Around attention there are four more products of the same kind: $Q = Z W_Q$, $K = Z W_K$, "
        "$V = Z W_V$ and $Y = O W_O$. Q, K and V are computed from Z, so Z adds up three gradients.",
        (
            r"dW_O = O^{\mathsf T} dY, \;\; dO = dY\,W_O^{\mathsf T},",
            r"dW_Q = Z^{\mathsf T} dQ, \;\; dW_K = Z^{\mathsf T} dK,",
            r"dW_V = Z^{\mathsf T} dV,",
            r"dZ = dQ\,W_Q^{\mathsf T} + dK\,W_K^{\mathsf T} + dV\,W_V^{\mathsf T}",
        ),
        (
            (
                matrix("O", transposed=True),
                matrix("dY"),
                "=",
                matrix("dW_O"),
                "&emsp;",
                matrix("dY"),
                matrix("W_O", transposed=True),
                "=",
                matrix("dO"),
            ),
            (
                matrix("Z", transposed=True),
                "× (dQ, dK, dV) =",
                matrix("dW_Q"),
                matrix("dW_K"),
                matrix("dW_V"),
            ),
            (
                matrix("dQ"),
                matrix("W_Q", transposed=True),
                "+",
                matrix("dK"),
                matrix("W_K", transposed=True),
                "+",
                matrix("dV"),
                matrix("W_V", transposed=True),
                "=",
                matrix("dZ"),
            ),
        ),
        ("dW_O", "dO", "dW_Q", "dW_K", "dW_V", "dZ"),
    )


def _heads_line(matrix: MatrixMaker, lesson: GradientLesson, heads: int) -> DerivationLine:
    several = MatrixMaker(several_heads(lesson, heads))
    size = lesson.dim // heads

    def parts(name: str) -> list[Matrix | str]:
        """The matrices of all heads."""
        return [
            several(f"{name} {index}", label=f"{name}<sub>{index}</sub>", color=name)
            for index in range(heads)
        ]

    return DerivationLine(
        f"With h heads the columns of Q, K and V are cut into h parts of d/h features: {heads} × {size}. "
        "Each head is attention on its part, the parts of O are set side by side (concatenation), and $W_O$ "
        "mixes them. Backward, the columns of dO are cut the same way, and each head has the gradients of "
        "attention.",
        (
            r"O_i = \mathrm{softmax}\Big(\tfrac{1}{\sqrt{d/h}}\,Q_i K_i^{\mathsf T}\Big) V_i,",
            r"Y = [O_0 \dots O_{h-1}]\,W_O",
            r"[dO_0 \dots dO_{h-1}] = dY\,W_O^{\mathsf T}",
        ),
        (
            (*parts("O"), "side by side =", several("O"), several("W_O"), "=", several("Y")),
            (several("dY"), several("W_O", transposed=True), "=", several("dO"), "cut =", *parts("dO")),
            (*parts("dQ"), "side by side =", several("dQ"), "&emsp; as above:", several("dZ")),
        ),
        remark="Largest difference of dZ from central differences, float64: "
        f"{format_error(difference_of_dz(lesson, heads))} (measured).",
    )


LINES: dict[str, Callable[[MatrixMaker, GradientLesson, int], DerivationLine]] = {
    "forward": _forward_line,
    "dV": _dv_line,
    "dP": _dp_line,
    "dS deltas": _ds_by_deltas_line,
    "dS log": _ds_by_logarithm_line,
    "D": _d_line,
    "dQ": _dq_line,
    "dK": _dk_line,
    "lse": _lse_line,
    "layer": _layer_line,
    "heads": _heads_line,
}
"""In the order of the derivation. The URL uses the keys."""

ROW_BY_ROW = ("dS deltas", "dS log")
"""Lines that show one row of S at a time."""

LINE_WORDS = {
    "dV": "dV = Pᵀ dO",
    "dP": "dP = dO Vᵀ",
    "J quotient": "∂P/∂S, quotient rule with deltas",
    "J logarithm": "∂P/∂S, logarithm of softmax",
    "dS deltas": "dS, row by row: Jᵀ dP",
    "dS": "dS = P ∘ (dP − D)",
    "D of P": "D = rowsum(P ∘ dP)",
    "D of O": "D = rowsum(O ∘ dO)",
    "dQ": "dQ = dS K / √d",
    "dK": "dK = dSᵀ Q / √d",
    "P of lse": "P = exp(S − lse)",
    "dW_O": "dW_O = Oᵀ dY",
    "dO": "dO = dY W_Oᵀ",
    "dW_Q": "dW_Q = Zᵀ dQ",
    "dW_K": "dW_K = Zᵀ dK",
    "dW_V": "dW_V = Zᵀ dV",
    "dZ": "dZ = dQ W_Qᵀ + dK W_Kᵀ + dV W_Vᵀ",
}
"""Each checked result in one line of text."""
