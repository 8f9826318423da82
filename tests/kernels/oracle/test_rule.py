"""The rule that judges results: its factors, its tolerance, and its verdict on NaN, infinity and overflow."""

import math
from dataclasses import replace

import pytest
import torch

from kernels.algorithms import run_traced
from kernels.device.backend import DeviceInfo
from kernels.oracle.exact import attention_by_rows, gradient_rounding, gradients_by_heads
from kernels.oracle.report import ErrorReport
from kernels.oracle.rule import (
    compare,
    compare_gradients,
    compare_lse,
    compare_output,
    judge_trace,
)
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs

PROBLEM = AttentionProblem(q_len=20, kv_len=33, head_dim=16, mask="causal", q_heads=4, kv_heads=2, batch=2)


def references(problem, inputs, *dtypes):
    mask = {"scale": problem.scale, "band": problem.band}
    return [attention_by_rows(*inputs, **mask, dtype=dtype)[0] for dtype in dtypes]


def gradients(problem, inputs, d_out, *dtypes):
    """dQ, dK and dV in each of the types."""
    mask = {"scale": problem.scale, "band": problem.band}
    return [gradients_by_heads(inputs, d_out, **mask, dtype=dtype) for dtype in dtypes]


def rounding_of(exact):
    """What adding and subtracting 0.3 costs in float16, written out again."""
    stored = exact.half()
    return float(((stored + 0.3) - 0.3).double().sub(stored.double()).abs().max())


def held_against(got, exact, naive, factor=2.0, largest_value=1.0):
    """The comparison if standard attention is finite: no other reference is asked for."""

    def in_float32():
        raise AssertionError("standard attention is finite: no other reference is needed")

    return compare(got, exact.double(), naive, in_float32, factor, largest_value)


def test_an_output_may_be_off_by_twice_the_error_of_naive_attention_and_its_rounding():
    inputs = make_inputs(PROBLEM)
    exact, naive = references(PROBLEM, inputs, torch.float64, torch.float16)
    naive_error = float((naive.double() - exact).abs().max())
    report = compare_output(PROBLEM, exact.half(), inputs).report
    assert report.passes
    assert report.naive_max_error == naive_error > 0
    assert report.tolerance == pytest.approx(2 * (naive_error + rounding_of(exact)))
    for excess, passes in ((0.99, True), (1.01, False)):
        off = exact.clone()
        off[1, 3, 3, 5] += excess * report.tolerance
        assert compare_output(PROBLEM, off, inputs).report.passes == passes


def test_a_gradient_may_be_off_by_three_times_the_error_of_naive_attention_and_its_rounding():
    inputs, d_out = make_inputs(PROBLEM), make_d_output(PROBLEM)
    exact, naive = gradients(PROBLEM, inputs, d_out, torch.float64, torch.float16)
    compared = compare_gradients(PROBLEM, exact, inputs, d_out).values()
    for comparison, right, low in zip(compared, exact, naive, strict=True):
        naive_error = float((low.double() - right).abs().max())
        expected = 3 * (naive_error + rounding_of(right))
        assert comparison.report.tolerance == pytest.approx(expected)
        assert comparison.report.passes
    wrong = compare_gradients(PROBLEM, (exact[0], exact[1] + 1.0, exact[2]), inputs, d_out)
    assert [name for name, comparison in wrong.items() if not comparison.report.passes] == ["dK"]


@pytest.mark.parametrize("value", [8.0, 0.25])
def test_lse_may_be_off_by_twice_the_error_of_float32_and_four_roundings_of_1_at_least(value):
    """Sums of exponentials are about 1 if lse is small, so rounding them moves lse by as much."""
    exact = torch.tensor([value, -0.5, -math.inf], dtype=torch.float64)
    in_float32 = torch.tensor([value + 2**-20, -0.5, -math.inf])
    allowed = 2 * 2**-20 + 4 * 2**-23 * max(value, 1.0)
    for excess, passes in ((0.99, True), (1.01, False)):
        off = exact + torch.tensor([0.0, excess * allowed, 0.0], dtype=torch.float64)
        report = compare_lse(off, exact, in_float32).report
        assert report.tolerance == pytest.approx(allowed)
        assert report.passes == passes
    off = torch.tensor([value, -0.5, -1e30])  # of a row without a key
    assert not compare_lse(off, exact, in_float32).report.passes
    exact[0] = 1e39  # which float32 cannot hold
    for given, passes in ((math.inf, True), (math.nan, False), (3.0, False)):
        off = torch.tensor([given, -0.5, -math.inf])
        assert compare_lse(off, exact, in_float32).report.passes == passes


def test_what_is_not_finite_in_float64_must_be_the_same():
    values = torch.tensor([math.inf, -math.inf, math.nan, 1.0])
    assert held_against(values, values, values.half()).report.passes
    for index, other in ((0, -math.inf), (1, math.nan), (2, math.inf), (0, 1.0), (2, 1.0), (3, math.nan)):
        wrong = values.clone()
        wrong[index] = other
        report = held_against(wrong, values, values.half()).report
        assert (report.max_error, report.passes) == (math.inf, False), (index, other)
    exact = torch.full((2,), 1e6, dtype=torch.float64)  # more than the type's largest number
    infinite = torch.full((2,), math.inf, dtype=torch.float16)
    assert held_against(infinite, exact, infinite).report.passes
    assert not held_against(-infinite, exact, infinite).report.passes


def test_if_float32_overflows_float64_is_the_reference():
    exact = torch.tensor([1.0, 2.0], dtype=torch.float64)
    naive = torch.full((2,), math.inf, dtype=torch.float32)
    comparison = held_against(exact.float(), exact, naive)
    assert comparison.report.passes
    assert comparison.reference_name == "float64 rounded to float32"
    assert not held_against(naive, exact, naive).report.passes


OVERFLOWING = AttentionProblem(q_len=3, kv_len=4, head_dim=16)


def overflowing_inputs():
    """Scores of 360000, which float16 cannot hold: standard attention is NaN. The largest |value| is 4."""
    query, key = torch.full((1, 1, 3, 16), 300.0), torch.full((1, 1, 4, 16), 300.0)
    value = torch.linspace(-4.0, 1.0, 64).reshape(1, 1, 4, 16)
    return query.half(), key.half(), value.half()


def test_an_output_whose_scores_overflow_is_held_against_float32_and_the_largest_value():
    inputs = overflowing_inputs()
    exact, in_float32 = references(OVERFLOWING, inputs, torch.float64, torch.float32)
    comparison = compare_output(OVERFLOWING, exact.half(), inputs)
    assert comparison.reference_name == "float32 rounded to float16"
    assert torch.equal(comparison.reference, in_float32.half())
    reference_error = float((in_float32.half().double() - exact).abs().max())
    expected = 2 * (reference_error + rounding_of(exact)) + 2 * 2**-10 * 4.0
    assert comparison.report.tolerance == pytest.approx(expected)
    assert comparison.report.passes
    for wrong in (exact + 0.1, torch.full_like(exact, math.nan)):  # an infinite error would allow anything
        assert not compare_output(OVERFLOWING, wrong.half(), inputs).report.passes


def test_gradients_whose_scores_overflow_are_each_held_against_their_own_in_float32():
    inputs, d_out = overflowing_inputs(), make_d_output(OVERFLOWING)
    exact, in_float32 = gradients(OVERFLOWING, inputs, d_out, torch.float64, torch.float32)
    least = gradient_rounding(inputs, d_out, scale=OVERFLOWING.scale, band=OVERFLOWING.band)
    compared = compare_gradients(OVERFLOWING, exact, inputs, d_out).values()
    for comparison, right, careful, floor in zip(compared, exact, in_float32, least, strict=True):
        assert comparison.reference_name == "float32 rounded to float16"
        assert torch.equal(comparison.reference, careful.half())
        reference_error = max(float((careful.half().double() - right).abs().max()), floor)
        expected = 3 * (reference_error + rounding_of(right)) + 3 * 2**-10 * 4.0
        assert comparison.report.tolerance == pytest.approx(expected)


# --- the verdict on a traced run ---

TRACED = AttentionProblem(q_len=4, kv_len=5, head_dim=16, block_m=4, block_n=8)


def exact_gradients(problem):
    return gradients(problem, make_inputs(problem), make_d_output(problem), torch.float64)[0]


def with_gradients(trace, gradients):
    d_query, d_key, d_value = (gradient.numpy() for gradient in gradients)
    return replace(trace, d_query=d_query, d_key=d_key, d_value=d_value)


@pytest.fixture(scope="module")
def forward_trace():
    return run_traced(TRACED)


def test_a_run_without_all_gradients_is_judged_by_its_output(forward_trace):
    expected = compare_output(TRACED, torch.from_numpy(forward_trace.output), make_inputs(TRACED)).report
    elsewhere = replace(forward_trace, device=DeviceInfo("cuda", "made up", "t", "t", "p"))
    assert judge_trace(forward_trace) == judge_trace(elsewhere) == expected
    assert expected.passes
    wrong = replace(forward_trace, output=forward_trace.output + 1)
    assert judge_trace(wrong).max_error == pytest.approx(1.0, rel=1e-2)
    some = with_gradients(forward_trace, exact_gradients(TRACED))
    assert judge_trace(some) != judge_trace(forward_trace)
    for missing in ("d_query", "d_key", "d_value"):
        assert judge_trace(replace(some, **{missing: None})) == judge_trace(forward_trace)


def test_a_backward_run_is_judged_by_the_gradient_that_uses_up_most_of_its_tolerance(forward_trace):
    """Not by the one with the largest error: tolerances differ from gradient to gradient."""
    problem = TRACED.with_(inputs="large")
    trace, exact = replace(forward_trace, problem=problem), exact_gradients(problem)
    reports = compare_gradients(problem, exact, make_inputs(problem), make_d_output(problem)).values()
    allowed = [report.report.tolerance for report in reports]
    loosest, tightest = allowed.index(max(allowed)), allowed.index(min(allowed))
    off = list(exact)
    off[loosest] = exact[loosest] + 0.5 * allowed[loosest]
    off[tightest] = exact[tightest] + 1.5 * allowed[tightest]
    assert 0.5 * allowed[loosest] > 1.5 * allowed[tightest]
    report = judge_trace(with_gradients(trace, off))
    assert report.tolerance == allowed[tightest]
    assert not report.passes


def test_queries_that_see_one_key_allow_the_rounding_of_intermediates_and_no_more(forward_trace):
    """One query and one key: dQ and dK are 0, and standard attention gives 0 by luck; others round."""
    problem = TRACED.with_(q_len=1, kv_len=1)
    trace, (d_query, d_key, d_value) = replace(forward_trace, problem=problem), exact_gradients(problem)
    assert not d_query.any()
    inputs, d_out = make_inputs(problem), make_d_output(problem)
    assert judge_trace(with_gradients(trace, (d_query, d_key, d_value))).passes
    _, key, value = (tensor.double() for tensor in inputs)
    products = d_out.double() * value
    rounded = problem.scale * 2**-11 * products.square().sum().sqrt()  # one rounding of each product in delta
    report = compare_gradients(problem, (rounded * key, d_key, d_value), inputs, d_out)["dQ"].report
    assert report.passes
    wrong = problem.scale * products.sum() * key  # delta is missing: dS = dP
    assert not compare_gradients(problem, (wrong, d_key, d_value), inputs, d_out)["dQ"].report.passes


def test_a_report_passes_up_to_its_tolerance_and_never_with_nan():
    assert ErrorReport(1.0, 0.0, 0.0, tolerance=1.0).passes
    assert not ErrorReport(1.0001, 0.0, 0.0, tolerance=1.0).passes
    assert not ErrorReport(math.nan, 0.0, 0.0, tolerance=1.0).passes
