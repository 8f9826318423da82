"""Mistakes with masks and scores beyond a band, planted in a small function: the cause is named."""

import pytest

from kernels.check.case.battery import PATTERN_BATTERY, battery
from kernels.check.case.cases import CheckCase
from kernels.problem import AttentionProblem

SOURCE = """
import math
import torch

def attention(query, key, value, attn_mask=None, is_causal=False, softcap=0.0, alibi_slopes=None, sinks=None,
              enable_gqa=False):
    batch, heads, q_len, width = query.shape
    key, value = (t.double().repeat_interleave(heads // t.shape[1], 1) for t in (key, value))
    scores = query.double() @ key.mT / math.sqrt(width)
    rows = torch.arange(q_len)[:, None] + key.shape[2] - q_len
    keys = torch.arange(key.shape[2])[None, :]
    hidden = ~attn_mask if attn_mask is not None else (keys > rows) & is_causal
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if alibi_slopes is not None:
        scores = scores - alibi_slopes[:, None, None] * (rows - keys).abs()
    scores = scores.masked_fill(hidden, -math.inf)
    l = torch.exp(scores).sum(-1, keepdim=True)
    if sinks is not None:
        l = l + torch.exp(sinks.double())[:, None, None]
    return (torch.exp(scores) / l @ value).to(query.dtype)
"""
BASE = AttentionProblem(q_len=40, kv_len=60, head_dim=16, q_heads=2, kv_heads=1, dtype="float32")
DOCUMENTS = BASE.with_(mask="documents", documents="25 1 20 14")
SINKS = BASE.with_(mask="sinks", window_left=15, prefix=3, sink_logit=1)
SOFTCAP = BASE.with_(q_len=60, mask="causal", softcap=2)
ALIBI = BASE.with_(q_len=60, mask="causal", alibi=1)
MASK = "    if softcap:\n"
PLANTED = {
    "document": (
        DOCUMENTS,
        MASK,
        f"    hidden[..., :-1] &= hidden[..., 1:] | (keys[:, 1:] > rows)\n{MASK}",
        "a document sees the last key of the one before it",
    ),
    "no documents": (
        DOCUMENTS,
        MASK,
        f"    hidden = keys > rows\n{MASK}",
        "without the mask that was asked for",
    ),
    "window": (SINKS, MASK, f"    hidden &= rows - keys != 16\n{MASK}", "a window one key too long"),
    "first keys": (SINKS, MASK, f"    hidden |= rows - keys > 15\n{MASK}", "first keys that stay visible"),
    "sink": (SINKS, "l = l + torch.exp", "l = l + 0 * torch.exp", "sink is missing from the row sum"),
    "cap": (SOFTCAP, "hidden, -math.inf)", "hidden, -softcap)", "the softcap applied after the mask"),
    "no cap": (SOFTCAP, "    if softcap:", "    if False:", "without the softcap"),
    "slope": (ALIBI, "scores - alibi", "scores + alibi", "slopes of the wrong sign"),
}


def case_of(problem):
    return CheckCase(problem, "user", gradients=False, repeats=1)


@pytest.mark.parametrize("problem", [DOCUMENTS, SINKS, SOFTCAP, ALIBI, BASE.with_(mask="prefix", prefix=9)])
def test_a_right_function_passes(checked, problem):
    result = checked(SOURCE, "attention", case_of(problem))
    assert result.verdict == "pass", result.reason


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_fails_and_its_cause_is_named(checked, name):
    problem, right, wrong, words = PLANTED[name]
    assert SOURCE.count(right) == 1
    result = checked(SOURCE.replace(right, wrong), "attention", case_of(problem))
    assert result.verdict == "fail", result.reason
    assert words in result.cause, result.cause


def test_a_function_without_the_parameter_is_refused_by_its_name(checked):
    without = SOURCE.replace(" sinks=None,", "").replace("sinks is not None", "False")
    result = checked(without, "attention", case_of(SINKS))
    assert "no parameter sinks" in str(result.reason)


def test_kernels_that_take_patterns_get_their_cases():
    for kernel, takes in (("flash2", True), ("flash_attention", True), ("flash1", False), ("user", False)):
        cases = battery(CheckCase(BASE, kernel, gradients=False, repeats=1))
        assert any(case.problem.pattern for case in cases) == takes
    assert {case.problem.mask for case in PATTERN_BATTERY} >= {"documents", "sinks", "prefix"}
