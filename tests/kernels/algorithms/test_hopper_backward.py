"""The backward kernels for Hopper GPUs against float64 for any shape: the sweep, and those for long rows."""

import pytest
import torch

from kernels.oracle.exact import attention_by_rows
from kernels.problem import AttentionProblem
from tests.kernels.algorithms.hopper_backward import (
    MASKS,
    problems_of_all_shapes,
    run_on_hopper,
    tensors_of,
)
from tests.kernels.helpers import assert_gradients_right, on_hopper


@pytest.mark.gpu
@on_hopper
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("mask", list(MASKS))
@pytest.mark.parametrize("head_dim", [40, 64, 96, 128, 136, 256])
def test_gradients_are_right_by_flash_attentions_rule(head_dim, mask, dtype, poisoned):
    for problem in problems_of_all_shapes(head_dim=head_dim, dtype=dtype, **MASKS[mask]):
        assert_gradients_right(problem, run_on_hopper(problem))


@pytest.mark.gpu
@on_hopper
@pytest.mark.parametrize("head_dim", [64, 256])
def test_rows_and_keys_that_nobody_sees_have_zero_gradients(head_dim, poisoned):
    problem = AttentionProblem(
        q_len=300, kv_len=700, head_dim=head_dim, mask="window", window_left=5, window_right=0, q_heads=2
    )
    _, d_key, d_value = run_on_hopper(problem)
    assert not d_key[0, 0, :390].any()
    assert not d_value[0, 0, :390].any()
    d_query, _, _ = run_on_hopper(problem.with_(q_len=700, kv_len=300, mask="causal"))
    assert not d_query[0, 0, :400].any()
    assert d_query.isfinite().all()


@pytest.mark.gpu
@on_hopper
@pytest.mark.parametrize("head_dim", [64, 256])
def test_large_scores_stay_finite_beside_keys_that_do_not_exist(head_dim):
    """Scores of keys past the end are 0, and exp(0 - lse) overflows if all real scores are far below 0."""
    problem = AttentionProblem(q_len=200, kv_len=200, head_dim=head_dim, q_heads=2)
    query = torch.ones((1, 2, 200, head_dim), device="cuda", dtype=torch.float16)
    key, value = -60 * query, torch.randn_like(query)
    out, lse = attention_by_rows(
        query, key, value, scale=problem.scale, band=problem.band, dtype=torch.float32
    )
    assert lse.max() < -400
    gradients = run_on_hopper(problem, (query, key, value, out.half(), lse.float().contiguous(), value))
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.gpu
@on_hopper
@pytest.mark.parametrize("head_dim", [64, 256])
def test_any_strides_and_a_gradient_of_one_number(head_dim):
    problem = AttentionProblem(q_len=300, kv_len=300, head_dim=head_dim, q_heads=4, kv_heads=2, batch=2)
    query, key, value, out, lse, d_out = tensors_of(problem)
    apart = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (query, key, value, out, d_out)]
    expected = run_on_hopper(problem, (query, key, value, out, lse, d_out))
    got = run_on_hopper(problem, (*apart[:4], lse, apart[4]))
    assert torch.equal(got[1], expected[1])
    assert torch.equal(got[2], expected[2])
    assert head_dim == 64 or torch.equal(got[0], expected[0])
    one = torch.ones((), device="cuda", dtype=torch.float16)
    got = run_on_hopper(problem, (query, key, value, out, lse, one.expand_as(out)))
    expected = run_on_hopper(problem, (query, key, value, out, lse, torch.ones_like(out)))
    assert torch.equal(got[2], expected[2])
