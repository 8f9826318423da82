"""The backward kernels for Hopper with head_dim over 128: right for any shape, and when they run."""

import pytest
import torch

from kernels.algorithms.backward import choice
from kernels.algorithms.flash3.launch import can_run_hopper
from kernels.algorithms.flash3_backward_wide.dk_dv import _attn_bwd_hopper_dk_dv
from kernels.algorithms.flash3_backward_wide.dq import _attn_bwd_hopper_dq
from kernels.algorithms.flash3_backward_wide.launch import flash_backward_wide, should_run
from kernels.attention.flash_attention import flash_attention
from kernels.device.runtime import BACKEND, DEVICE
from kernels.oracle.exact import attention_by_rows
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs
from tests.kernels.algorithms.hopper_backward import (
    HEADS,
    MASKS,
    assert_right,
    on_hopper,
    problems_of_all_shapes,
    tensors_of,
)


def run_wide(problem, tensors=None):
    tensors = tensors or tensors_of(problem)
    assert can_run_hopper(*tensors[:3])
    return flash_backward_wide(*tensors, band=problem.band, scale=problem.scale)


@pytest.mark.skipif(BACKEND == "cuda", reason="says what happens without a GPU")
def test_without_a_hopper_gpu_they_are_not_used():
    query = torch.zeros((1, 1, 64, 256), dtype=torch.float16)
    assert not should_run(query, query, query)
    assert choice.package_for(query, query, query) == choice.PLAIN


@pytest.mark.gpu
@on_hopper
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("mask", list(MASKS))
@pytest.mark.parametrize("head_dim", [136, 256])
def test_gradients_are_right_by_flash_attentions_rule(head_dim, mask, dtype, poisoned):
    for problem in problems_of_all_shapes(head_dim=head_dim, dtype=dtype, **MASKS[mask]):
        assert_right(problem, run_wide(problem))


@pytest.mark.gpu
@on_hopper
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_250_repeats_give_the_same_bits(mask):
    problem = AttentionProblem(q_len=1111, kv_len=1111, head_dim=256, batch=4, **HEADS, mask=mask)
    tensors = tensors_of(problem)
    first = run_wide(problem, tensors)
    assert_right(problem, first)
    for _ in range(250):
        assert all(torch.equal(a, b) for a, b in zip(run_wide(problem, tensors), first, strict=True))


@pytest.mark.gpu
@on_hopper
def test_rows_and_keys_that_nobody_sees_have_zero_gradients(poisoned):
    problem = AttentionProblem(
        q_len=300, kv_len=700, head_dim=256, mask="window", window_left=5, window_right=0, q_heads=2
    )
    _, d_key, d_value = run_wide(problem)
    assert not d_key[0, 0, :390].any()
    assert not d_value[0, 0, :390].any()
    d_query, _, _ = run_wide(problem.with_(q_len=700, kv_len=300, mask="causal"))
    assert not d_query[0, 0, :400].any()
    assert d_query.isfinite().all()


@pytest.mark.gpu
@on_hopper
def test_large_scores_stay_finite_beside_keys_that_do_not_exist():
    """Scores of keys past the end are 0, and exp(0 - lse) overflows if all real scores are far below 0."""
    problem = AttentionProblem(q_len=200, kv_len=200, head_dim=256, q_heads=2)
    query = torch.ones((1, 2, 200, 256), device="cuda", dtype=torch.float16)
    key, value = -60 * query, torch.randn_like(query)
    out, lse = attention_by_rows(
        query, key, value, scale=problem.scale, band=problem.band, dtype=torch.float32
    )
    assert lse.max() < -400
    gradients = run_wide(problem, (query, key, value, out.half(), lse.float().contiguous(), value))
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.gpu
@on_hopper
def test_any_strides_and_a_gradient_of_one_number():
    problem = AttentionProblem(q_len=300, kv_len=300, head_dim=256, q_heads=4, kv_heads=2, batch=2)
    query, key, value, out, lse, d_out = tensors_of(problem)
    apart = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (query, key, value, out, d_out)]
    expected = run_wide(problem, (query, key, value, out, lse, d_out))
    got = run_wide(problem, (*apart[:4], lse, apart[4]))
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
    one = torch.ones((), device="cuda", dtype=torch.float16)
    got = run_wide(problem, (query, key, value, out, lse, one.expand_as(out)))
    expected = run_wide(problem, (query, key, value, out, lse, torch.ones_like(out)))
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


@pytest.mark.gpu
@on_hopper
def test_the_public_call_uses_them_also_if_results_must_be_deterministic():
    problem = AttentionProblem(q_len=1024, kv_len=1024, head_dim=256, batch=4, **HEADS, mask="causal")
    inputs = [tensor.requires_grad_() for tensor in make_inputs(problem, DEVICE)]
    assert choice.package_for(*inputs) == choice.WIDE

    def gradients(weight_of_lse):
        out, lse = flash_attention(*inputs, is_causal=True, return_lse=True)
        total = (out * make_d_output(problem, DEVICE)).sum() + weight_of_lse * lse.sum()
        return torch.autograd.grad(total, inputs)

    assert_right(problem, gradients(0.0))
    with_lse = gradients(1.0)
    torch.use_deterministic_algorithms(True)
    try:
        assert choice.package_for(*inputs) == choice.WIDE
        again = gradients(1.0)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(again, with_lse, strict=True))
    assert not torch.equal(with_lse[0], gradients(0.0)[0])


@pytest.mark.gpu
@on_hopper
def test_one_compiled_kernel_serves_all_shapes():
    def versions():
        kernels = _attn_bwd_hopper_dk_dv, _attn_bwd_hopper_dq
        return [sum(len(each[0]) for each in kernel.device_caches.values()) for kernel in kernels]

    sizes = {"head_dim": 256, "q_heads": 2, "kv_heads": 2}
    run_wide(AttentionProblem(q_len=256, kv_len=256, **sizes))
    before = versions()
    for q_len, kv_len, heads in ((1, 128, 1), (3, 384, 4), (300, 512, 16), (1024, 1024, 1)):
        run_wide(
            AttentionProblem(
                q_len=q_len, kv_len=kv_len, **sizes | {"q_heads": heads, "kv_heads": 1, "batch": heads}
            )
        )
    assert versions() == before
