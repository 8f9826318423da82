"""The rule by which a result is right: that of FlashAttention's own tests (tests/test_flash_attn.py).

The largest error against float64 may be at most `factor` times the largest error of standard attention in the
type of the inputs, plus `factor` times the rounding error of adding and subtracting 0.3 in that type. Only
this file judges by the rule, also NaN, infinity, and a naive reference that overflows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from kernels.oracle.exact import (
    Gradients,
    Inputs,
    attention_by_rows,
    gradient_rounding,
    gradients_by_heads,
    largest_finite,
    output_rounding,
)
from kernels.oracle.report import FACTORS, ErrorReport
from kernels.problem import AttentionProblem, Rule
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.trace import Trace
from kernels.trace.sample import tile_bounds

GRADIENTS = ("dQ", "dK", "dV")
"""Names of the gradients, in the order of Gradients."""


@dataclass(frozen=True)
class Comparison:
    """A tensor compared with the exact one, element by element, and the report on it."""

    error: torch.Tensor
    """|got - exact| in float64; infinite if only one of the two is finite."""
    exact: torch.Tensor
    """float64, infinite beyond the largest number of the type that the result is stored in."""
    reference: torch.Tensor
    """The low-precision result that the tolerance comes from."""
    reference_name: str
    """How the reference was computed: "float16", or "float32 rounded to float16"."""
    report: ErrorReport


def compare(
    got: torch.Tensor,
    exact: torch.Tensor,
    naive: torch.Tensor,
    in_float32: Callable[[], torch.Tensor],
    factor: float,
    largest_value: float,
    least_error: float = 0.0,
) -> Comparison:
    """Compare `got` with `exact` (float64) by the rule; `naive` is standard attention in the inputs' type.

    If standard attention overflows although the exact result is finite, its error is infinite and would allow
    any result. Then the reference is `in_float32` rounded to that type (for float32 the exact result), and
    the tolerance grows by the rounding of P: `factor` times eps times `largest_value`, the largest |V|. The
    error of the reference counts as `least_error` at least (see `exact.output_rounding` and
    `exact.gradient_rounding`). If float32 overflows too, the tolerance is infinite: by this rule nothing can
    be said about such a result.
    """
    low = naive.dtype
    exact = _as_stored(exact, low)
    reference, name, extra = naive, str(low).removeprefix("torch."), 0.0
    if math.isinf(_largest(absolute_error(naive, exact))):
        careful, word = (exact, "float64") if low == torch.float32 else (in_float32(), "float32")
        reference, name = careful.to(low), f"{word} rounded to {name}"
        extra = factor * torch.finfo(low).eps * largest_value
    error = absolute_error(got, exact)
    reference_error = max(_largest(absolute_error(reference, exact)), least_error)
    stored = exact.to(low)
    rounding = _largest(absolute_error(stored + 0.3 - 0.3, stored.double()))
    tolerance = factor * (reference_error + rounding) + extra
    report = ErrorReport(_largest(error), mean_of(error), reference_error, tolerance, factor)
    return Comparison(error, exact, reference, name, report)


@dataclass(frozen=True)
class OutputReferences:
    """O and lse of one problem in float64, in the type of the inputs and in float32; what O may be off by."""

    exact: torch.Tensor
    exact_lse: torch.Tensor
    naive: torch.Tensor
    in_float32: torch.Tensor
    lse_in_float32: torch.Tensor
    largest_value: float
    """The largest |V|."""
    least_error: float
    """What the error of a reference for O counts as at least: see `exact.output_rounding`."""

    @classmethod
    def of(
        cls, inputs: Inputs, scale: float, band: Rule, rows: Sequence[tuple[int, int]] | None = None
    ) -> "OutputReferences":
        """The references for an output on these inputs, on their device; of some ranges of rows alone."""
        query, key, value = inputs
        parts = [
            ((query[:, :, first:end], key, value), band.of_rows(first, end))
            for first, end in rows or [(0, band.q_len)]
        ]

        def joined(dtype: torch.dtype) -> list[torch.Tensor]:
            results = [attention_by_rows(*part, scale=scale, band=own, dtype=dtype) for part, own in parts]
            return [torch.cat(tensors, dim=2) for tensors in zip(*results, strict=True)]

        (exact, exact_lse), (naive, _), (in_float32, lse_in_float32) = map(
            joined, (torch.float64, query.dtype, torch.float32)
        )
        least = 0.0  # a reference that rounds S and P to 16 bits is never off by as little
        if query.dtype == torch.float32:
            least = max(output_rounding(part, scale=scale, band=own) for part, own in parts)
        return cls(exact, exact_lse, naive, in_float32, lse_in_float32, largest_finite(value), least)

    def compare(self, out: torch.Tensor) -> Comparison:
        references = (self.exact, self.naive, lambda: self.in_float32)
        allowed = (FACTORS["forward"], self.largest_value, self.least_error)
        return compare(out.to(self.exact.device), *references, *allowed)

    def compare_lse(self, lse: torch.Tensor) -> Comparison:
        return compare_lse(lse.to(self.exact.device), self.exact_lse, self.lse_in_float32)


def compare_lse(got: torch.Tensor, exact: torch.Tensor, in_float32: torch.Tensor) -> Comparison:
    """Compare lse with the exact one. In every kernel it is a float32 sum.

    Allowed is twice the error of attention in float32, plus four roundings of the largest value.
    """
    exact = _as_stored(exact, torch.float32)
    error, reference_error = absolute_error(got, exact), absolute_error(in_float32, exact)
    finite = exact.isfinite()
    of_reference = _largest(reference_error[finite])
    rounding = torch.finfo(torch.float32).eps * max(largest_finite(exact), 1.0)
    tolerance = FACTORS["forward"] * of_reference + 4 * rounding
    report = ErrorReport(_largest(error), mean_of(error), of_reference, tolerance)
    return Comparison(error, exact, in_float32, "float32", report)


def absolute_error(got: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """|got - exact| in float64: 0 if both are NaN or the same infinity, infinite if only one is finite."""
    got, exact = got.double(), exact.double()
    same = (got == exact) | (got.isnan() & exact.isnan())
    return torch.where(same, 0.0, (got - exact).abs().nan_to_num(nan=math.inf, posinf=math.inf))


def mean_of(error: torch.Tensor) -> float:
    """Mean of the elements; 0 if there are none."""
    return float(error.mean()) if error.numel() else 0.0


def _as_stored(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    stored = exact.to(dtype).double()
    return torch.where(stored.isinf(), stored, exact)


def _largest(error: torch.Tensor) -> float:
    return float(error.max()) if error.numel() else 0.0


def compare_output(
    problem: AttentionProblem, out: torch.Tensor, inputs: Inputs, q_tiles: tuple[int, ...] | None = None
) -> Comparison:
    """An output of the problem by the rule, computed on the device of the inputs.

    With `q_tiles`, `out` holds the rows of these query tiles alone.
    """
    rows = [tile_bounds(problem, tile) for tile in q_tiles] if q_tiles else None
    return OutputReferences.of(inputs, problem.scale, problem.rule, rows).compare(out)


def compare_gradients(
    problem: AttentionProblem,
    gradients: Gradients,
    inputs: Inputs,
    d_out: torch.Tensor,
    *,
    scale: float | None = None,
    band: Rule | None = None,
) -> dict[str, Comparison]:
    """dQ, dK and dV of the problem by the rule, computed on the device of the inputs.

    `scale` and `band` stand in for those of the problem.
    """
    scale, band = problem.scale if scale is None else scale, band or problem.rule

    def reference(dtype: torch.dtype) -> Gradients:
        return gradients_by_heads(inputs, d_out, scale=scale, band=band, dtype=dtype)

    exact, naive = reference(torch.float64), reference(inputs[0].dtype)
    least = gradient_rounding(inputs, d_out, scale=scale, band=band)
    largest, factor = largest_finite(inputs[2]), FACTORS["backward"]
    return {
        name: compare(
            gradients[index].to(exact[index].device),
            exact[index],
            naive[index],
            lambda index=index: reference(torch.float32)[index],  # type: ignore[misc]  # of this turn
            factor,
            largest,
            least[index],
        )
        for index, name in enumerate(GRADIENTS)
    }


def judge_trace(trace: Trace) -> ErrorReport:
    """The report on the output of a traced run or, after a backward pass, on its worst gradient.

    Of a sample only the traced rows are judged. The trace may be of another machine. Raises ValueError if it
    has no results.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    problem, q_tiles = trace.problem, None
    if trace.sample:
        problem, q_tiles = trace.sample.part(problem), trace.sample.q_tiles
    inputs = make_inputs(problem, device)
    if trace.d_query is None or trace.d_key is None or trace.d_value is None:
        if trace.output is None:
            raise ValueError("the trace has no results to judge")
        return compare_output(problem, torch.from_numpy(trace.output), inputs, q_tiles).report
    d_query, d_key, d_value = (torch.from_numpy(a) for a in (trace.d_query, trace.d_key, trace.d_value))
    d_out = make_d_output(problem, device)
    compared = compare_gradients(problem, (d_query, d_key, d_value), inputs, d_out)
    reports = [comparison.report for comparison in compared.values()]
    smallest = math.ulp(0.0)  # in place of a tolerance of 0
    return max(reports, key=lambda report: report.max_error / (report.tolerance or smallest))
