"""Softmax of one row in NumPy: overflow and the stable form, the online form, and passes over the data."""

from dataclasses import dataclass

import numpy as np

from kernels.problem import AttentionProblem
from kernels.problem.inputs import draw_inputs

FORMATS: dict[str, type[np.float16] | type[np.float32] | type[np.float64]] = {
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
}


@dataclass(frozen=True, eq=False)
class InFormat:
    """exp, sum and division of a row, all in one number format; arrays are (n,) of that format."""

    exponents: np.ndarray
    """What is exponentiated: x, or x - max(x)."""
    exponentials: np.ndarray
    total: np.floating
    shares: np.ndarray
    """exponentials / total; NaN for inf / inf and 0 / 0."""

    @property
    def fails(self) -> bool:
        """Whether the shares are wrong: NaN, or all zero because only the total overflowed."""
        return not (np.isfinite(self.shares).all() and self.shares.any())


def softmax_in(x: np.ndarray, number_format: str, subtract_max: bool) -> InFormat:
    """Softmax of x (n,) with every operation rounded to `number_format`, of FORMATS.

    With `subtract_max` every exponent is <= 0, so that exp is at most 1 and the total lies between 1 and n
    (Milakov and Gimelshein 2018, algorithm 2, "safe softmax").
    """
    with np.errstate(all="ignore"):
        exponents = x.astype(FORMATS[number_format])
        if subtract_max:
            exponents = exponents - exponents.max()
        exponentials = np.exp(exponents)
        total = exponentials.sum(dtype=exponentials.dtype)
        return InFormat(exponents, exponentials, total, exponentials / total)


def largest_exponent(number_format: str) -> float:
    """Above it exp overflows to infinity in this format."""
    return float(np.log(np.float64(np.finfo(FORMATS[number_format]).max)))


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis, in float64, stable."""
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def attention(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
    """softmax(Q K^T / sqrt(d)) V over the last two axes, in float64."""
    return softmax(query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])) @ value


def first_head(
    problem: AttentionProblem, rows: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first `rows` queries (or all), keys and values of a problem's first head, float64, not rounded."""
    query, key, value = (array[0, 0].astype(np.float64) for array in draw_inputs(problem))
    return query[:rows], key, value


def log_sum_exp(x: np.ndarray) -> np.ndarray:
    """m + log l over the last axis: the one number per row that the forward pass keeps."""
    row_max = x.max(axis=-1)
    return row_max + np.log(np.exp(x - row_max[..., None]).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class Update:
    """A block of scores joins a row: m' = max(m, max x), alpha = exp(m - m'), l' = alpha l + sum exp(x - m').

    Milakov and Gimelshein 2018, algorithm 3; for blocks Dao et al. 2022, section 3.1.
    """

    scores: np.ndarray
    """x of the block, (keys,)."""
    m_before: float
    """-inf before the first block."""
    l_before: float
    m: float
    alpha: float
    """Rescales the old sum to the new max; 0 at the first block."""
    l: float

    @property
    def terms(self) -> np.ndarray:
        """(keys,): exp(x - m) of this block."""
        return np.exp(self.scores - self.m)

    @property
    def added(self) -> float:
        return float(self.terms.sum())


def update(m: float, l: float, scores: np.ndarray) -> Update:
    """The state m, l of a row after the next block of scores (keys,), in float64."""
    m_new = max(m, float(scores.max()))
    alpha = float(np.exp(m - m_new))
    return Update(scores, m, l, m_new, alpha, alpha * l + float(np.exp(scores - m_new).sum()))


@dataclass(frozen=True, eq=False)
class OnlineStep(Update):
    """One block of a row, x[start:end]."""

    start: int
    end: int
    l_unscaled_before: float
    """The sum if alpha was left out at all earlier blocks."""

    @property
    def l_unscaled(self) -> float:
        """The sum if alpha is left out at this block too."""
        return self.l_unscaled_before + self.added


def online_steps(x: np.ndarray, block: int) -> tuple[OnlineStep, ...]:
    """The online softmax of x (n,) in blocks of `block` numbers, the last one shorter if need be. float64."""
    steps: list[OnlineStep] = []
    m, l, l_unscaled = -np.inf, 0.0, 0.0
    for start in range(0, len(x), block):
        part = x[start : start + block]
        steps.append(
            OnlineStep(
                **vars(update(m, l, part)), start=start, end=start + len(part), l_unscaled_before=l_unscaled
            )
        )
        m, l, l_unscaled = steps[-1].m, steps[-1].l, steps[-1].l_unscaled
    return tuple(steps)


def online_shares(x: np.ndarray, steps: tuple[OnlineStep, ...]) -> np.ndarray:
    """(n,): softmax from the final m and l."""
    return np.exp(x - steps[-1].m) / steps[-1].l


def unscaled_shares(steps: tuple[OnlineStep, ...]) -> np.ndarray:
    """(n,): the weights without any rescale: each term still uses the max that was known at its block."""
    terms = np.concatenate([step.terms for step in steps])
    return terms / terms.sum()


def numerators(steps: tuple[OnlineStep, ...], values: np.ndarray) -> tuple[float, ...]:
    """Y after each block, for values (n,): Y' = alpha Y + sum exp(x - m') v. The output so far is Y / l."""
    y, after = 0.0, []
    for step in steps:
        y = step.alpha * y + float(step.terms @ values[step.start : step.end])
        after.append(y)
    return tuple(after)


WAYS = {"three passes": ("m", "l", "o"), "two passes": ("m, l", "o"), "one pass": ("m, l, o",)}
"""Ways to compute o = sum_i softmax(x)_i v_i: what each of their passes finds.

Milakov and Gimelshein 2018, algorithms 2 and 3; Ye 2023, algorithm "FlashAttention", here for blocks of keys.
"""


@dataclass(frozen=True)
class PassesRun:
    """One of WAYS: its passes, m, l and o after each read of a block, and the scores read."""

    passes: tuple[str, ...]
    known: tuple[dict[str, float | None], ...]
    """None if no pass has begun to compute it."""
    elements_read: int


def all_ways(x: np.ndarray, block: int, values: np.ndarray) -> dict[str, PassesRun]:
    """Three, two and one pass over the same row x (n,), with the values (n,)."""
    return {name: _run(x, block, values, passes) for name, passes in WAYS.items()}


def _run(x: np.ndarray, block: int, values: np.ndarray, passes: tuple[str, ...]) -> PassesRun:
    """l and o block by block (see `online_steps`); in a pass that does not find m, or l, they stay."""
    m, l, o, known, read = -np.inf, 0.0, 0.0, [], 0
    begun: set[str] = set()
    for finds in passes:
        begun |= {*finds.split(", ")}
        for start in range(0, len(x), block):
            part, of_part = (array[start : start + block] for array in (x, values))
            read += len(part)
            m_old, m = m, max(m, part.max())
            kept, terms = l * np.exp(m_old - m), np.exp(part - m)
            l = kept + terms.sum() if "l" in finds else l
            o = o * (kept / l) + (terms / l) @ of_part if "o" in finds else o
            now = {"m": m, "l": l, "o": o}
            known.append({name: value if name in begun else None for name, value in now.items()})
    return PassesRun(passes, tuple(known), read)
