"""The backward sweep for Hopper GPUs against float64 for any shape, and when it runs."""

import pytest
import torch

from kernels.algorithms.backward import choice
from kernels.algorithms.flash3.launch import can_run_hopper
from kernels.algorithms.flash3_backward.kernel import _attn_bwd_hopper
from kernels.algorithms.flash3_backward.launch import flash_backward_hopper, should_run
from kernels.attention.flash_attention import flash_attention
from kernels.device.runtime import BACKEND, DEVICE
from kernels.oracle.exact import attention_by_rows
from kernels.primitives.signature import forget
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


def run_sweep(problem, tensors=None):
    tensors = tensors or tensors_of(problem)
    assert can_run_hopper(*tensors[:3])
    return flash_backward_hopper(*tensors, band=problem.band, scale=problem.scale)


@pytest.mark.skipif(BACKEND == "cuda", reason="says what happens without a GPU")
def test_without_a_hopper_gpu_it_is_not_used():
    query = torch.zeros((1, 1, 64, 64), dtype=torch.float16)
    assert not should_run(query, query, query)
    assert not choice.HOPPER_KERNEL


@pytest.mark.gpu
@on_hopper
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("mask", list(MASKS))
@pytest.mark.parametrize("head_dim", [40, 64, 96, 128])
def test_gradients_are_right_by_flash_attentions_rule(head_dim, mask, dtype, poisoned):
    for problem in problems_of_all_shapes(head_dim=head_dim, dtype=dtype, **MASKS[mask]):
        assert_right(problem, run_sweep(problem))


@pytest.mark.gpu
@on_hopper
@pytest.mark.parametrize("mask", ["full", "causal"])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_250_repeats_differ_by_the_order_of_the_sum_of_dq_alone(head_dim, mask):
    kv_len = 1152 if mask == "full" else 1111  # whole key tiles without a mask: dQ a step behind
    problem = AttentionProblem(q_len=1111, kv_len=kv_len, head_dim=head_dim, batch=4, **HEADS, mask=mask)
    tensors = tensors_of(problem)
    first = run_sweep(problem, tensors)
    assert_right(problem, first)
    for _ in range(250):
        d_query, d_key, d_value = run_sweep(problem, tensors)
        assert torch.equal(d_key, first[1])
        assert torch.equal(d_value, first[2])
        # Float32 sums in another order now and then round to the neighbouring number in float16.
        difference = (d_query.float() - first[0].float()).norm() / first[0].float().norm()
        assert difference < torch.finfo(torch.float16).eps / 8


@pytest.mark.gpu
@on_hopper
def test_rows_and_keys_that_nobody_sees_have_zero_gradients(poisoned):
    problem = AttentionProblem(
        q_len=300, kv_len=700, head_dim=64, mask="window", window_left=5, window_right=0, q_heads=2
    )
    _, d_key, d_value = run_sweep(problem)
    assert not d_key[0, 0, :390].any()
    assert not d_value[0, 0, :390].any()
    d_query, _, _ = run_sweep(problem.with_(q_len=700, kv_len=300, mask="causal"))
    assert not d_query[0, 0, :400].any()
    assert d_query.isfinite().all()


@pytest.mark.gpu
@on_hopper
def test_large_scores_stay_finite_beside_keys_that_do_not_exist():
    """Scores of keys past the end are 0, and exp(0 - lse) overflows if all real scores are far below 0."""
    problem = AttentionProblem(q_len=200, kv_len=200, head_dim=64, q_heads=2)
    query = torch.ones((1, 2, 200, 64), device="cuda", dtype=torch.float16)
    key, value = -60 * query, torch.randn_like(query)
    out, lse = attention_by_rows(
        query, key, value, scale=problem.scale, band=problem.band, dtype=torch.float32
    )
    assert lse.max() < -400
    gradients = run_sweep(problem, (query, key, value, out.half(), lse.float().contiguous(), value))
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.gpu
@on_hopper
def test_any_strides_and_a_gradient_of_one_number():
    problem = AttentionProblem(q_len=300, kv_len=300, head_dim=64, q_heads=4, kv_heads=2, batch=2)
    query, key, value, out, lse, d_out = tensors_of(problem)
    apart = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (query, key, value, out, d_out)]
    expected = run_sweep(problem, (query, key, value, out, lse, d_out))
    got = run_sweep(problem, (*apart[:4], lse, apart[4]))
    assert torch.equal(got[1], expected[1])
    assert torch.equal(got[2], expected[2])
    one = torch.ones((), device="cuda", dtype=torch.float16)
    got = run_sweep(problem, (query, key, value, out, lse, one.expand_as(out)))
    expected = run_sweep(problem, (query, key, value, out, lse, torch.ones_like(out)))
    assert torch.equal(got[2], expected[2])


@pytest.mark.gpu
@on_hopper
def test_the_public_call_uses_it_unless_results_must_be_deterministic(monkeypatch):
    used = []
    forget()  # a call that was written down before would not come by the launcher
    monkeypatch.setattr(
        choice.sweep,
        "flash_backward_hopper",
        lambda *args, **more: used.append(1) or flash_backward_hopper(*args, **more),
    )
    problem = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64, batch=4, **HEADS, mask="causal")
    inputs = [tensor.requires_grad_() for tensor in make_inputs(problem, DEVICE)]
    d_out = make_d_output(problem, DEVICE)

    def gradients(lse_too=False):
        out, lse = flash_attention(*inputs, is_causal=True, return_lse=True)
        total = (out * d_out).sum() + (lse.sum() if lse_too else 0)
        return torch.autograd.grad(total, inputs)

    assert_right(problem, gradients())
    assert len(used) == 1
    of_both = gradients(lse_too=True)
    torch.use_deterministic_algorithms(True)
    try:
        plain = [gradients() for _ in range(3)]
        plain_of_both = gradients(lse_too=True)
    finally:
        torch.use_deterministic_algorithms(False)
    assert len(used) == 2
    repeated = [gradients() for _ in range(3)]  # the second call is written down, the third repeats it
    assert len(used) == 3
    for got, expected in zip(repeated[2], plain[0], strict=True):
        size = float(expected.abs().max())
        torch.testing.assert_close(got, expected, rtol=0, atol=4 * torch.finfo(got.dtype).eps * size)
    assert all(torch.equal(a, b) for run in plain[1:] for a, b in zip(run, plain[0], strict=True))
    for got, expected in zip(of_both, plain_of_both, strict=True):
        size = float(expected.abs().max())
        torch.testing.assert_close(got, expected, rtol=0, atol=4 * torch.finfo(got.dtype).eps * size)


@pytest.mark.gpu
@on_hopper
def test_one_compiled_kernel_serves_all_shapes():
    sizes = {"head_dim": 64, "q_heads": 2, "kv_heads": 2}
    run_sweep(AttentionProblem(q_len=256, kv_len=256, **sizes))
    before = sum(len(compiled[0]) for compiled in _attn_bwd_hopper.device_caches.values())
    for q_len, kv_len, heads in ((1, 128, 1), (3, 384, 4), (300, 512, 16), (1024, 1024, 1)):
        run_sweep(
            AttentionProblem(
                q_len=q_len, kv_len=kv_len, **sizes | {"q_heads": heads, "kv_heads": 1, "batch": heads}
            )
        )
    assert sum(len(compiled[0]) for compiled in _attn_bwd_hopper.device_caches.values()) == before
