"""Mistakes with masks and scores beyond a band: what a wrong O may equal."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch

from kernels.check.cause.variants import Named, Setting
from kernels.oracle.naive import whole_mask
from kernels.problem import LIMITS, AttentionProblem, Pattern


def pattern_variants(setting: Setting, pattern: Pattern, problem: AttentionProblem) -> Iterator[Named]:
    """What a wrong O may equal by a mistake in its pattern, which is the problem's, the simplest first."""
    if pattern.softcap:
        yield "attention without the softcap", replace(setting, pattern=replace(pattern, softcap=0))
        after = "attention with the softcap applied after the mask: a hidden key has the score -softcap"
        yield after, partial(_capped_after, setting, pattern.softcap)
    if pattern.slopes:
        turned = replace(pattern, slopes=tuple(-slope for slope in pattern.slopes))
        words = "attention with ALiBi slopes of the wrong sign: farther keys count more"
        yield words, replace(setting, pattern=turned)
        yield "attention without ALiBi", replace(setting, pattern=replace(pattern, slopes=()))
    if pattern.sinks:
        words = "attention in which the sink is missing from the row sum l"
        yield words, replace(setting, pattern=replace(pattern, sinks=()))
    device = setting.query.device
    for words, other in _other_masks(problem):
        visible = whole_mask(other.rule, device)
        if not torch.equal(visible, setting.visible):
            yield words, replace(setting, visible=visible)
    if problem.mask == "documents":
        words = "attention in which a document sees the last key of the one before it"
        yield words, replace(setting, visible=setting.visible | _last_key_before(pattern, device))


def _other_masks(problem: AttentionProblem) -> Iterator[tuple[str, AttentionProblem]]:
    """Problems whose mask a kernel may have taken for the right one."""
    if problem.mask == "sinks":
        for count, by in (("long", 1), ("short", -1)):
            moved = min(max(problem.window_left + by, 0), LIMITS["window_left"][1])
            yield f"attention with a window one key too {count}", problem.with_(window_left=moved)
        without = problem.with_(mask="window", window_right=0)
        yield "attention without the first keys that stay visible", without
    if problem.mask in ("sinks", "prefix"):
        for count, by in (("many", 1), ("few", -1)):
            moved = min(max(problem.prefix + by, 1), LIMITS["prefix"][1])
            yield f"attention with one first key too {count}", problem.with_(prefix=moved)
    if problem.mask != "causal":
        yield "causal attention, without the mask that was asked for", problem.with_(mask="causal")
    yield "attention without a mask", problem.with_(mask="full")


def _last_key_before(pattern: Pattern, device: torch.device) -> torch.Tensor:
    """bool (q_len, kv_len): the last key of the document before that of each query."""
    document = torch.from_numpy(pattern.document_of()).to(device)
    of_query = document[pattern.first_position :][:, None]
    is_last = torch.cat([document[1:] > document[:-1], document.new_zeros(1, dtype=torch.bool)])
    after = torch.cat([document[1:], document[-1:]])
    return is_last & (after == of_query)


def _capped_after(setting: Setting, softcap: float, dtype: torch.dtype) -> torch.Tensor:
    scores, value = setting.unmasked(dtype)
    return torch.softmax(scores.masked_fill(~setting.visible, -softcap), dim=-1) @ value
