"""_attn_fwd by the rule of FlashAttention's tests: some cases in the interpreter, the whole list on a GPU."""

import itertools

import pytest
import torch

from kernels.check.case.cases import TRUSTED_CAUSAL_SHAPES, TRUSTED_SHAPES
from kernels.device.runtime import DEVICE
from kernels.oracle.exact import attention_by_rows
from kernels.oracle.rule import compare_lse, compare_output
from kernels.problem import INPUTS, AttentionProblem
from kernels.problem.inputs import make_inputs
from tests.kernels.helpers import SMALL_SHAPES, problem_id, run_forward


def assert_right(problem):
    inputs = make_inputs(problem, DEVICE)
    out, lse = run_forward(problem, inputs)
    report = compare_output(problem, out, inputs).report
    assert report.passes, report
    exact, in_float32 = (
        attention_by_rows(*inputs, scale=problem.scale, band=problem.band, dtype=dtype)[1]
        for dtype in (torch.float64, torch.float32)
    )
    report = compare_lse(lse, exact, in_float32).report
    assert report.passes, report


SMALL = [
    AttentionProblem(
        q_len=q_len,
        kv_len=kv_len,
        head_dim=head_dim,
        dtype=dtype,
        mask=mask,
        block_m=32,
        block_n=16,
        window_left=9,
        window_right=4,
    )
    for (q_len, kv_len), mask, (dtype, head_dim) in itertools.product(
        SMALL_SHAPES, ("full", "causal", "window"), (("float16", 64), ("bfloat16", 40), ("float32", 17))
    )
]


@pytest.mark.parametrize("problem", SMALL, ids=problem_id)
def test_forward_is_right(problem, poisoned):
    assert_right(problem)


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_forward_is_right_for_every_input_distribution(inputs, dtype, poisoned):
    assert_right(
        AttentionProblem(
            q_len=100,
            kv_len=130,
            head_dim=32,
            dtype=dtype,
            mask="causal",
            block_m=32,
            block_n=32,
            inputs=inputs,
        )
    )


@pytest.mark.parametrize("block", [4, 8])
def test_tiles_below_the_tensor_cores_size_are_right(block, poisoned):
    assert_right(
        AttentionProblem(q_len=21, kv_len=19, head_dim=16, block_m=block, block_n=block, mask="causal")
    )


def test_batch_and_grouped_heads_are_right(poisoned):
    assert_right(
        AttentionProblem(
            batch=2, q_heads=6, kv_heads=2, q_len=20, kv_len=36, head_dim=16, block_m=16, block_n=16
        )
    )


def test_large_scores_overflow_naive_exponentials_but_not_the_kernel(poisoned):
    problem = AttentionProblem(q_len=32, kv_len=64, head_dim=64, block_m=32, block_n=32, inputs="large")
    query, key, _ = make_inputs(problem)
    scores = (query.float() @ key.float().transpose(-1, -2)) * problem.scale
    assert torch.exp(scores).isinf().any()
    assert run_forward(problem)[0].isfinite().all()


@pytest.mark.parametrize("layout", ["heads_last", "every_second", "transposed", "expanded"])
def test_any_strides_without_copies(layout, poisoned):
    problem = AttentionProblem(
        batch=2, q_heads=2, kv_heads=2, q_len=24, kv_len=24, head_dim=16, block_m=16, block_n=16
    )
    plain = make_inputs(problem, DEVICE)
    if layout == "heads_last":  # (batch, length, heads, head_dim) in memory
        strided = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in plain]
    elif layout == "every_second":  # a view of every second element: no descriptor can address it
        strided = [
            torch.stack([tensor, torch.full_like(tensor, float("nan"))], dim=-1)[..., 0] for tensor in plain
        ]
    elif layout == "transposed":  # columns far apart
        strided = [tensor.transpose(2, 3).contiguous().transpose(2, 3) for tensor in plain]
    else:  # every head the same memory
        plain = [tensor[:, :1].expand(-1, 2, -1, -1) for tensor in plain]
        strided, plain = plain, [tensor.contiguous() for tensor in plain]
    assert not all(tensor.is_contiguous() for tensor in strided)
    for got, expected in zip(run_forward(problem, strided), run_forward(problem, plain), strict=True):
        assert torch.equal(got, expected)


def test_rows_without_a_key_give_zero_and_minus_infinity(poisoned):
    out, lse = run_forward(
        AttentionProblem(q_len=50, kv_len=20, head_dim=16, mask="causal", block_m=16, block_n=16)
    )
    assert torch.equal(out[0, 0, :30], torch.zeros_like(out[0, 0, :30]))
    assert (lse[0, 0, :30] == float("-inf")).all()
    assert torch.isfinite(lse[0, 0, 30:]).all()


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("where", ["query", "key", "value"])
def test_infinities_and_nan_give_what_float64_gives(value, where, poisoned):
    problem = AttentionProblem(q_len=20, kv_len=36, head_dim=16, block_m=16, block_n=16)
    inputs = [tensor.abs() for tensor in make_inputs(problem, DEVICE)]
    inputs[("query", "key", "value").index(where)][0, 0, 3] = value
    out, _ = run_forward(problem, inputs)
    exact, _ = attention_by_rows(*inputs, scale=problem.scale, band=problem.band, dtype=torch.float64)
    assert torch.equal(out.isnan(), exact.isnan())
    assert torch.equal(out.isinf(), exact.isinf())


FLASH_ATTENTION_LIST = [
    AttentionProblem(
        q_len=q_len,
        kv_len=kv_len,
        head_dim=head_dim,
        dtype=dtype,
        mask=mask,
        batch=2,
        q_heads=6,
        kv_heads=kv_heads,
        block_m=64,
        block_n=64,
    )
    for mask in ("full", "causal")
    for q_len, kv_len in TRUSTED_SHAPES + (TRUSTED_CAUSAL_SHAPES if mask == "causal" else ())
    for head_dim in (16, 32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 256)
    for dtype in ("float16", "bfloat16")
    for kv_heads in ((6, 2, 1) if head_dim == 64 else (6,))
]


@pytest.mark.gpu
@pytest.mark.parametrize("problem", FLASH_ATTENTION_LIST, ids=problem_id)
def test_flash_attentions_own_list_is_right(problem, poisoned):
    assert_right(problem)


@pytest.mark.gpu
@pytest.mark.parametrize("mask", ["full", "causal"])
@pytest.mark.parametrize("head_dim", [16, 40, 64, 128])
def test_float32_is_right_on_the_gpu(head_dim, mask, poisoned):
    assert_right(
        AttentionProblem(
            q_len=300, kv_len=333, head_dim=head_dim, dtype="float32", mask=mask, block_m=64, block_n=32
        )
    )


@pytest.mark.gpu
@pytest.mark.parametrize("block_m", [4, 16, 32, 64, 128])
@pytest.mark.parametrize("block_n", [4, 16, 32, 64, 128])
def test_every_tile_size_is_right_on_the_gpu(block_m, block_n, poisoned):
    assert_right(
        AttentionProblem(q_len=200, kv_len=328, head_dim=64, mask="causal", block_m=block_m, block_n=block_n)
    )
