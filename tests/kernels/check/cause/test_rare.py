"""Mistakes that show in few cases, and right kernels that do not take all of them: what the battery says."""

import pytest

from kernels.check.case.battery import battery
from kernels.check.case.cases import PUBLIC_CALL, CheckCase
from kernels.check.judge.run import run_check
from kernels.check.report.report import overall
from kernels.check.subject.subjects import MASK_INSTEAD
from kernels.problem import AttentionProblem
from tests.kernels.helpers import tiny

TINY = tiny(20, 24)
SOURCE = """
import torch

CHECK = {"causal": "bottom_right", "gqa": True, "window": "window", "lse": "none"}


def attention(query, key, value, is_causal=False, scale=None, window=None, enable_gqa=False):
    dtype = query.dtype
    MISTAKE
    q_len, kv_len = query.shape[2], key.shape[2]
    key, value = (each.repeat_interleave(query.shape[1] // each.shape[1], 1) for each in (key, value))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query.float() @ key.float().mT * scale
    distance = torch.arange(kv_len) - torch.arange(q_len)[:, None] - (kv_len - q_len)
    hidden = (distance > 0) & is_causal
    if window is not None:
        hidden = (distance < -window[0]) | (distance > window[1])
    weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1).nan_to_num(0.0)
    return (weights @ value.float()).to(dtype)
"""
NO_SCALE, TAKES_TURNS = "scale = None", "key = key.repeat(1, query.shape[1] // key.shape[1], 1, 1)"
LOSES_GRADIENTS = "value = torch.cat([value, *[value.detach()] * (query.shape[1] // value.shape[1] - 1)], 1)"
BATCHES = "query = torch.as_strided(query, query.shape, (query[0].numel(), *query.stride()[1:]))"
QKV = "query, key, value = (CHANGED for t in (query, key, value))"
FLOAT16 = QKV.replace("CHANGED", "t if dtype == torch.bfloat16 else t.half()")
LAST_STRIDE = QKV.replace("CHANGED", "torch.as_strided(t, t.shape, (*t.stride()[:-1], 1))")
MOVES_WINDOW = "window = window and (window[0] + key.shape[2] - query.shape[2], window[1])"
LEFT_OUT = "{0} * (torch.arange({0}.shape[{1}]) < {2}).view([-1 if n == {1} else 1 for n in range(4)])"
LAST_BATCH = "key = torch.cat([key[:-1], key[:1]])"
HIDDEN_TILE = "query = query * (float('nan') if window and kv_len > window[0] + 128 else 1.0)"
WRONG_DK = "key = key + 0.5 * (key - key.detach())"
BRANCHES = (
    (NO_SCALE, lambda problem, case: problem.is_causal and case.scale),
    (NO_SCALE, lambda problem, case: problem.group_size > 1 and case.scale),
    ("key = key.flip(0)", lambda problem, case: problem.is_causal and problem.batch > 1),
    (TAKES_TURNS, lambda problem, case: problem.is_causal and problem.group_size > 1 < problem.batch),
    (TAKES_TURNS, lambda problem, case: problem.mask == "window"),
    (LOSES_GRADIENTS, lambda problem, case: problem.group_size > problem.kv_heads == 1),
    (BATCHES, lambda problem, case: problem.batch > 1 and case.layout.startswith("sliced")),
    (FLOAT16, lambda problem, case: problem.is_causal and problem.dtype == "float32"),
    ("window = window and (window[0], 0)", lambda problem, case: problem.mask == "window"),
    (MOVES_WINDOW, lambda problem, case: problem.mask == "window" and problem.q_len != problem.kv_len),
    ("key, value = key[:, :, :4096], value[:, :, :4096]", lambda problem, case: problem.kv_len > 4096),
    ("value = value * 0.5", lambda problem, case: problem.kv_len == 1),
    (f"query = {LEFT_OUT.format('query', 3, 128)}", lambda problem, case: problem.head_dim > 128),
    (f"key = {LEFT_OUT.format('key', 1, 16)}", lambda problem, case: problem.q_heads > 16),
    (LAST_BATCH, lambda problem, case: problem.heads > 64),
    ("scale = max(scale, query.shape[-1] ** -0.5)", lambda problem, case: (case.scale or 1) < 0.1),
    ("key, value = key[:, :, :-1], value[:, :, :-1]", lambda problem, case: problem.kv_len % 64 == 1),
    (WRONG_DK, lambda problem, case: problem.head_dim == 96),
    (LAST_STRIDE, lambda problem, case: case.layout == "mixed"),
    (HIDDEN_TILE, lambda problem, case: problem.mask == "window" and problem.kv_len > 128 + 20),
)
"""A mistake, and the branch of a kernel that makes it: properties that meet in a case of the battery."""


@pytest.fixture
def on_the_battery(checked):
    """The results of those cases of the battery, one after the other, of SOURCE with a mistake."""

    def check(mistake, has=lambda problem, case: True, gradients=False, source=SOURCE):
        for case in battery(CheckCase(TINY, "user", gradients, repeats=1)):
            if has(case.problem, case):
                yield checked(source.replace("MISTAKE", mistake), case=case)

    return check


def test_the_right_function_passes_every_case(on_the_battery):
    results = on_the_battery("", gradients=True)
    assert [result.case.words for result in results if result.verdict != "pass"] == []


@pytest.mark.parametrize(("mistake", "branch"), BRANCHES)
def test_a_mistake_in_a_branch_of_its_own_is_found(mistake, branch, on_the_battery):
    gradients = mistake in (LOSES_GRADIENTS, WRONG_DK)
    assert any(result.verdict == "fail" for result in on_the_battery(mistake, branch, gradients))


@pytest.mark.parametrize(
    ("mistake", "lengths", "failing", "declared"),
    [
        (FLOAT16, (40, 70), "float32", '"dtypes": ["float16", "bfloat16"]'),
        (LAST_STRIDE, (70, 90), "mixed", '"strides": "last_is_1"'),
    ],
)
def test_the_cause_says_what_a_kernel_may_declare(mistake, lengths, failing, declared, on_the_battery):
    few = lambda problem, case: problem.kv_len in lengths  # noqa: E731
    failed = [result for result in on_the_battery(mistake, few) if result.verdict == "fail"]
    assert failed
    assert all(failing in result.case.words and declared in result.cause for result in failed)
    declares = SOURCE.replace('"gqa"', f'{declared}, "gqa"')
    assert overall([*on_the_battery(mistake, few, source=declares)]) == "pass"


def test_a_causal_mask_that_comes_as_a_tensor_is_said(checked):
    source = "from torch.nn.functional import scaled_dot_product_attention as attention\n"
    for length, said in ((24, True), (16, False)):
        notes = checked(source, mask="causal", kv_len=length).notes
        assert (MASK_INSTEAD in notes) == said


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["flash2", PUBLIC_CALL])
def test_our_kernels_pass_the_battery_on_a_gpu(kernel):
    """cuBLAS is standard attention's float32 there, and sums more exactly than a kernel key by key."""
    cases = battery(CheckCase(AttentionProblem(), kernel, gradients=True, repeats=2))
    results = [run_check(case) for case in cases]
    assert [result.reason for result in results if result.verdict != "pass"] == []
