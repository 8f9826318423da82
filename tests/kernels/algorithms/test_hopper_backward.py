"""The backward kernels for Hopper GPUs: right for any shape, when they run, and what their traces hold.

With head_dim up to 128 these are the sweep and the kernels around it, over 128 the two for long rows.
"""

import numpy as np
import pytest
import torch

from kernels.algorithms import ALGORITHMS, dispatch, run_traced
from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.flash3.launch import can_run_hopper
from kernels.algorithms.flash3_backward.kernel import _attn_bwd_hopper
from kernels.algorithms.flash3_backward.launch import flash_backward_hopper
from kernels.algorithms.flash3_backward.rows import _attn_bwd_hopper_finish, _attn_bwd_hopper_prepare
from kernels.algorithms.flash3_backward_wide.dk_dv import _attn_bwd_hopper_dk_dv
from kernels.algorithms.flash3_backward_wide.dq import _attn_bwd_hopper_dq
from kernels.algorithms.flash3_backward_wide.launch import flash_backward_wide
from kernels.attention.flash_attention import flash_attention
from kernels.check.case.cases import TRUSTED_CAUSAL_SHAPES, TRUSTED_SHAPES
from kernels.device.runtime import BACKEND, DEVICE
from kernels.oracle.exact import attention_by_rows
from kernels.oracle.rule import judge_trace
from kernels.primitives.tuning import HOPPER_KERNEL
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs
from tests.kernels.helpers import assert_gradients_right, forget, on_hopper

ENTRY = ALGORITHMS["flash3_backward"]
MASKS = {
    "full": {"mask": "full"},
    "causal": {"mask": "causal"},
    "window": {"mask": "window", "window_left": 128, "window_right": 0},
    "both": {"mask": "window", "window_left": 30, "window_right": 17},
    "diagonal": {"mask": "window", "window_left": 0, "window_right": 0},
}
SHAPES = [*TRUSTED_SHAPES, *TRUSTED_CAUSAL_SHAPES, (1, 1), (64, 64), (384, 384), (700, 129)]
of_both = pytest.mark.parametrize("head_dim", [64, 256])


def hopper(test):
    """For a Hopper GPU alone."""
    return pytest.mark.gpu(on_hopper(test))


def problem_of(q_len, kv_len, head_dim, mask="full", q_heads=2, kv_heads=2, **more):
    sizes = {"q_len": q_len, "kv_len": kv_len, "q_heads": q_heads, "kv_heads": kv_heads}
    return AttentionProblem(**sizes, head_dim=head_dim, **MASKS[mask] | more)


def tensors_of(problem):
    """The problem's inputs, O and lse as the forward pass would give them, and dO."""
    query, key, value = make_inputs(problem, DEVICE)
    out, lse = attention_by_rows(
        query, key, value, scale=problem.scale, band=problem.band, dtype=torch.float32
    )
    return query, key, value, out.to(query.dtype), lse.float().contiguous(), make_d_output(problem, DEVICE)


def run_on_hopper(problem, tensors=None):
    """dQ, dK and dV by the kernels for the problem's head_dim."""
    tensors = tensors or tensors_of(problem)
    assert can_run_hopper(*tensors[:3])
    run = flash_backward_wide if problem.head_dim > 128 else flash_backward_hopper
    return run(BackwardInputs(*tensors, problem.band, problem.scale))


@pytest.mark.skipif(BACKEND == "cuda", reason="says what happens without a GPU")
@of_both
def test_without_a_hopper_gpu_they_are_not_used(head_dim):
    query = torch.zeros((1, 1, 64, head_dim), dtype=torch.float16)
    assert dispatch.package_for(query, query, query) == dispatch.PLAIN
    assert not HOPPER_KERNEL


@hopper
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("mask", list(MASKS))
@pytest.mark.parametrize("head_dim", [40, 64, 96, 128, 136, 256])
def test_gradients_are_right_by_flash_attentions_rule(head_dim, mask, dtype, poisoned):
    for lengths in SHAPES:
        for batch, *heads in ((2, 2, 2), (1, 4, 2), (1, 3, 1)):
            problem = problem_of(*lengths, head_dim, mask, *heads, batch=batch, dtype=dtype)
            assert_gradients_right(problem, run_on_hopper(problem))


@hopper
@of_both
def test_rows_and_keys_that_nobody_sees_have_zero_gradients(head_dim, poisoned):
    window = {"mask": "window", "window_left": 5, "window_right": 0}
    _, d_key, d_value = run_on_hopper(problem_of(300, 700, head_dim, **window))
    assert not d_key[0, 0, :390].any()
    assert not d_value[0, 0, :390].any()
    d_query, _, _ = run_on_hopper(problem_of(700, 300, head_dim, "causal"))
    assert not d_query[0, 0, :400].any()
    assert d_query.isfinite().all()


@hopper
@of_both
def test_large_scores_stay_finite_beside_keys_that_do_not_exist(head_dim):
    """Scores of keys past the end are 0, and exp(0 - lse) overflows if all real scores are far below 0."""
    problem = problem_of(200, 200, head_dim)
    query = torch.ones((1, 2, 200, head_dim), device="cuda", dtype=torch.float16)
    key, value = -60 * query, torch.randn_like(query)
    out, lse = attention_by_rows(
        query, key, value, scale=problem.scale, band=problem.band, dtype=torch.float32
    )
    assert lse.max() < -400
    gradients = run_on_hopper(problem, (query, key, value, out.half(), lse.float().contiguous(), value))
    assert all(gradient.isfinite().all() for gradient in gradients)


@hopper
@of_both
def test_any_strides_and_a_gradient_of_one_number(head_dim):
    problem = problem_of(300, 300, head_dim, q_heads=4, batch=2)
    query, key, value, out, lse, d_out = tensors_of(problem)
    apart = [t.transpose(1, 2).contiguous().transpose(1, 2) for t in (query, key, value, out, d_out)]
    expected = run_on_hopper(problem, (query, key, value, out, lse, d_out))
    got = run_on_hopper(problem, (*apart[:4], lse, apart[4]))
    assert all(map(torch.equal, got[1:], expected[1:]))
    assert head_dim == 64 or torch.equal(got[0], expected[0])
    one = torch.ones((), device="cuda", dtype=torch.float16)
    got = run_on_hopper(problem, (query, key, value, out, lse, one.expand_as(out)))
    expected = run_on_hopper(problem, (query, key, value, out, lse, torch.ones_like(out)))
    assert torch.equal(got[2], expected[2])


@hopper
@pytest.mark.parametrize(
    ("head_dim", "mask"), [(64, "full"), (64, "causal"), (128, "window"), (256, "full"), (256, "causal")]
)
def test_250_repeats_give_the_same_bits_but_for_the_order_of_the_sweeps_sum_of_dq(head_dim, mask):
    """Whole key tiles; a last one that is not whole; shared key heads, and tiles that either bound cuts."""
    kv_len, kv_heads = 1152 if mask == "full" else 1111, 2 if mask == "window" else 8
    problem = problem_of(1111, kv_len, head_dim, mask, 8, kv_heads, batch=4)
    tensors = tensors_of(problem)
    first = run_on_hopper(problem, tensors)
    assert_gradients_right(problem, first)
    for _ in range(250):
        got = run_on_hopper(problem, tensors)
        assert all(map(torch.equal, got[1:], first[1:]))
        # Float32 sums in another order now and then round to the neighbouring number in float16.
        difference = (got[0].float() - first[0].float()).norm() / first[0].float().norm()
        assert difference <= (0 if head_dim > 128 else torch.finfo(torch.float16).eps / 8)


@hopper
@of_both
def test_the_public_call_uses_them_and_not_the_sweep_if_results_must_be_deterministic(head_dim):
    problem = problem_of(1024, 1024, head_dim, "causal", 8, 8, batch=4)
    inputs = [tensor.requires_grad_() for tensor in make_inputs(problem, DEVICE)]
    assert dispatch.package_for(*inputs) == (dispatch.WIDE if head_dim > 128 else dispatch.SWEEP)
    forget()

    def gradients(weight_of_lse=0.0):
        out, lse = flash_attention(*inputs, is_causal=True, return_lse=True)
        total = (out * make_d_output(problem, DEVICE)).sum() + weight_of_lse * lse.sum()
        return torch.autograd.grad(total, inputs)

    ours, of_lse_too = [gradients() for _ in range(3)], gradients(1.0)  # the third repeats the second
    torch.use_deterministic_algorithms(True)
    try:
        assert dispatch.package_for(*inputs) == (dispatch.WIDE if head_dim > 128 else dispatch.PLAIN)
        same_bits, same_of_lse_too = [gradients() for _ in range(3)], gradients(1.0)
    finally:
        torch.use_deterministic_algorithms(False)
    assert_gradients_right(problem, ours[0])
    assert all(all(map(torch.equal, run, same_bits[0])) for run in same_bits[1:])
    for run, expected in ((ours[2], same_bits[0]), (of_lse_too, same_of_lse_too)):
        for got, exact in zip(run, expected, strict=True):
            atol = 0 if head_dim > 128 else 4 * torch.finfo(got.dtype).eps * float(exact.abs().max())
            torch.testing.assert_close(got, exact, rtol=0, atol=atol)
    assert not torch.equal(of_lse_too[0], ours[0][0])


@hopper
@of_both
def test_one_compiled_kernel_serves_all_shapes(head_dim):
    wide = (_attn_bwd_hopper_dk_dv, _attn_bwd_hopper_dq)
    kernels = (
        _attn_bwd_hopper_prepare,
        *(wide if head_dim > 128 else (_attn_bwd_hopper, _attn_bwd_hopper_finish)),
    )

    def versions():
        return [sum(len(each[0]) for each in kernel.device_caches.values()) for kernel in kernels]

    run_on_hopper(problem_of(256, 256, head_dim))
    before = versions()
    for q_len, kv_len, heads in ((1, 128, 1), (3, 384, 4), (300, 512, 16), (1024, 1024, 1)):
        run_on_hopper(problem_of(q_len, kv_len, head_dim, "full", heads, 1, batch=heads))
    assert versions() == before


TRACED = {
    "full": problem_of(256, 256, 64),
    "full-long-rows": problem_of(256, 384, 128),
    "causal-ragged-gqa": problem_of(130, 200, 96, "causal", 4, 2, batch=2),
    "rows-without-a-key": problem_of(300, 100, 40, "causal", 1, 1),
    "keys-without-a-row": problem_of(100, 400, 128, "both", 1, 1, dtype="bfloat16"),
}


def by_tile(trace, kernel):
    """Steps of a kernel by head and tiles; those that only load or store keys are left out."""
    found = np.flatnonzero((trace.kernel == trace.kernels.index(kernel)) & (trace.q_tile >= 0))
    columns = (trace.batch_head, trace.q_tile, trace.kv_tile)
    places = zip(*(each[found].tolist() for each in columns), strict=True)
    return dict(zip(places, found, strict=True))


@hopper
@pytest.mark.parametrize("name", TRACED)
def test_the_traced_sweep_has_the_formulas_bytes_the_plain_kernels_steps_and_the_bits_of_a_plain_run(name):
    problem = ENTRY.with_own_tiles(TRACED[name])
    trace, plain = run_traced(problem, ENTRY.name), run_traced(problem, "backward")
    assert judge_trace(trace).passes
    moved = trace.tensor_bytes_read.sum(axis=1) + trace.tensor_bytes_written.sum(axis=1)
    for number, kernel in enumerate(ENTRY.kernels):
        assert moved[trace.kernel == number].sum() == kernel.requested_bytes(problem), kernel.name
    ours, theirs = by_tile(trace, "_attn_bwd_hopper"), by_tile(plain, "_attn_bwd_dk_dv")
    assert ours.keys() == theirs.keys()
    atol = {"float16": 2e-3, "bfloat16": 2e-2}[problem.dtype]
    for place, step in ours.items():
        for field in ("row_share", "acc_dk", "acc_dv"):
            got, wanted = getattr(trace, field)[step], getattr(plain, field)[theirs[place]]
            np.testing.assert_allclose(got, wanted, rtol=atol, atol=atol * max(1, np.nanmax(np.abs(wanted))))
    inputs = make_inputs(problem, DEVICE)
    out, lse = (torch.from_numpy(each).to(DEVICE) for each in (trace.output, trace.lse))
    again = (*inputs, out.to(inputs[0].dtype), lse, make_d_output(problem, DEVICE))
    for traced, untraced in zip((trace.d_key, trace.d_value), run_on_hopper(problem, again)[1:], strict=True):
        assert np.array_equal(traced, untraced.float().cpu().numpy())
