"""Gradients of attention and of the layer around it, line by line, in NumPy float64.

A layer of one head: Q = Z W_Q, K = Z W_K, V = Z W_V, S = Q K^T / sqrt(d), P = softmax(S), O = P V, Y = O W_O.
The loss L is any number computed from Y; dX stands for the gradient of L with respect to X.
Nagaraj 2025, section 3.2.1 (chain rule with deltas); Chu, Liu and Lin 2026, eq 13 to 24 (logarithm of
softmax) and appendix (the layer).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from kernels.lessons.gradients import WEIGHTS, GradientLesson
from viz.learn.softmax.maths import log_sum_exp, softmax

DIFFERENCE_STEP = float(np.finfo(np.float64).eps ** (1 / 3))
"""Step of the central differences. With it, truncation and rounding errors are of the same size."""


def forward(lesson: GradientLesson, given: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Every value of the forward pass by name. A value in `given` is used as it is and not computed.

    "row factor" (length,), 1 unless given, multiplies the rows of P: the derivative of L by it is D.
    """
    given = given or {}
    values = lesson.numbers() | dict(given)
    for name in ("Q", "K", "V"):
        values.setdefault(name, values["Z"] @ values[f"W_{name}"])
    values.setdefault("S", values["Q"] @ values["K"].T * lesson.scale)
    values["lse"] = log_sum_exp(values["S"])
    values.setdefault("P", softmax(values["S"]))
    row_factor = values.get("row factor", np.ones(lesson.length))
    values.setdefault("O", (values["P"] * row_factor[:, None]) @ values["V"])
    values.setdefault("Y", values["O"] @ values["W_O"])
    return values


def jacobian_by_quotient(scores: np.ndarray) -> np.ndarray:
    """dP_l / dS_t of one row by the quotient rule with deltas: (e_l d_lt sum - e_l e_t) / sum^2.

    (length,) -> (length, length), indexed [l, t].
    """
    exponentials = np.exp(scores - scores.max())
    total = exponentials.sum()
    delta = np.eye(len(scores))
    return (exponentials[:, None] * delta * total - np.outer(exponentials, exponentials)) / total**2


def jacobian_by_logarithm(scores: np.ndarray) -> np.ndarray:
    """dP_l / dS_t of one row from ln P_l = S_l - lse: d ln P_l / dS_t = d_lt - P_t, times P_l.

    (length,) -> (length, length), indexed [l, t].
    """
    share = softmax(scores)
    return share[:, None] * (np.eye(len(scores)) - share[None, :])


@functools.lru_cache(maxsize=64)
def derived(lesson: GradientLesson) -> dict[str, np.ndarray]:
    """Every line of the derivation by name: the forward values, then the backward pass from dY on.

    "J quotient", "J logarithm" (length, length, length): row, l, t. "dS deltas": each row's Jacobian times
    its dP. "D of P" and "D of O": rowsum(P * dP) and rowsum(O * dO). "P of lse": exp(S - lse).
    """
    v = forward(lesson)
    v["dW_O"], v["dO"] = v["O"].T @ v["dY"], v["dY"] @ v["W_O"].T
    v |= attention_gradients(v, lesson.scale)
    v["J quotient"] = np.stack([jacobian_by_quotient(row) for row in v["S"]])
    v["J logarithm"] = np.stack([jacobian_by_logarithm(row) for row in v["S"]])
    v["δ − P"] = np.eye(lesson.length) - v["P"][:, None]
    v["D of P"] = (v["P"] * v["dP"]).sum(axis=1)
    v["difference"] = v["D of P"] - v["D of O"]
    v["dS deltas"] = np.einsum("rlt,rl->rt", v["J quotient"], v["dP"])
    v["P of lse"] = np.exp(v["S"] - v["lse"][:, None])
    return v | _layer_gradients(v)


def attention_gradients(v: Mapping[str, np.ndarray], scale: float) -> dict[str, np.ndarray]:
    """dV, dP, D, dS, dQ and dK from Q, K, V, P, O and dO, all (rows, features)."""
    d_weights, d = v["dO"] @ v["V"].T, (v["O"] * v["dO"]).sum(axis=1)
    d_scores = v["P"] * (d_weights - d[:, None])
    return {
        "dV": v["P"].T @ v["dO"],
        "dP": d_weights,
        "D of O": d,
        "dS": d_scores,
        "dQ": d_scores @ v["K"] * scale,
        "dK": d_scores.T @ v["Q"] * scale,
    }


def _layer_gradients(v: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The gradients before attention, from dQ, dK and dV."""
    weights = {f"dW_{name}": v["Z"].T @ v[f"d{name}"] for name in "QKV"}
    return weights | {"dZ": v["dQ"] @ v["W_Q"].T + v["dK"] @ v["W_K"].T + v["dV"] @ v["W_V"].T}


def head_counts(dim: int) -> tuple[int, ...]:
    """The numbers of heads into which `dim` features can be cut."""
    return tuple(heads for heads in range(1, dim + 1) if dim % heads == 0)


def heads_forward(
    lesson: GradientLesson, heads: int, given: Mapping[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """The forward pass of a layer of `heads` heads; "O_0", "P_0" and so on are those of a head.

    A value in `given` replaces the lesson's own number of that name. Chu, Liu and Lin 2026, eq 3; they divide
    the scores of a head by the root of d. Here it is the root of the head's own d / heads features, as in
    Vaswani et al. 2017, section 3.2.2.
    """
    v = lesson.numbers() | dict(given or {})
    v |= {name: v["Z"] @ v[f"W_{name}"] for name in "QKV"}
    for name in "QKV":
        v |= _cut(name, v[name], heads)
    for head in range(heads):
        scores = v[f"Q_{head}"] @ v[f"K_{head}"].T * math.sqrt(heads / lesson.dim)
        v[f"P_{head}"] = softmax(scores)
        v[f"O_{head}"] = v[f"P_{head}"] @ v[f"V_{head}"]
    v["O"] = np.hstack([v[f"O_{head}"] for head in range(heads)])
    return v | {"Y": v["O"] @ v["W_O"]}


@functools.lru_cache(maxsize=32)
def several_heads(lesson: GradientLesson, heads: int) -> dict[str, np.ndarray]:
    """The forward values and all gradients by name, for a number of heads that divides the features."""
    v = heads_forward(lesson, heads)
    v["dW_O"], v["dO"] = v["O"].T @ v["dY"], v["dY"] @ v["W_O"].T
    v |= _cut("dO", v["dO"], heads)
    for head in range(heads):
        own = {name: v[f"{name}_{head}"] for name in ("Q", "K", "V", "P", "O", "dO")}
        gradients = attention_gradients(own, math.sqrt(heads / lesson.dim))
        v |= {f"{name}_{head}": gradients[name] for name in ("dQ", "dK", "dV")}
    v |= {name: np.hstack([v[f"{name}_{head}"] for head in range(heads)]) for name in ("dQ", "dK", "dV")}
    return v | _layer_gradients(v)


def _cut(name: str, columns: np.ndarray, heads: int) -> dict[str, np.ndarray]:
    """The columns of each head by name, such as "Q_0"."""
    return {f"{name}_{head}": part for head, part in enumerate(np.split(columns, heads, axis=1))}


def difference_of_dz(lesson: GradientLesson, heads: int) -> float:
    """Largest difference of dZ of several heads from central differences."""
    v = several_heads(lesson, heads)

    def loss(given: Mapping[str, np.ndarray]) -> np.ndarray:
        return (heads_forward(lesson, heads, given)["Y"] * v["dY"]).sum()

    return float(np.abs(v["dZ"] - central(loss, "Z", v["Z"])).max())


CHECKED_AGAINST = {
    "J quotient": "J",
    "J logarithm": "J",
    "dS deltas": "dS",
    "D of P": "D",
    "D of O": "D",
    "P of lse": "P",
} | {name: name for name in ("dV", "dP", "dS", "dQ", "dK", "dO", "dZ", *(f"d{weight}" for weight in WEIGHTS))}
"""Line of the derivation -> the derivative it is checked against.

J is the Jacobian of softmax, D the derivative by the row factor, P the gradient of the sum of lse.
"""


@functools.lru_cache(maxsize=64)
def finite_differences(lesson: GradientLesson) -> dict[str, np.ndarray]:
    """The derivatives of CHECKED_AGAINST by central differences in float64, without any rule of calculus."""
    values = forward(lesson) | {"row factor": np.ones(lesson.length)}

    def loss(given: Mapping[str, np.ndarray]) -> np.ndarray:
        return (forward(lesson, given)["Y"] * values["dY"]).sum()

    variables = {line: line[1:] for line, derivative in CHECKED_AGAINST.items() if line == derivative}
    variables["D"] = "row factor"
    derivatives = {name: central(loss, variable, values[variable]) for name, variable in variables.items()}
    derivatives["P"] = central(lambda given: log_sum_exp(given["S"]).sum(), "S", values["S"])
    rows = [central(lambda given: softmax(given["S"]), "S", row) for row in values["S"]]  # [t, l]
    return derivatives | {"J": np.stack(rows).transpose(0, 2, 1)}


def central(
    function: Callable[[Mapping[str, np.ndarray]], np.ndarray], name: str, at: np.ndarray
) -> np.ndarray:
    """Central difference quotients of function({name: x}) by every element of x.

    The shape is at.shape followed by the shape of the result.
    """
    quotients = []
    for index in np.ndindex(at.shape):
        step = DIFFERENCE_STEP * max(1.0, abs(float(at[index])))
        above, below = at.copy(), at.copy()
        above[index] += step
        below[index] -= step
        quotients.append((function({name: above}) - function({name: below})) / (above[index] - below[index]))
    return np.array(quotients).reshape(*at.shape, *np.shape(quotients[0]))


def largest_differences(lesson: GradientLesson, reference: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Line -> largest difference of any element from `reference`, for the lines whose derivative it has."""
    lines = derived(lesson)
    return {
        line: float(np.abs(lines[line] - np.asarray(reference[name])).max())
        for line, name in CHECKED_AGAINST.items()
        if name in reference
    }


def block_sums(lesson: GradientLesson, block: int) -> np.ndarray:
    """rowsum(P * dP) inside each block of `block` keys, (length, blocks). Only their sum is D."""
    lines = derived(lesson)
    return np.add.reduceat(lines["P"] * lines["dP"], np.arange(0, lesson.length, block), axis=1)


@dataclass(frozen=True)
class BlockError:
    """Error if each block uses its own sum as D: the largest error as a share of the largest right value."""

    block: int
    d_scores: float
    d_query: float
    d_key: float
    largest: float
    """Largest error of dS itself."""


def block_errors(lesson: GradientLesson) -> tuple[BlockError, ...]:
    """The errors for each block size from 1 to the whole row, which alone is right.

    The pseudocode of Nagaraj 2025, section 3.2.4, uses the block's own sum.
    """
    v, errors = derived(lesson), []
    for block in range(1, lesson.length + 1):
        own_sums = np.repeat(block_sums(lesson, block), block, axis=1)[:, : lesson.length]
        d_scores = v["P"] * (v["dP"] - own_sums)
        d_query, d_key = d_scores @ v["K"] * lesson.scale, d_scores.T @ v["Q"] * lesson.scale
        errors.append(
            BlockError(
                block,
                _relative_error(d_scores, v["dS"]),
                _relative_error(d_query, v["dQ"]),
                _relative_error(d_key, v["dK"]),
                float(np.abs(d_scores - v["dS"]).max()),
            )
        )
    return tuple(errors)


def _relative_error(got: np.ndarray, right: np.ndarray) -> float:
    """Largest error as a share of the largest right value."""
    return float(np.abs(got - right).max() / max(np.abs(right).max(), 1e-300))
