"""The forward kernel for Hopper GPUs against float64 for any shape, and its trace."""

import numpy as np
import pytest
import torch

from kernels.algorithms import run_traced
from kernels.algorithms.flash2.entry import requested_bytes as flash2_requested_bytes
from kernels.algorithms.flash3 import run as flash3
from kernels.algorithms.flash3 import work
from kernels.algorithms.flash3.entry import ENTRY
from kernels.algorithms.flash3.kernel import _attn_fwd_hopper
from kernels.algorithms.flash3.launch import can_run_hopper, flash_forward_hopper
from kernels.attention.flash_attention import flash_attention
from kernels.check.case.cases import TRUSTED_CAUSAL_SHAPES, TRUSTED_SHAPES, CheckCase
from kernels.check.judge.run import run_check
from kernels.device.runtime import DEVICE
from kernels.oracle.exact import attention_by_rows
from kernels.oracle.naive import naive_attention
from kernels.oracle.rule import judge_trace
from kernels.primitives.launch import TileConfig
from kernels.problem import AttentionProblem, Band
from kernels.problem.inputs import make_inputs
from kernels.trace.sample import Sample
from tests.kernels.helpers import forget, on_hopper

pytestmark = [pytest.mark.gpu, on_hopper]
SHAPES = [*TRUSTED_SHAPES, *TRUSTED_CAUSAL_SHAPES, (1, 1), (64, 64), (384, 384)]
HEADS = [(2, 2), (6, 3), (4, 1)]
BOUNDS = {
    "full": (None, None),
    "causal": (None, 0),
    "window": (128, 0),
    "both": (30, 17),
    "diagonal": (0, 0),
    "right": (None, 300),
}
CONFIGS = {
    2: TileConfig(128, 128, 12, 2),
    3: TileConfig(192, 128, 16, 2),
    "3 slots": TileConfig(192, 128, 16, 3),
}
"""By the number of warpgroups, or of slots of the rings of K and V."""
WIDE = TileConfig(128, 64, 12, 2)
"""For head_dim over 128."""


def draw(shape, dtype, seed):
    return torch.randn(shape, generator=torch.Generator("cuda").manual_seed(seed), device="cuda", dtype=dtype)


def attend(query, key, value, mask, groups):
    band = Band.of(query.shape[2], key.shape[2], *BOUNDS[mask])
    assert can_run_hopper(query, key, value)
    scale, config = query.shape[3] ** -0.5, WIDE if query.shape[3] > 128 else CONFIGS[groups]
    return flash_forward_hopper(query, key, value, band=band, scale=scale, config=config)[:2]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mask", list(BOUNDS))
@pytest.mark.parametrize(
    ("head_dim", "groups"),
    [(40, 2), (64, 2), (64, 3), (64, "3 slots"), (96, 2), (128, 2), (192, 2), (256, 2)],
)
def test_matches_float64_by_flash_attentions_rule(head_dim, groups, mask, dtype):
    for lengths in SHAPES:
        for heads in HEADS:
            assert_right(lengths, heads, head_dim, groups, mask, dtype)


@pytest.mark.parametrize("mask", list(BOUNDS))
@pytest.mark.parametrize(("head_dim", "groups"), [(64, 2), (64, 3), (128, 2), (256, 2)])
def test_tiles_that_programs_claim_are_right_too(head_dim, groups, mask, monkeypatch):
    """More query tiles than SMs, of heads that do not all take turns."""
    monkeypatch.setattr(work, "KEPT_BYTES", 8 << 20)
    assert_right((1100, 2100), (12, 4), head_dim, groups, mask, torch.float16)


def assert_right(lengths, heads, head_dim, groups, mask, dtype):
    (q_len, kv_len), (q_heads, kv_heads) = lengths, heads
    # As a model has it: heads after rows.
    query = draw((2, q_len, q_heads, head_dim), dtype, 0).transpose(1, 2)
    key, value = (draw((2, kv_heads, kv_len, head_dim), dtype, seed) for seed in (1, 2))
    more = {"scale": head_dim**-0.5, "band": Band.of(q_len, kv_len, *BOUNDS[mask])}
    out, lse = attend(query, key, value, mask, groups)
    exact, exact_lse = attention_by_rows(query, key, value, dtype=torch.float64, **more)
    low = naive_attention(query, key, value, **more)
    allowed = 2 * (low.double() - exact).abs().max() + 1e-5
    assert (out.double() - exact).abs().max() <= allowed, (q_len, kv_len, q_heads)
    assert torch.equal(lse == float("-inf"), exact_lse == float("-inf"))
    torch.testing.assert_close(lse.double(), exact_lse.double(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mask", ["full", "causal"])
@pytest.mark.parametrize(("head_dim", "groups"), [(64, 2), (64, 3), (64, "3 slots"), (128, 2), (256, 2)])
def test_250_repeats_are_bitwise_equal(head_dim, groups, mask):
    query, key, value = (draw((4, 8, 1111, head_dim), torch.float16, seed) for seed in range(3))
    first = attend(query, key, value, mask, groups)
    for _ in range(250):
        assert all(map(torch.equal, first, attend(query, key, value, mask, groups)))


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("where", [0, 1, 2])
def test_infinities_and_nan_give_what_float64_gives(where, value):
    tensors = [draw((2, 4, 300, 64), torch.float16, seed).abs() for seed in range(3)]
    tensors[where][0, 1, 200, 7] = value
    out, _ = attend(*tensors, "full", 2)
    exact, _ = attention_by_rows(*tensors, dtype=torch.float64, scale=0.125, band=Band.of(300, 300))
    assert torch.equal(out.isnan(), exact.isnan())
    assert torch.equal(out.isinf(), exact.isinf())


def test_the_public_call_uses_it(monkeypatch):
    used = []
    forget()  # a call that was written down before would not come by the launcher
    monkeypatch.setattr(
        "kernels.algorithms.dispatch.hopper.flash_forward_hopper",
        lambda *args, **more: used.append(1) or flash_forward_hopper(*args, **more),
    )
    query, key, value = (draw((8, 8, 512, 64), torch.float16, seed) for seed in range(3))
    out = flash_attention(query, key, value)
    assert used
    sliced = torch.cat([query, query], dim=-1)[..., :64]  # rows apart: the descriptors take any strides
    assert torch.equal(flash_attention(sliced, key, value), out)
    assert len(used) == 2
    assert flash_attention(query[:1], key[:1], value[:1]).shape == (1, 8, 512, 64)
    assert len(used) == 2  # too little work for the whole GPU


def test_one_compiled_kernel_serves_all_shapes():
    def versions():
        return sum(len(compiled[0]) for compiled in _attn_fwd_hopper.device_caches.values())

    def run(q_len, heads, kv_len=512):
        key = draw((1, heads, kv_len, 64), torch.float16, 4)
        attend(draw((1, heads, q_len, 64), torch.float16, 3), key, key, "full", 2)

    run(256, 2, 256)
    before = versions()
    for q_len, heads in ((1, 1), (3, 2), (16, 16), (300, 3), (1024, 1)):
        run(q_len, heads)
    assert versions() == before


def problem_of(q_len, kv_len, head_dim, mask="causal", **more):
    """A problem with the kernel's own tiles."""
    sizes = {"q_heads": 4, "kv_heads": 2, "q_len": q_len, "kv_len": kv_len, "head_dim": head_dim}
    return ENTRY.with_own_tiles(AttentionProblem(**sizes, mask=mask, **more))


@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("mask", ["full", "causal", "window"])
def test_its_trace_is_that_of_the_portable_kernel_with_the_same_tiles(mask, head_dim):
    problem = problem_of(700, 800, head_dim, mask, batch=2, window_left=200, window_right=30)
    trace, portable = run_traced(problem, "flash3"), run_traced(problem, "flash2")
    assert judge_trace(trace).passes
    assert trace.total_bytes == ENTRY.requested_bytes(problem)
    for name in ("batch_head", "q_tile", "kv_tile", "tensor_bytes_read", "tensor_bytes_written"):
        np.testing.assert_array_equal(getattr(trace, name), getattr(portable, name))
    for name in ("row_max", "row_sum", "alpha"):
        np.testing.assert_allclose(getattr(trace, name), getattr(portable, name), rtol=2e-3, atol=2e-3)
    assert (trace.end_ns >= trace.start_ns).all()
    read, written = flash3.requested_bytes(problem, flash3.own_config(problem))
    assert read + written == flash2_requested_bytes(problem)
    if head_dim == 64:
        assert sum(flash3.requested_bytes(problem, CONFIGS[3])) == flash2_requested_bytes(problem, (192, 128))


def test_tracing_changes_no_bit():
    problem = problem_of(700, 700, 128)
    *_, out, lse = flash3.traced_launch(problem, CONFIGS[2])
    plain = flash_forward_hopper(
        *make_inputs(problem, DEVICE), band=problem.band, scale=problem.scale, config=CONFIGS[2]
    )
    assert torch.equal(out, plain[0])
    assert torch.equal(lse, plain[1])


@pytest.mark.parametrize("lengths", [(512, 128), (300, 40)])
def test_the_formula_counts_the_key_tile_of_query_tiles_that_see_no_key(lengths):
    problem = problem_of(*lengths, 64)
    trace = run_traced(problem, "flash3")
    assert judge_trace(trace).passes
    assert trace.total_bytes == ENTRY.requested_bytes(problem)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_the_check_passes_with_gradients_and_a_sample_is_a_part_of_the_run(head_dim):
    problem, sample = problem_of(700, 800, head_dim), Sample((2, 3))
    result = run_check(CheckCase(problem, "flash3"))
    assert result.verdict == "pass", result.reason
    assert {check.name for check in result.tensors} == {"O", "lse", "dQ", "dK", "dV"}
    whole, part = run_traced(problem, "flash3"), run_traced(problem, "flash3", sample)
    kept = np.isin(whole.batch_head, sample.heads)
    for name in ("batch_head", "q_tile", "kv_tile", "program", "tensor_bytes_read"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[kept])
