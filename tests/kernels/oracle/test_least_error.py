"""What a reference counts as off by at least: the roundings that a right kernel may make otherwise."""

from dataclasses import replace

import pytest
import torch

from kernels.oracle.exact import gradient_rounding, gradients_by_heads, output_rounding
from kernels.oracle.rule import OutputReferences, absolute_error, compare_output
from kernels.problem.inputs import make_d_output, make_inputs
from tests.kernels.helpers import tiny

TINY = tiny(16, 32, dtype="float32")


def test_the_least_error_of_an_output_is_two_standard_errors_of_rounding_p_and_the_sums_in_s():
    """Held against outputs whose P, and whose partial sums in S, really are off by random roundings."""
    query, key, value = (tensor.double()[0, 0] for tensor in make_inputs(TINY))
    products, ulp = (query * TINY.scale)[:, None] * key, torch.finfo(torch.float32).eps
    weights, generator = products.sum(-1).softmax(-1), torch.Generator().manual_seed(0)

    def rounding(numbers):
        half_ulps = torch.rand(numbers.shape, generator=generator, dtype=numbers.dtype) - 0.5
        return numbers * ulp * half_ulps

    errors = []
    for _ in range(800):
        order = torch.randperm(TINY.head_dim, generator=generator)
        of_s = rounding(products[..., order].cumsum(-1)).sum(-1)
        off = weights * of_s.exp()
        errors.append(((off + rounding(weights)) @ value) / off.sum(-1, True) - weights @ value)
    least = output_rounding(make_inputs(TINY), scale=TINY.scale, band=TINY.band)
    assert least == pytest.approx(2 * float(torch.stack(errors).std(dim=0).max()), rel=0.1)


def test_a_lucky_reference_in_float32_makes_no_right_output_wrong():
    """On few elements standard attention may be right to the last bit; others are off by a few roundings."""
    inputs = make_inputs(TINY)
    references = OutputReferences.of(inputs, TINY.scale, TINY.band)
    lucky = replace(references, naive=references.exact.float())
    ordinary = output_rounding(inputs, scale=TINY.scale, band=TINY.band)  # a largest error is about that
    for off, passes in ((1.5, True), (15, False)):
        assert lucky.compare(references.exact + off * ordinary).report.passes == passes
        assert compare_output(TINY, references.exact + off * ordinary, inputs).report.passes == passes


def test_16_bits_have_no_least_error():
    problem = TINY.with_(dtype="float16")
    references = OutputReferences.of(make_inputs(problem), problem.scale, problem.band)
    error = float((references.naive.double() - references.exact).abs().max())
    assert references.compare(references.exact).report.naive_max_error == error


@pytest.mark.parametrize(
    "changes",
    [{}, {"mask": "causal"}, {"dtype": "bfloat16"}, {"dtype": "float32"}, {"inputs": "large"}, {"q_len": 1}],
    ids=str,
)
def test_the_least_error_is_about_that_of_naive_attention_on_ordinary_problems_or_less(changes):
    """So it allows little more there."""
    problem = tiny(96, 96 if "mask" in changes else 120, head_dim=64).with_(**changes)
    inputs, d_out = make_inputs(problem), make_d_output(problem)
    exact, naive = (
        gradients_by_heads(inputs, d_out, scale=problem.scale, band=problem.band, dtype=dtype)
        for dtype in (torch.float64, inputs[0].dtype)
    )
    outputs = OutputReferences.of(inputs, problem.scale, problem.band)
    assert outputs.least_error < 5 * float((outputs.naive.double() - outputs.exact).abs().max())
    least = gradient_rounding(inputs, d_out, scale=problem.scale, band=problem.band)
    for name, right, reference, floor in zip(("dQ", "dK", "dV"), exact, naive, least, strict=True):
        if problem.inputs == "large" and name == "dV":
            continue  # P from lse is off by the rounding of scores of several hundred
        assert 0 < floor <= 1.2 * float(absolute_error(reference, right).max()), name
