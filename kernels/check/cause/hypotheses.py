"""Names the cause of a wrong result: the mistake with which a right computation would give the same.

A hypothesis fits if the result equals it by the same rule by which the result does not equal attention.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from kernels.check.cause.gradient_variants import Gradients, gradient_variants, known_factor
from kernels.check.cause.variants import HERE, Compute, Setting, band_mask, output_variants
from kernels.check.result import Cause
from kernels.oracle.report import FACTORS
from kernels.oracle.rule import GRADIENTS, Comparison, absolute_error, compare, largest_finite
from kernels.problem import Band

MAX_SCORES = 1 << 22
"""Problems with more scores than this are not searched for a cause: it would take minutes."""
NEARER = 0.5
"""A hypothesis whose largest error is not below this share of the error from the exact result is dropped
before its own rounding is computed."""


@dataclass(frozen=True)
class Evidence:
    """What a check found out about a wrong result."""

    tensors: tuple[torch.Tensor, ...]
    """Q, K, V and dO."""
    got: dict[str, torch.Tensor]
    compared: dict[str, Comparison]
    wrong: list[str]
    scale: float
    band: Band
    layout: str
    row_sums: torch.Tensor | None
    """(batch, q_heads, q_len): what the weights of each row add up to; None if they are not known."""

    @property
    def setting(self) -> Setting:
        """The call as it should have been computed."""
        query, key, value, _ = self.tensors
        return Setting(query, key, value, band_mask(self.band, query.device), self.scale)

    def equals(self, name: str, compute: Compute) -> bool:
        """Whether the result of that name equals what is computed, by the rule."""
        got, setting = self.got[name], self.setting
        exact = compute(torch.float64)
        error = float(absolute_error(got, exact).max())
        if not error < NEARER * self.compared[name].report.max_error:
            return False
        factor = FACTORS["backward" if name in GRADIENTS else "forward"]
        low = compute(setting.query.dtype).to(setting.query.dtype)
        return compare(
            got, exact, low, lambda: compute(torch.float32), factor, largest_finite(setting.value)
        ).report.passes


def causes_of(evidence: Evidence) -> tuple[Cause, ...]:
    """The simplest causes that explain the wrong tensors; () if nothing fits or the problem is too large."""
    query, key = evidence.tensors[:2]
    if query.shape[:3].numel() * key.shape[2] > MAX_SCORES:
        return ()
    causes = []
    if "O" in evidence.wrong:
        causes.extend(_first(_output_causes(evidence)))
    elif "lse" in evidence.wrong:
        causes.extend(_first(_lse_causes(evidence)))
    gradients = [name for name in GRADIENTS if name in evidence.wrong]
    while gradients:
        cause = _gradient_cause(evidence, gradients)
        if cause is None:
            break
        causes.append(cause)
        gradients = [name for name in gradients if name not in cause.tensors]
    return tuple(causes)


def _cause(words: str, tensors: tuple[str, ...]) -> Cause:
    """The words of a variant may end in numbers of this case."""
    sentence, _, numbers = words.partition(HERE)
    return Cause(sentence, tensors, numbers)


def _first(causes: Iterator[Cause]) -> list[Cause]:
    found = next(causes, None)
    return [found] if found else []


def _output_causes(evidence: Evidence) -> Iterator[Cause]:
    setting = evidence.setting
    scaled = _factor_cause(evidence, "O")
    if scaled and not scaled.numbers:
        yield scaled
    for words, compute in output_variants(setting, evidence.band, evidence.layout):
        if evidence.equals("O", compute):
            yield _cause(words, ("O",))
    yield from _wrong_row_sums(evidence)
    yield from _unwritten(evidence)
    if scaled:
        yield scaled


def _factor(evidence: Evidence, name: str) -> float | None:
    """The number that the exact result has to be multiplied by, if that explains everything."""
    got, comparison = evidence.got[name].double(), evidence.compared[name]
    exact = comparison.exact
    squares = float((exact * exact).sum())
    if not (math.isfinite(squares) and squares and bool(got.isfinite().all())):
        return None
    factor = float((got * exact).sum()) / squares
    allowed = comparison.report.tolerance * max(1.0, abs(factor))
    return factor if float((got - factor * exact).abs().max()) <= allowed else None


def _wrong_row_sums(evidence: Evidence) -> Iterator[Cause]:
    """Right values, wrong normalisation: O over the sum of its row's weights is exact."""
    sums = evidence.row_sums
    if sums is None:
        return
    got, comparison = evidence.got["O"].double(), evidence.compared["O"]
    seen = evidence.setting.visible.any(dim=-1)
    sums, error = sums[..., seen], (got / sums[..., None] - comparison.exact).abs()[..., seen, :].max()
    allowed = comparison.report.tolerance * (1 + float((1 / sums.abs()).max()))
    undivided = (got - comparison.exact).abs()[..., seen, :].max()
    if float(error) <= min(allowed, NEARER * float(undivided)):  # sums of nearly 1 explain nothing
        words = (
            "the exact one once each row is divided by the sum of its weights: l is wrong, the rest is right"
        )
        yield Cause(words, ("O",), f"the sums are {float(sums.min()):.3g} to {float(sums.max()):.3g}, not 1")


def _unwritten(evidence: Evidence) -> Iterator[Cause]:
    """NaN in whole rows alone, everything else right."""
    got, comparison = evidence.got["O"], evidence.compared["O"]
    nan = got.isnan()
    rows = nan.all(dim=-1)
    rest = comparison.error[~nan]
    if not bool(nan.any()) or not torch.equal(rows[..., None].expand_as(nan), nan):
        return
    if rest.numel() and float(rest.max()) > comparison.report.tolerance:
        return
    numbers = rows.any(dim=0).any(dim=0).nonzero().flatten().tolist()
    where = f"rows {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"row {numbers[0]}"
    yield Cause("the exact one but for rows of NaN: never written, or 0 / 0", ("O",), where)


def _lse_causes(evidence: Evidence) -> Iterator[Cause]:
    scores, _ = evidence.setting.scores(torch.float64)
    exact, m = torch.logsumexp(scores, dim=-1), scores.amax(dim=-1)
    got, allowed = evidence.got["lse"], evidence.compared["lse"].report.tolerance
    variants = {
        "the exact one in units of log2: lse / ln 2 (declare it, see the README)": exact / math.log(2),
        "the exact one times ln 2": exact * math.log(2),
        "the row max m alone: the logarithm of l is missing": m,
        "the logarithm of the row sum l alone: the row max m is missing": exact - m,
        "m + l: the logarithm is missing": m + torch.exp(exact - m),
        "m log2(e) + ln l: two units in one sum": m / math.log(2) + (exact - m),
        "m + log2 l: two units in one sum": m + (exact - m) / math.log(2),
        "the exact one plus the row max m: it is added, but was not subtracted": exact + m,
        "the exact one with the other sign": -exact,
    }
    for words, values in variants.items():
        if float(absolute_error(got, values).max()) <= allowed * 2:
            yield Cause(words, ("lse",))


def _one_of(compute: Callable[[torch.dtype], Gradients], name: str) -> Compute:
    return lambda dtype: compute(dtype)[name]


def _gradient_cause(evidence: Evidence, wrong: list[str]) -> Cause | None:
    """The first hypothesis that explains all of these gradients, else the one that explains the most."""
    best: Cause | None = None
    if len(wrong) == 1 and (best := _factor_cause(evidence, wrong[0])) and not best.numbers:
        return best
    setting, d_out = evidence.setting, evidence.tensors[3]
    for words, compute in gradient_variants(setting, d_out, evidence.band):
        fitting = [name for name in wrong if evidence.equals(name, _one_of(compute, name))]
        if len(fitting) == len(wrong):
            return _cause(words, tuple(fitting))
        if len(fitting) > (len(best.tensors) if best and not best.numbers else 0):
            best = _cause(words, tuple(fitting))
    return best or _one_factor(evidence, wrong)


def _one_factor(evidence: Evidence, wrong: list[str]) -> Cause | None:
    """The first of several wrong gradients that is the exact one times a number."""
    return next(filter(None, (_factor_cause(evidence, name) for name in wrong)), None)


def _factor_cause(evidence: Evidence, name: str) -> Cause | None:
    """That a result is the exact one times a number, by what the number is if that is known."""
    factor = _factor(evidence, name)
    if factor is None:
        return None
    words = known_factor(factor, evidence.setting)
    return Cause(words or "the exact one times a number", (name,), "" if words else f"{factor:.4g} here")
