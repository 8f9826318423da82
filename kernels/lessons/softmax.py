"""Softmax of one row in NumPy: overflow and the stable form, the online form, and passes over the data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

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


def exp_limits(number_format: str) -> tuple[float, float]:
    """(low, high): below `low` exp rounds to 0 in this format, above `high` it overflows to infinity."""
    limits = np.finfo(FORMATS[number_format])
    smallest, largest = np.log(np.float64(limits.smallest_subnormal)), np.log(np.float64(limits.max))
    return float(smallest - np.log(2.0)), float(largest)


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis, in float64, stable."""
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def log_sum_exp(x: np.ndarray) -> np.ndarray:
    """m + log l over the last axis: the one number per row that the forward pass keeps."""
    row_max = x.max(axis=-1)
    return row_max + np.log(np.exp(x - row_max[..., None]).sum(axis=-1))


@dataclass(frozen=True, eq=False)
class OnlineStep:
    """One block of the online softmax: the state before and after, and the terms that the block adds."""

    start: int
    end: int
    m_before: float
    m: float
    alpha: float
    """exp(m_before - m), which rescales the old sum to the new max; 0 at the first block."""
    terms: np.ndarray
    """(end - start,): exp(x - m) of this block."""
    l_before: float
    l: float
    l_unscaled_before: float
    l_unscaled: float
    """The sum if alpha is left out at this and all earlier blocks."""

    @property
    def block_sum(self) -> float:
        """Sum of the terms of this block."""
        return float(self.terms.sum())


def online_steps(x: np.ndarray, block: int) -> tuple[OnlineStep, ...]:
    """The online softmax of x (n,) in blocks of `block` numbers, the last one shorter if need be. float64.

    m' = max(m, max x), alpha = exp(m - m'), l' = alpha l + sum exp(x - m'). Milakov and Gimelshein 2018,
    algorithm 3; for blocks Dao et al. 2022, section 3.1.
    """
    steps, m, l, l_unscaled = [], -np.inf, 0.0, 0.0
    for start in range(0, len(x), block):
        part = x[start : start + block]
        m_new = max(m, float(part.max()))
        alpha = float(np.exp(m - m_new))
        terms = np.exp(part - m_new)
        block_sum = float(terms.sum())
        l_new, l_unscaled_new = alpha * l + block_sum, l_unscaled + block_sum
        steps.append(
            OnlineStep(start, start + len(part), m, m_new, alpha, terms, l, l_new, l_unscaled, l_unscaled_new)
        )
        m, l, l_unscaled = m_new, l_new, l_unscaled_new
    return tuple(steps)


def online_shares(x: np.ndarray, steps: tuple[OnlineStep, ...]) -> np.ndarray:
    """(n,): softmax from the final m and l."""
    return np.exp(x - steps[-1].m) / steps[-1].l


def unscaled_shares(steps: tuple[OnlineStep, ...]) -> np.ndarray:
    """(n,): the weights without any rescale: each term still uses the max that was known at its block."""
    terms = np.concatenate([step.terms for step in steps])
    return terms / terms.sum()


@dataclass(frozen=True)
class Known:
    """m, l and o of a row as far as they are computed; None if no pass has begun to compute one."""

    m: float | None = None
    l: float | None = None
    o: float | None = None


@dataclass(frozen=True, eq=False)
class PassesRun:
    """One way to compute o = sum_i softmax(x)_i v_i: its reads, and m, l and o after each."""

    passes: tuple[str, ...]
    """What each pass finds: "m", "l", "o" or several of them."""
    reads: tuple[tuple[int, int], ...]
    """(pass, block) of each read, in order."""
    known: tuple[Known, ...]
    """After each read."""
    elements_read: int


class LoggedRow:
    """A row in slow memory. Every read of a block is counted."""

    def __init__(self, x: np.ndarray, values: np.ndarray, block: int) -> None:
        self._x, self._values, self._block = x, values, block
        self._reads: list[tuple[int, int]] = []
        self._known: list[Known] = []
        self._elements_read = 0

    def one_pass(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(scores, values) of every block in order. Counts the scores, which every pass reads."""
        this_pass = self._reads[-1][0] + 1 if self._reads else 0
        for index, start in enumerate(range(0, len(self._x), self._block)):
            part = slice(start, start + self._block)
            self._reads.append((this_pass, index))
            self._elements_read += len(self._x[part])
            yield self._x[part], self._values[part]

    def note(self, m: float | None = None, l: float | None = None, o: float | None = None) -> None:
        """Record what is known after the last block that was read."""
        self._known.append(Known(*(None if value is None else float(value) for value in (m, l, o))))

    def log(self, *passes: str) -> PassesRun:
        """All reads so far; `passes` says what each pass finds."""
        return PassesRun(passes, tuple(self._reads), tuple(self._known), self._elements_read)


def three_passes(row: LoggedRow) -> PassesRun:
    """Safe softmax: the max, then the sum, then the output (Milakov and Gimelshein 2018, algorithm 2)."""
    m, l, o = -np.inf, 0.0, 0.0
    for part, _ in row.one_pass():
        m = max(m, part.max())
        row.note(m)
    for part, _ in row.one_pass():
        l += np.exp(part - m).sum()
        row.note(m, l)
    for part, values in row.one_pass():
        o += (np.exp(part - m) / l) @ values
        row.note(m, l, o)
    return row.log("m", "l", "o")


def two_passes(row: LoggedRow) -> PassesRun:
    """Max and surrogate sum together: l_i = l_(i-1) exp(m_(i-1) - m_i) + exp(x_i - m_i).

    Milakov and Gimelshein 2018, algorithm 3.
    """
    m, l, o = -np.inf, 0.0, 0.0
    for part, _ in row.one_pass():
        m_old, m = m, max(m, part.max())
        l = l * np.exp(m_old - m) + np.exp(part - m).sum()
        row.note(m, l)
    for part, values in row.one_pass():
        o += (np.exp(part - m) / l) @ values
        row.note(m, l, o)
    return row.log("m, l", "o")


def one_pass(row: LoggedRow) -> PassesRun:
    """The surrogate output too: o_i = o_(i-1) l_(i-1) exp(m_(i-1) - m_i) / l_i + exp(x_i - m_i) / l_i v_i.

    Ye 2023, algorithm "FlashAttention", here for blocks of keys.
    """
    m, l, o = -np.inf, 0.0, 0.0
    for part, values in row.one_pass():
        m_old, l_old, m = m, l, max(m, part.max())
        terms = np.exp(part - m)
        l = l_old * np.exp(m_old - m) + terms.sum()
        o = o * (l_old * np.exp(m_old - m) / l) + (terms / l) @ values
        row.note(m, l, o)
    return row.log("m, l, o")


def numerators(steps: tuple[OnlineStep, ...], values: np.ndarray) -> tuple[float, ...]:
    """Y after each block: Y' = alpha Y + sum exp(x - m') v. The output so far is Y / l.

    "FlashAttention, step by step", section 12; `values` is (n,).
    """
    y, after = 0.0, []
    for step in steps:
        y = step.alpha * y + float(step.terms @ values[step.start : step.end])
        after.append(y)
    return tuple(after)


def all_ways(x: np.ndarray, block: int, values: np.ndarray) -> dict[str, PassesRun]:
    """Three, two and one pass over the same row x (n,), with the values (n,)."""
    ways = {"three passes": three_passes, "two passes": two_passes, "one pass": one_pass}
    return {name: way(LoggedRow(x, values, block)) for name, way in ways.items()}
