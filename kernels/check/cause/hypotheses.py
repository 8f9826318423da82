"""Names the cause of a wrong result: the mistake with which a right computation would give the same.

A hypothesis fits if the result equals it by the same rule by which the result does not equal attention.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice

import torch

from kernels.check.cause import variants
from kernels.check.judge.calls import Calls
from kernels.check.result import MAX_SCORES, Cause
from kernels.oracle.naive import whole_mask
from kernels.oracle.report import FACTORS
from kernels.oracle.rule import GRADIENTS, Comparison, absolute_error, compare, largest_finite
from kernels.problem import Pattern

NEARER = 0.5
"""A hypothesis whose largest error is not below this share of the error from the exact result is dropped
before its own rounding is computed."""


@dataclass(frozen=True)
class Evidence:
    calls: Calls
    compared: dict[str, Comparison]
    wrong: list[str]
    row_sums: torch.Tensor | None
    """(batch, q_heads, q_len): what the weights of each row add up to; None if they are not known."""

    @cached_property
    def setting(self) -> variants.Setting:
        """The call as it should have been computed."""
        query, key, value = self.calls.inputs
        visible = whole_mask(self.calls.band, query.device)
        return variants.Setting(query, key, value, visible, self.calls.scale, self.pattern)

    @property
    def pattern(self) -> Pattern | None:
        """What the call asks beside a band."""
        return self.calls.band if isinstance(self.calls.band, Pattern) else None

    @property
    def output_variants(self) -> Iterator[tuple[str, variants.Compute]]:
        case, band = self.calls.case, self.calls.band
        if self.pattern:
            yield from variants.pattern_variants(self.setting, self.pattern, case.problem)
        yield from variants.output_variants(
            self.setting, band.band if isinstance(band, Pattern) else band, case.layout
        )

    def equals(self, name: str, compute: variants.Compute) -> bool:
        """Whether the result of that name equals what is computed, by the rule."""
        got, exact = self.calls.got[name], compute(torch.float64)
        if not float(absolute_error(got, exact).max()) < NEARER * self.compared[name].report.max_error:
            return False
        factor = FACTORS["backward" if name in GRADIENTS else "forward"]
        low = compute(self.setting.query.dtype).to(self.setting.query.dtype)
        largest = largest_finite(self.setting.value)
        return compare(got, exact, low, lambda: compute(torch.float32), factor, largest).report.passes

    def contradicts(self, compute: variants.Compute) -> bool:
        """Whether lse is right although it would be off by this mistake in O, or the other way round.

        An lse whose own mistake is known, such as other units, says nothing of O.
        """
        if "lse" not in self.compared or not isinstance(compute, variants.Setting | variants.Online):
            return False
        of_lse = self.compared["lse"]
        found, allowed = of_lse.report.max_error, of_lse.report.tolerance
        expected = float(absolute_error(compute.lse(), of_lse.exact).max())
        if not min(found, expected) <= allowed < max(found, expected) / 2:  # near it, either may be
            return False
        return expected > found or not any(_lse_causes(self))


def _one_of(
    compute: Callable[[torch.dtype], variants.Gradients], name: str, dtype: torch.dtype
) -> torch.Tensor:
    return compute(dtype)[name]


def causes_of(evidence: Evidence) -> tuple[Cause, ...]:
    """The simplest causes that explain the wrong tensors; () if nothing fits or the problem is too large."""
    setting, wrong = evidence.setting, evidence.wrong
    if setting.query.shape[:3].numel() * setting.key.shape[2] > MAX_SCORES:
        return ()
    of_output = _output_causes(evidence) if "O" in wrong else _lse_causes(evidence) if "lse" in wrong else ()
    causes = [*islice(of_output, 1)]
    gradients = [name for name in GRADIENTS if name in wrong]
    while gradients and (cause := _gradient_cause(evidence, gradients)):
        causes.append(cause)
        gradients = [name for name in gradients if name not in cause.tensors]
    return tuple(causes or _shorter_type(evidence))


def _shorter_type(evidence: Evidence) -> Iterator[Cause]:
    """Tensors of float32 whose errors are not larger than those of attention in bfloat16."""
    setting, calls = evidence.setting, evidence.calls
    if evidence.pattern:
        return
    right = variants.Backward(setting, calls.d_out)
    computed = {"O": setting} | {name: partial(_one_of, right, name) for name in GRADIENTS}
    names = tuple(name for name in evidence.wrong if name in computed)
    for name in names:
        low = absolute_error(computed[name](torch.bfloat16), evidence.compared[name].exact)
        if not evidence.compared[name].report.max_error <= float(low.max()):
            return
    if names and setting.query.dtype == torch.float32:
        may = 'if it is not meant for float32, declare "dtypes": ["float16", "bfloat16"] in its CHECK'
        yield Cause(f"the exact one but for the error of a shorter type, as float16 or TF32 ({may})", names)


def _cause(words: str, *tensors: str) -> Cause:
    """The words of a variant may end in numbers of this case."""
    sentence, _, numbers = words.partition(variants.HERE)
    return Cause(sentence, tensors, numbers)


def _output_causes(evidence: Evidence) -> Iterator[Cause]:
    scaled = _factor_cause(evidence, "O")
    if scaled and not scaled.numbers:
        yield scaled
    for words, compute in evidence.output_variants:
        if evidence.equals("O", compute) and not evidence.contradicts(compute):
            yield _cause(words, "O")
    yield from _wrong_row_sums(evidence)
    yield from _unwritten(evidence)
    if scaled:
        yield scaled


def _factor_cause(evidence: Evidence, name: str) -> Cause | None:
    """That a result is the exact one times a number, by what the number is if that is known."""
    got, comparison = evidence.calls.got[name].double(), evidence.compared[name]
    exact = comparison.exact
    squares = float((exact * exact).sum())
    if not (math.isfinite(squares) and squares and bool(got.isfinite().all())):
        return None
    factor = float((got * exact).sum()) / squares
    allowed = comparison.report.tolerance * max(1.0, abs(factor))
    if not float((got - factor * exact).abs().max()) <= min(allowed, NEARER * comparison.report.max_error):
        return None
    words = variants.known_factor(factor, evidence.setting)
    return Cause(words or "the exact one times a number", (name,), "" if words else f"{factor:.4g} here")


def _wrong_row_sums(evidence: Evidence) -> Iterator[Cause]:
    """Right values, wrong normalisation: O over the sum of its row's weights is exact."""
    if evidence.row_sums is None:
        return
    seen = evidence.setting.visible.any(dim=-1)
    sums, comparison = evidence.row_sums[..., seen], evidence.compared["O"]
    got, exact = evidence.calls.got["O"].double()[..., seen, :], comparison.exact[..., seen, :]
    error, undivided = (got / sums[..., None] - exact).abs().max(), (got - exact).abs().max()
    allowed = comparison.report.tolerance * (1 + float((1 / sums.abs()).max()))
    if float(error) <= min(allowed, NEARER * float(undivided)):  # sums of nearly 1 explain nothing
        numbers = f"the sums are {float(sums.min()):.3g} to {float(sums.max()):.3g}, not 1"
        words = (
            "the exact one once each row is divided by the sum of its weights: l is wrong, the rest is right"
        )
        yield Cause(words, ("O",), numbers)


def _unwritten(evidence: Evidence) -> Iterator[Cause]:
    """NaN in whole rows alone, everything else right."""
    nan, comparison = evidence.calls.got["O"].isnan(), evidence.compared["O"]
    rows, rest = nan.all(dim=-1), comparison.error[~nan]
    if bool(nan.all()):
        yield Cause("NaN everywhere: never written, or 0 / 0", ("O",))
        return
    whole = bool(rows.any()) and torch.equal(rows[..., None].expand_as(nan), nan)
    if whole and not (rest.numel() and float(rest.max()) > comparison.report.tolerance):
        numbers = rows.flatten(0, 1).any(dim=0).nonzero().flatten().tolist()
        where = f"rows {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"row {numbers[0]}"
        yield Cause("the exact one but for rows of NaN: never written, or 0 / 0", ("O",), where)


def _lse_causes(evidence: Evidence) -> Iterator[Cause]:
    scores, _ = evidence.setting.scores(torch.float64)
    exact, m = torch.logsumexp(scores, dim=-1), scores.amax(dim=-1)
    got, report = evidence.calls.got["lse"], evidence.compared["lse"].report
    allowed = min(2 * report.tolerance, NEARER * report.max_error)  # of large scores, l says little
    mistakes = {
        "the exact one in units of log2: lse / ln 2 (declare it, see the README)": exact / math.log(2),
        "the exact one in units of log10: lse / ln 10": exact / math.log(10),
        "the exact one times ln 2": exact * math.log(2),
        "the row max m alone: the logarithm of l is missing": m,
        "the logarithm of the row sum l alone: the row max m is missing": exact - m,
        "m + l: the logarithm is missing": m + torch.exp(exact - m),
        "m log2(e) + ln l: two units in one sum": m / math.log(2) + (exact - m),
        "m + log2 l: two units in one sum": m + (exact - m) / math.log(2),
        "the exact one plus the row max m: it is added, but was not subtracted": exact + m,
        "the exact one with the other sign": -exact,
    }
    for words, values in mistakes.items():
        if float(absolute_error(got, values).max()) <= allowed:
            yield Cause(words, ("lse",))


def _gradient_cause(evidence: Evidence, wrong: list[str]) -> Cause | None:
    """The first hypothesis that explains all of these gradients, else the one that explains the most."""
    factors = [_factor_cause(evidence, name) for name in wrong]
    scaled = next(filter(None, factors), None)
    if scaled and not scaled.numbers and all(each and each.words == scaled.words for each in factors):
        return replace(scaled, tensors=tuple(wrong))
    best, d_out = None, evidence.calls.d_out
    if isinstance(evidence.calls.band, Pattern):
        return scaled
    for words, compute in variants.gradient_variants(evidence.setting, d_out, evidence.calls.band):
        fitting = [name for name in wrong if evidence.equals(name, partial(_one_of, compute, name))]
        if len(fitting) > (len(best.tensors) if best else 0):
            best = _cause(words, *fitting)
        if len(fitting) == len(wrong):
            break
    return best or scaled
