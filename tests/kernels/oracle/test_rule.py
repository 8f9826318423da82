"""The rule that judges results: its factors, its tolerance, and its verdict on NaN, infinity and overflow."""

import math

import pytest
import torch

from kernels.oracle.exact import attention_by_rows, gradients_by_heads
from kernels.oracle.report import ErrorReport, rule_words
from kernels.oracle.rule import absolute_error, compare, compare_gradients, compare_lse, compare_output
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs

PROBLEM = AttentionProblem(q_len=20, kv_len=33, head_dim=16, mask="causal", q_heads=4, kv_heads=2, batch=2)


def references(problem, inputs, *dtypes):
    return [
        attention_by_rows(*inputs, scale=problem.scale, band=problem.band, dtype=dtype)[0] for dtype in dtypes
    ]


def rounding_of(exact):
    """What adding and subtracting 0.3 costs in float16, written out again."""
    stored = exact.half()
    return float(((stored + 0.3) - 0.3).double().sub(stored.double()).abs().max())


def held_against(got, exact, naive, factor=2.0, largest_value=1.0):
    """The comparison if naive attention is finite: no other reference is asked for."""

    def in_float32():
        raise AssertionError("naive attention is finite: no other reference is needed")

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
    exact, naive = (
        gradients_by_heads(*inputs, d_out, scale=PROBLEM.scale, band=PROBLEM.band, dtype=dtype)
        for dtype in (torch.float64, torch.float16)
    )
    for index, comparison in enumerate(compare_gradients(PROBLEM, exact, inputs, d_out).values()):
        naive_error = float((naive[index].double() - exact[index]).abs().max())
        expected = 3 * (naive_error + rounding_of(exact[index]))
        assert comparison.report.tolerance == pytest.approx(expected)
        assert comparison.report.passes


def test_the_rule_for_gradients_names_the_one_that_is_wrong():
    inputs, d_out = make_inputs(PROBLEM), make_d_output(PROBLEM)
    exact = gradients_by_heads(*inputs, d_out, scale=PROBLEM.scale, band=PROBLEM.band, dtype=torch.float64)
    wrong = compare_gradients(PROBLEM, (exact[0], exact[1] + 1.0, exact[2]), inputs, d_out)
    assert [name for name, comparison in wrong.items() if not comparison.report.passes] == ["dK"]


def test_lse_may_be_off_by_twice_the_error_of_float32_and_four_roundings():
    exact = torch.tensor([8.0, -3.0, -math.inf], dtype=torch.float64)
    in_float32 = torch.tensor([8.0 + 2**-20, -3.0, -math.inf])
    allowed = 2 * 2**-20 + 4 * 2**-23 * 8
    for excess, passes in ((0.99, True), (1.01, False)):
        off = exact + torch.tensor([0.0, excess * allowed, 0.0], dtype=torch.float64)
        report = compare_lse(off, exact, in_float32).report
        assert report.tolerance == pytest.approx(allowed)
        assert report.passes == passes


def test_lse_of_a_row_without_a_key_must_be_minus_infinity():
    exact = torch.tensor([1.0, -math.inf], dtype=torch.float64)
    assert compare_lse(exact.float(), exact, exact.float()).report.passes
    assert not compare_lse(torch.tensor([1.0, -1e30]), exact, exact.float()).report.passes
    empty = torch.full((2,), -math.inf)
    assert compare_lse(empty, empty.double(), empty).report.passes


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_that_is_not_finite_where_float64_is_fails(bad):
    exact = torch.zeros(3)
    out = torch.tensor([0.0, bad, 0.0])
    report = held_against(out, exact, exact.half()).report
    assert report.max_error == math.inf
    assert not report.passes


def test_what_is_not_finite_in_float64_must_be_the_same():
    values = torch.tensor([math.inf, -math.inf, math.nan, 1.0])
    assert held_against(values, values, values.half()).report.passes
    for index, other in ((0, -math.inf), (1, math.nan), (2, math.inf), (0, 1.0), (2, 1.0)):
        wrong = values.clone()
        wrong[index] = other
        assert not held_against(wrong, values, values.half()).report.passes, (index, other)


def test_if_naive_attention_overflows_float32_is_the_reference_and_nan_still_fails():
    """An infinite error of the reference would allow anything."""
    exact = torch.tensor([1.0, 2.0], dtype=torch.float64)
    naive = torch.full((2,), math.nan, dtype=torch.float16)

    def compared(got):
        return compare(got, exact, naive, exact.float, factor=2.0, largest_value=4.0)

    right = compared(exact.half())
    assert right.report.passes
    assert right.reference_name == "float32 rounded to float16"
    assert right.report.tolerance == pytest.approx(2 * rounding_of(exact) + 2 * 2**-10 * 4.0)
    assert not compared(exact.half() + 0.1).report.passes
    assert not compared(naive).report.passes


def test_if_float32_overflows_float64_is_the_reference():
    exact = torch.tensor([1.0, 2.0], dtype=torch.float64)
    naive = torch.full((2,), math.inf, dtype=torch.float32)
    comparison = held_against(exact.float(), exact, naive)
    assert comparison.report.passes
    assert comparison.reference_name == "float64 rounded to float32"
    assert not held_against(naive, exact, naive).report.passes


def test_values_beyond_the_types_largest_number_are_infinite():
    exact = torch.full((2,), 1e6, dtype=torch.float64)
    infinite = torch.full((2,), math.inf, dtype=torch.float16)
    assert held_against(infinite, exact, infinite).report.passes
    assert not held_against(-infinite, exact, infinite).report.passes


def test_absolute_errors_of_equal_infinities_and_two_nan_are_zero():
    got = torch.tensor([1.0, math.inf, math.nan, math.inf, math.nan])
    exact = torch.tensor([1.5, math.inf, math.nan, -math.inf, 0.0])
    assert absolute_error(got, exact).tolist() == [0.5, 0.0, 0.0, math.inf, math.inf]


def test_a_report_passes_up_to_its_tolerance_and_never_with_nan():
    assert ErrorReport(1.0, 0.0, 0.0, tolerance=1.0).passes
    assert not ErrorReport(1.0001, 0.0, 0.0, tolerance=1.0).passes
    assert not ErrorReport(math.nan, 0.0, 0.0, tolerance=1.0).passes


@pytest.mark.parametrize(("factor", "times"), [(2.0, "twice"), (3.0, "three times")])
def test_the_words_name_the_factor(factor, times):
    assert rule_words(factor).count(times) == 2
