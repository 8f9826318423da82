"""The backward kernels for Hopper with head_dim over 128: when they run, and that nothing changes a bit."""

import pytest
import torch

from kernels.algorithms import dispatch
from kernels.algorithms.flash3_backward_wide.dk_dv import _attn_bwd_hopper_dk_dv
from kernels.algorithms.flash3_backward_wide.dq import _attn_bwd_hopper_dq
from kernels.algorithms.flash3_backward_wide.launch import should_run
from kernels.attention.flash_attention import flash_attention
from kernels.device.runtime import BACKEND, DEVICE
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs
from tests.kernels.algorithms.hopper_backward import (
    HEADS,
    run_on_hopper,
    tensors_of,
)
from tests.kernels.helpers import assert_gradients_right, on_hopper


@pytest.mark.skipif(BACKEND == "cuda", reason="says what happens without a GPU")
def test_without_a_hopper_gpu_they_are_not_used():
    query = torch.zeros((1, 1, 64, 256), dtype=torch.float16)
    assert not should_run(query, query, query)
    assert dispatch.package_for(query, query, query) == dispatch.PLAIN


@pytest.mark.gpu
@on_hopper
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_250_repeats_give_the_same_bits(mask):
    problem = AttentionProblem(q_len=1111, kv_len=1111, head_dim=256, batch=4, **HEADS, mask=mask)
    tensors = tensors_of(problem)
    first = run_on_hopper(problem, tensors)
    assert_gradients_right(problem, first)
    for _ in range(250):
        assert all(torch.equal(a, b) for a, b in zip(run_on_hopper(problem, tensors), first, strict=True))


@pytest.mark.gpu
@on_hopper
def test_the_public_call_uses_them_also_if_results_must_be_deterministic():
    problem = AttentionProblem(q_len=1024, kv_len=1024, head_dim=256, batch=4, **HEADS, mask="causal")
    inputs = [tensor.requires_grad_() for tensor in make_inputs(problem, DEVICE)]
    assert dispatch.package_for(*inputs) == dispatch.WIDE

    def gradients(weight_of_lse):
        out, lse = flash_attention(*inputs, is_causal=True, return_lse=True)
        total = (out * make_d_output(problem, DEVICE)).sum() + weight_of_lse * lse.sum()
        return torch.autograd.grad(total, inputs)

    assert_gradients_right(problem, gradients(0.0))
    with_lse = gradients(1.0)
    torch.use_deterministic_algorithms(True)
    try:
        assert dispatch.package_for(*inputs) == dispatch.WIDE
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
    run_on_hopper(AttentionProblem(q_len=256, kv_len=256, **sizes))
    before = versions()
    for q_len, kv_len, heads in ((1, 128, 1), (3, 384, 4), (300, 512, 16), (1024, 1024, 1)):
        run_on_hopper(
            AttentionProblem(
                q_len=q_len, kv_len=kv_len, **sizes | {"q_heads": heads, "kv_heads": 1, "batch": heads}
            )
        )
    assert versions() == before
