"""The backward sweep for Hopper GPUs: when it runs, and what its results depend on."""

import pytest
import torch

from kernels.algorithms import dispatch
from kernels.algorithms.flash3_backward.kernel import _attn_bwd_hopper
from kernels.algorithms.flash3_backward.launch import flash_backward_hopper, should_run
from kernels.attention.flash_attention import flash_attention
from kernels.device.runtime import BACKEND, DEVICE
from kernels.primitives.signature import forget
from kernels.primitives.tuning import HOPPER_KERNEL
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs
from tests.kernels.algorithms.hopper_backward import (
    HEADS,
    run_on_hopper,
    tensors_of,
)
from tests.kernels.helpers import assert_gradients_right, on_hopper


@pytest.mark.skipif(BACKEND == "cuda", reason="says what happens without a GPU")
def test_without_a_hopper_gpu_it_is_not_used():
    query = torch.zeros((1, 1, 64, 64), dtype=torch.float16)
    assert not should_run(query, query, query)
    assert not HOPPER_KERNEL


@pytest.mark.gpu
@on_hopper
@pytest.mark.parametrize("mask", ["full", "causal", "window"])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_250_repeats_differ_by_the_order_of_the_sum_of_dq_alone(head_dim, mask):
    """Whole key tiles; a last one that is not whole; shared key heads, and tiles that either bound cuts."""
    kv_len = 1152 if mask == "full" else 1111
    heads = HEADS | ({"kv_heads": 2} if mask == "window" else {})
    problem = AttentionProblem(q_len=1111, kv_len=kv_len, head_dim=head_dim, batch=4, **heads, mask=mask)
    tensors = tensors_of(problem)
    first = run_on_hopper(problem, tensors)
    assert_gradients_right(problem, first)
    for _ in range(250):
        d_query, d_key, d_value = run_on_hopper(problem, tensors)
        assert torch.equal(d_key, first[1])
        assert torch.equal(d_value, first[2])
        # Float32 sums in another order now and then round to the neighbouring number in float16.
        difference = (d_query.float() - first[0].float()).norm() / first[0].float().norm()
        assert difference < torch.finfo(torch.float16).eps / 8


@pytest.mark.gpu
@on_hopper
def test_the_public_call_uses_it_unless_results_must_be_deterministic(monkeypatch):
    used = []
    forget()  # a call that was written down before would not come by the launcher
    monkeypatch.setattr(
        dispatch.sweep,
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

    assert_gradients_right(problem, gradients())
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
    run_on_hopper(AttentionProblem(q_len=256, kv_len=256, **sizes))
    before = sum(len(compiled[0]) for compiled in _attn_bwd_hopper.device_caches.values())
    for q_len, kv_len, heads in ((1, 128, 1), (3, 384, 4), (300, 512, 16), (1024, 1024, 1)):
        run_on_hopper(
            AttentionProblem(
                q_len=q_len, kv_len=kv_len, **sizes | {"q_heads": heads, "kv_heads": 1, "batch": heads}
            )
        )
    assert sum(len(compiled[0]) for compiled in _attn_bwd_hopper.device_caches.values()) == before
