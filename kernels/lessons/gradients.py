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
from dataclasses import asdict, dataclass, fields

import numpy as np

from kernels.lessons.softmax import log_sum_exp, softmax
from kernels.problem import InvalidProblem

LIMITS = {"length": (2, 8), "dim": (1, 8), "seed": (0, 9999), "spread": (0.1, 10.0)}
"""Smallest and largest accepted value of each field of a GradientLesson."""

WEIGHTS = ("W_Q", "W_K", "W_V", "W_O")
DIFFERENCE_STEP = float(np.finfo(np.float64).eps ** (1 / 3))
"""Step of the central differences. With it, truncation and rounding errors are of the same size."""


@dataclass(frozen=True)
class GradientLesson:
    """A layer small enough to read: `length` tokens of `dim` features, one head.

    The scores have a standard deviation of about `spread`. Raises InvalidProblem, which names the field, the
    value given and the values accepted.
    """

    length: int = 4
    dim: int = 3
    seed: int = 0
    spread: float = 1.0

    def __post_init__(self) -> None:
        for name, (low, high) in LIMITS.items():
            given = getattr(self, name)
            kind, types = ("number", (int, float)) if name == "spread" else ("whole number", (int,))
            if isinstance(given, bool) or not isinstance(given, types) or not low <= given <= high:
                raise InvalidProblem(name, given, f"expected a {kind} from {low:g} to {high:g}")

    @property
    def scale(self) -> float:
        """The scores are multiplied by this: 1 / sqrt(dim)."""
        return 1.0 / math.sqrt(self.dim)

    def as_dict(self) -> dict[str, int | float]:
        """Field names and plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> GradientLesson:
        """The reverse of `as_dict`. Raises InvalidProblem for an unknown name."""
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise InvalidProblem(
                    name, values[name], f"there is no such field; the fields are {', '.join(known)}"
                )
        return cls(**values)

    def numbers(self) -> dict[str, np.ndarray]:
        """Z and dY (length, dim), W_Q, W_K, W_V and W_O (dim, dim): seeded normal numbers, float64."""
        rng = np.random.default_rng(self.seed)
        numbers = {"Z": rng.standard_normal((self.length, self.dim))}
        numbers |= {name: rng.standard_normal((self.dim, self.dim)) / math.sqrt(self.dim) for name in WEIGHTS}
        numbers["W_Q"] *= self.spread
        return numbers | {"dY": rng.standard_normal((self.length, self.dim))}


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
    v["dW_O"] = v["O"].T @ v["dY"]
    v["dO"] = v["dY"] @ v["W_O"].T
    v["dV"] = v["P"].T @ v["dO"]
    v["dP"] = v["dO"] @ v["V"].T
    v["J quotient"] = np.stack([jacobian_by_quotient(row) for row in v["S"]])
    v["J logarithm"] = np.stack([jacobian_by_logarithm(row) for row in v["S"]])
    v["D of P"] = (v["P"] * v["dP"]).sum(axis=1)
    v["D of O"] = (v["O"] * v["dO"]).sum(axis=1)
    v["dS deltas"] = np.einsum("rlt,rl->rt", v["J quotient"], v["dP"])
    v["dS"] = v["P"] * (v["dP"] - v["D of O"][:, None])
    v["P of lse"] = np.exp(v["S"] - v["lse"][:, None])
    v["dQ"] = v["dS"] @ v["K"] * lesson.scale
    v["dK"] = v["dS"].T @ v["Q"] * lesson.scale
    for name in ("Q", "K", "V"):
        v[f"dW_{name}"] = v["Z"].T @ v[f"d{name}"]
    v["dZ"] = v["dQ"] @ v["W_Q"].T + v["dK"] @ v["W_K"].T + v["dV"] @ v["W_V"].T
    return v


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


def d_scores_by_blocks(lesson: GradientLesson, block: int) -> np.ndarray:
    """dS if each block uses its own rowsum(P * dP) as D: wrong unless the block spans the row.

    The pseudocode of Nagaraj 2025, section 3.2.4, does this.
    """
    lines = derived(lesson)
    share = np.repeat(block_sums(lesson, block), block, axis=1)[:, : lesson.length]
    return lines["P"] * (lines["dP"] - share)


@dataclass(frozen=True)
class BlockError:
    """Error if each block uses its own sum as D: the largest error as a share of the largest right value."""

    block: int
    d_scores: float
    d_query: float
    d_key: float


def block_errors(lesson: GradientLesson) -> tuple[BlockError, ...]:
    """The errors for each block size from 1 to the whole row."""
    lines = derived(lesson)
    right = (lines["dS"], lines["dQ"], lines["dK"])
    errors = []
    for block in range(1, lesson.length + 1):
        d_scores = d_scores_by_blocks(lesson, block)
        wrong = (d_scores, d_scores @ lines["K"] * lesson.scale, d_scores.T @ lines["Q"] * lesson.scale)
        errors.append(BlockError(block, *map(_relative_error, wrong, right)))
    return tuple(errors)


def _relative_error(got: np.ndarray, right: np.ndarray) -> float:
    """Largest error as a share of the largest right value."""
    return float(np.abs(got - right).max() / max(np.abs(right).max(), 1e-300))
