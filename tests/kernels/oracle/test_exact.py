"""The references against torch's own attention."""

import pytest
import torch
import torch.nn.functional as F

from kernels.oracle.exact import attention_by_rows, gradients_by_heads
from kernels.oracle.naive import naive_attention
from kernels.problem.inputs import make_d_output, make_inputs
from tests.kernels.helpers import tiny
from tests.kernels.oracle.intermediates import oracle

PROBLEMS = [tiny(20, 33, dtype="float32")]
PROBLEMS += [PROBLEMS[0].with_(mask="causal", q_heads=4, kv_heads=2, batch=2)]
of_both = pytest.mark.parametrize("problem", PROBLEMS, ids=["full", "causal-grouped"])


def arguments(problem):
    return {"scale": problem.scale, "band": problem.band}


def outputs(problem, inputs):
    """By every reference."""
    yield naive_attention(*inputs, **arguments(problem))
    yield oracle(*inputs, **arguments(problem)).output
    yield attention_by_rows(*inputs, **arguments(problem), dtype=torch.float64)[0]


@of_both
def test_every_reference_agrees_with_torch_in_float64_also_in_chunks_of_rows(problem, monkeypatch):
    from torch.nn.attention.bias import causal_lower_right  # loads torch.compile

    inputs = [tensor.double() for tensor in make_inputs(problem)]
    mask = causal_lower_right(problem.q_len, problem.kv_len) if problem.is_causal else None
    expected = F.scaled_dot_product_attention(*inputs, attn_mask=mask, enable_gqa=True)
    for chunk in (1 << 28, 8 * problem.kv_len * 3):
        monkeypatch.setattr("kernels.oracle.exact.CHUNK_BYTES", chunk)
        for got in outputs(problem, inputs):
            torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@of_both
def test_gradients_agree_with_autograd_in_float64(problem):
    inputs = [tensor.double().requires_grad_() for tensor in make_inputs(problem)]
    d_out = make_d_output(problem)
    expected = torch.autograd.grad(naive_attention(*inputs, **arguments(problem)), inputs, d_out.double())
    got = gradients_by_heads(make_inputs(problem), d_out, **arguments(problem), dtype=torch.float64)
    torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-12)


def test_references_give_zero_and_minus_infinity_to_rows_without_a_key():
    problem = tiny(9, 4, mask="causal", dtype="float32")
    inputs = make_inputs(problem)
    for result in outputs(problem, inputs):
        assert (result[0, 0, :5] == 0).all()
        assert torch.isfinite(result).all()
    _, lse = attention_by_rows(*inputs, **arguments(problem), dtype=torch.float64)
    assert (lse[0, 0, :5] == float("-inf")).all()
