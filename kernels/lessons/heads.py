"""A layer of several heads in NumPy float64: heads of d / h features, concatenation, W_O, and its gradients.

Chu, Liu and Lin 2026, eq 3, and its appendix for the gradients. They divide the scores of a head by the root
of d; here it is the root of the head's own d / h features, as in Vaswani et al. 2017, section 3.2.2.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from kernels.lessons.gradients import GradientLesson, central
from kernels.lessons.softmax import softmax


def head_counts(dim: int) -> tuple[int, ...]:
    """The numbers of heads into which `dim` features can be cut."""
    return tuple(heads for heads in range(1, dim + 1) if dim % heads == 0)


def forward(lesson: GradientLesson, heads: int, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every value of the forward pass by name; "O 0", "P 0" and so on are those of a head.

    A value in `given` replaces the lesson's own number of that name.
    """
    v = lesson.numbers() | dict(given)
    for name in ("Q", "K", "V"):
        v[name] = v["Z"] @ v[f"W_{name}"]
        v |= {f"{name} {index}": part for index, part in _cut(v[name], heads)}
    scale = _scale(lesson, heads)
    for index in range(heads):
        v[f"P {index}"] = softmax(v[f"Q {index}"] @ v[f"K {index}"].T * scale)
        v[f"O {index}"] = v[f"P {index}"] @ v[f"V {index}"]
    v["O"] = np.concatenate([v[f"O {index}"] for index in range(heads)], axis=1)
    v["Y"] = v["O"] @ v["W_O"]
    return v


@functools.lru_cache(maxsize=32)
def several_heads(lesson: GradientLesson, heads: int) -> dict[str, np.ndarray]:
    """The forward values and all gradients by name, for a number of heads that divides the features."""
    v = forward(lesson, heads, {})
    v["dW_O"], v["dO"] = v["O"].T @ v["dY"], v["dY"] @ v["W_O"].T
    for index, d_output in _cut(v["dO"], heads):
        query, key, value, weights = (v[f"{name} {index}"] for name in "QKVP")
        d_weights = d_output @ value.T
        d = (v[f"O {index}"] * d_output).sum(axis=1, keepdims=True)
        d_scores = weights * (d_weights - d) * _scale(lesson, heads)
        v |= {f"dO {index}": d_output, f"dV {index}": weights.T @ d_output}
        v |= {f"dQ {index}": d_scores @ key, f"dK {index}": d_scores.T @ query}
    for name in ("Q", "K", "V"):
        v[f"d{name}"] = np.concatenate([v[f"d{name} {index}"] for index in range(heads)], axis=1)
        v[f"dW_{name}"] = v["Z"].T @ v[f"d{name}"]
    v["dZ"] = sum((v[f"d{name}"] @ v[f"W_{name}"].T for name in ("Q", "K", "V")), np.zeros_like(v["Z"]))
    return v


def difference_of_dz(lesson: GradientLesson, heads: int) -> float:
    """Largest difference of dZ from central differences."""
    v = several_heads(lesson, heads)

    def loss(given: Mapping[str, np.ndarray]) -> np.ndarray:
        return (forward(lesson, heads, given)["Y"] * v["dY"]).sum()

    return float(np.abs(v["dZ"] - central(loss, "Z", v["Z"])).max())


def _cut(columns: np.ndarray, heads: int) -> list[tuple[int, np.ndarray]]:
    """(number of the head, its columns)."""
    return list(enumerate(np.split(columns, heads, axis=1)))


def _scale(lesson: GradientLesson, heads: int) -> float:
    return float((lesson.dim / heads) ** -0.5)
