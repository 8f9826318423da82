"""A mistake in a branch that only some calls take is on the battery: properties meet each other there."""

import pytest

from kernels.check.battery import battery
from kernels.check.cases import PUBLIC_CALL, CheckCase
from kernels.check.run import run_check
from kernels.check.user_kernel import UserKernel, name_user_kernels
from kernels.problem import AttentionProblem

ATTENTION = """
import torch
import torch.nn.functional as F

CHECK = {"causal": "bottom_right", "window": "window"}


def attention(q, k, v, is_causal=False, scale=None, enable_gqa=False, window=None):
    causal, shared, batch = is_causal, k.shape[1] != q.shape[1], q.shape[0]
    right = 0 if is_causal else q.shape[2] + k.shape[2]
    left, right = window or (q.shape[2] + k.shape[2], right)
    heads, step = k.repeat_interleave(q.shape[1] // k.shape[1], 1), q.shape[1] // k.shape[1]
    values = v.repeat_interleave(step, 1)
    if MISTAKE:
        SPOIL
    behind = torch.arange(k.shape[2]) - torch.arange(q.shape[2])[:, None] - k.shape[2] + q.shape[2]
    mask = (behind >= -left) & (behind <= right)
    return F.scaled_dot_product_attention(q, heads, values, attn_mask=mask, scale=scale)
"""
MISTAKES = {
    "scale with a causal mask": ("causal and scale", "scale = None"),
    "scale with shared heads": ("shared and scale", "scale = None"),
    "batch with a causal mask": ("causal and batch > 1", "heads = heads.flip(0)"),
    "heads shared with a causal mask and a batch": (
        "causal and shared and batch > 1",
        "heads = k.repeat(1, step, 1, 1)",
    ),
    "one key head": ("k.shape[1] == 1 and shared", "values = torch.cat([v] + [v.detach()] * (step - 1), 1)"),
    "strides of a batch": (
        "batch > 1 and not q.is_contiguous()",
        "q = torch.as_strided(q, q.shape, (q[0].numel(), *q.stride()[1:]))",
    ),
    "float32 with a causal mask": (
        "causal and q.dtype == torch.float32",
        "q, heads, values = (t.bfloat16().float() for t in (q, heads, values))",
    ),
    "right side of a window": ("window", "right = 0"),
    "window with unequal lengths": (
        "window and q.shape[2] != k.shape[2]",
        "left += k.shape[2] - q.shape[2]",
    ),
    "window with shared heads": ("window and shared", "heads = k.repeat(1, step, 1, 1)"),
    "many keys": ("k.shape[2] > 2048", "heads, values = heads[:, :, :2048], values[:, :, :2048]; k = heads"),
}


@pytest.fixture
def battery_of(tmp_path):
    def of(condition, spoil):
        path = tmp_path / "mine.py"
        path.write_text(ATTENTION.replace("MISTAKE", condition).replace("SPOIL", spoil))
        name_user_kernels([UserKernel.parse(f"{path}:attention")])
        return battery(CheckCase(AttentionProblem(), "user", repeats=1))

    return of


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_branch_of_its_own_is_found(battery_of, name):
    cases = battery_of(*MISTAKES[name])
    assert any(run_check(case).verdict == "fail" for case in cases)


def test_without_a_mistake_every_case_passes(battery_of):
    assert {run_check(case).verdict for case in battery_of("False", "pass")} == {"pass"}


def test_a_causal_mask_that_comes_as_a_tensor_is_said(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("from torch.nn.functional import scaled_dot_product_attention as attention\n")
    name_user_kernels([UserKernel.parse(f"{path}:attention")])
    problem = AttentionProblem(q_len=20, kv_len=33, head_dim=16, mask="causal")
    unequal, equal = (run_check(CheckCase(problem.with_(kv_len=n), "user")) for n in (33, 20))
    assert any(note.startswith("is_causal is not checked with unequal lengths") for note in unequal.notes)
    assert not any(note.startswith("is_causal is not checked") for note in equal.notes)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["flash2", PUBLIC_CALL])
def test_our_kernels_pass_the_battery_on_a_gpu(kernel):
    """There cuBLAS is naive attention's float32, and sums more exactly than a kernel that goes key by key."""
    cases = battery(CheckCase(AttentionProblem(), kernel, gradients=True, repeats=2))
    results = [run_check(case) for case in cases]
    assert [result.reason for result in results if result.verdict != "pass"] == []
