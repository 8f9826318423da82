"""Gradients of attention and of the layer around it, line by line, in NumPy float64; and what they move.

A layer of one head: Q = Z W_Q, K = Z W_K, V = Z W_V, S = Q K^T / sqrt(d), P = softmax(S), O = P V, Y = O W_O.
The loss L is any number computed from Y; dX stands for the gradient of L with respect to X.
Nagaraj 2025, section 3.2.1 (chain rule with deltas); Chu, Liu and Lin 2026, eq 13 to 24 (logarithm of
softmax) and appendix (the layer).

The work of the backward pass, its loop orders by formula and what an inner loop moved are of one head,
without a mask. There, algorithms and equations given by number alone are those of Chu, Liu and Lin 2026.
"""

import functools
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.chip import row_bytes, sum_row_bytes
from kernels.lessons.gradients import WEIGHTS, GradientLesson
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import LSE_BYTES
from viz.learn.softmax.maths import log_sum_exp, softmax


def backward_work(problem: AttentionProblem) -> dict[str, int]:
    """FLOPs of a product, D, dS; of the standard pass, 8 T^2 d + 2 T^2 + 2 T d; of all with S again."""
    square, row_sums = problem.q_len * problem.kv_len, 2 * problem.q_len * problem.head_dim
    product, scores = 2 * square * problem.head_dim, 2 * square
    standard = 4 * product + scores + row_sums
    parts = {"product": product, "row_sums": row_sums, "scores": scores}
    return parts | {"standard": standard, "all": product + standard}


@dataclass(frozen=True)
class LoopOrder:
    """A loop order of the backward pass, by what one step of its inner loop loads and stores."""

    label: str
    color: str
    q_blocks: Sequence[str] = ()
    """Blocks of a query tile's rows by head_dim."""
    kv_blocks: Sequence[str] = ()
    """Blocks of a key tile's rows by head_dim."""
    algorithm: str = ""
    """Key of kernels.algorithms.ALGORITHMS if a kernel of ours has this order; "" for the draft."""

    @property
    def blocks(self) -> list[str]:
        return [*self.q_blocks, *self.kv_blocks]

    def requested_bytes(self, problem: AttentionProblem) -> int:
        """Of the whole pass, modelled. The draft as one kernel: dQ in float32, and O at every step, not D."""
        if self.algorithm:
            return ALGORITHMS[self.algorithm].requested_bytes(problem)
        row = row_bytes(problem)
        step = 3 * row + 2 * sum_row_bytes(problem) + LSE_BYTES
        return 4 * problem.kv_len * row + problem.q_len * problem.kv_tiles * step

    def elements(self, problem: AttentionProblem) -> int:
        """Elements that the inner loop moves over the whole pass, with the sums that are read back.

        Each block of key rows is moved once per query tile, each block of query rows once per key tile. The
        paper gives less: 4 T_r |J| d is for one key tile of algorithm 6, 3 T_c |I| d for one query tile of
        algorithm 8, both without the sums read back.
        """
        keys, queries = problem.q_tiles * problem.kv_len, problem.kv_tiles * problem.q_len
        return (len(self.kv_blocks) * keys + len(self.q_blocks) * queries) * problem.head_dim


_TABLE = Path(__file__).with_name("loop_orders.toml").read_text("utf-8")
LOOP_ORDERS = tuple(LoopOrder(label, **order) for label, order in tomllib.loads(_TABLE).items())
QUERY_OUTER, DRAFT, KEY_OUTER, TWO_KERNELS = LOOP_ORDERS


@functools.lru_cache(maxsize=64)
def derived(lesson: GradientLesson) -> dict[str, np.ndarray]:
    """Every line of the derivation by name: the forward values, then the backward pass from dY on.

    "J quotient", "J logarithm" (length, length, length), indexed [row, l, t]: dP_l / dS_t of a row by the
    quotient rule with deltas, and from ln P_l = S_l - lse. "dS deltas": each row's Jacobian times its dP.
    "D of P" and "D of O": rowsum(P * dP) and rowsum(O * dO). "P of lse": exp(S - lse).
    """
    v, delta = lesson.numbers(), np.eye(lesson.length)
    v |= {name: v["Z"] @ v[f"W_{name}"] for name in "QKV"}
    v["S"] = v["Q"] @ v["K"].T * lesson.scale
    v["lse"], v["P"] = log_sum_exp(v["S"]), softmax(v["S"])
    v["O"] = v["P"] @ v["V"]
    v["dW_O"], v["dO"] = v["O"].T @ v["dY"], v["dY"] @ v["W_O"].T
    v |= attention_gradients(v, lesson.scale)
    e = np.exp(v["S"] - v["S"].max(axis=1, keepdims=True))
    total = e.sum(axis=1)[:, None, None]
    v["J quotient"] = (e[:, :, None] * delta * total - e[:, :, None] * e[:, None, :]) / total**2
    v["δ − P"] = delta - v["P"][:, None]
    v["J logarithm"] = v["P"][:, :, None] * v["δ − P"]
    v["D of P"] = (v["P"] * v["dP"]).sum(axis=1)
    v["difference"] = v["D of P"] - v["D of O"]
    v["dS deltas"] = np.einsum("rlt,rl->rt", v["J quotient"], v["dP"])
    v["P of lse"] = np.exp(v["S"] - v["lse"][:, None])
    return v | _layer_gradients(v)


def attention_gradients(v: Mapping[str, np.ndarray], scale: float) -> dict[str, np.ndarray]:
    """dV, dP, D, dS, dQ and dK from Q, K, V, P, O and dO, all (rows, features); heads may come first."""
    d_weights, d = v["dO"] @ v["V"].swapaxes(-1, -2), (v["O"] * v["dO"]).sum(axis=-1)
    d_scores = v["P"] * (d_weights - d[..., None])
    return {
        "dV": v["P"].swapaxes(-1, -2) @ v["dO"],
        "dP": d_weights,
        "D of O": d,
        "dS": d_scores,
        "dQ": d_scores @ v["K"] * scale,
        "dK": d_scores.swapaxes(-1, -2) @ v["Q"] * scale,
    }


def _layer_gradients(v: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The gradients before attention, from dQ, dK and dV."""
    weights = {f"dW_{name}": v["Z"].T @ v[f"d{name}"] for name in "QKV"}
    return weights | {"dZ": v["dQ"] @ v["W_Q"].T + v["dK"] @ v["W_K"].T + v["dV"] @ v["W_V"].T}


def several_heads(lesson: GradientLesson, heads: int) -> dict[str, np.ndarray]:
    """The forward values and all gradients of a layer by name; "O_0", "dQ_0" and so on are those of a head.

    `heads` divides the features. Chu, Liu and Lin 2026, eq 3; they divide the scores of a head by the root of
    d. Here it is the root of the head's own d / heads features, as in Vaswani et al. 2017, section 3.2.2.
    """
    scale = math.sqrt(heads / lesson.dim)

    def cut(columns: np.ndarray) -> np.ndarray:
        return np.stack(np.split(columns, heads, axis=1))

    v = lesson.numbers()
    v |= {name: v["Z"] @ v[f"W_{name}"] for name in "QKV"}
    own = {name: cut(v[name]) for name in "QKV"}  # (heads, length, features of a head)
    own["P"] = softmax(own["Q"] @ own["K"].swapaxes(1, 2) * scale)
    own["O"] = own["P"] @ own["V"]
    v["O"] = np.hstack([*own["O"]])
    v["Y"], v["dW_O"], v["dO"] = v["O"] @ v["W_O"], v["O"].T @ v["dY"], v["dY"] @ v["W_O"].T
    own["dO"] = cut(v["dO"])
    own |= attention_gradients(own, scale)
    v |= {name: np.hstack([*own[name]]) for name in ("dQ", "dK", "dV")}
    v |= {f"{name}_{head}": part for name, parts in own.items() for head, part in enumerate(parts)}
    return v | _layer_gradients(v)


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


def block_error(lesson: GradientLesson, block: int) -> tuple[float, float]:
    """Largest error of dS if each block uses its own sum as D, and its share of the largest right value.

    0 for the whole row. The pseudocode of Nagaraj 2025, section 3.2.4, uses the block's own sum.
    """
    v = derived(lesson)
    own_sums = np.repeat(block_sums(lesson, block), block, axis=1)[:, : lesson.length]
    error = float(np.abs(v["P"] * (v["dP"] - own_sums) - v["dS"]).max())
    return error, error / max(float(np.abs(v["dS"]).max()), 1e-300)
