"""The Sources page: the numbers beside the slips are those of the printed and of the right lines."""

import math

from kernels.references import REFERENCES
from tests.app.pages import open_whole_chapter, words
from viz.learn.sources.page import WORDS

LINES = [line for line in WORDS("start").splitlines() if line.startswith("| ")][1:]


def cells(beginning):
    """(printed, right) of the line whose source begins so."""
    line = next(line for line in LINES if line.startswith(f"| {beginning}"))
    return line.split(" | ")[1:3]


def test_the_row_worked_out_by_hand():
    """The row 3, 2, 5, 1 in two blocks with the values 1, 2, 3, 4."""
    first, alpha = 1 * 1 + 2 * math.exp(-1), math.exp(-2)
    l_first, l_second = 1 + math.exp(-1), math.exp(-2) * (1 + math.exp(-1)) + 1 + math.exp(-4)
    added = 3 + 4 * math.exp(-4)
    right = f"{(alpha * first + added) / l_second:.3f}"
    without_l, inverted = (first / l_first * alpha + added) / l_second, (first / alpha + added) / l_second
    for source, wrong in (
        ("FlashAttention, step by step", without_l),
        ("MSRA SH Triton Study Group 2025, How to Fuse: F", inverted),
    ):
        printed, corrected = cells(source)
        assert f"{wrong:.3f}" in printed
        assert right in corrected
    printed, corrected = cells("MSRA SH Triton Study Group 2025, causal mask")
    assert f"{alpha * first / l_second:.3f}" in printed
    assert f"{first / l_first:.3f}" in corrected


def test_every_slip_names_a_known_source_and_every_source_is_listed_with_its_address(no_worker):
    keys = tuple(f"| {source.key}" for source in REFERENCES)
    assert [line for line in LINES if not line.startswith(keys) or line.count("|") != 5] == []
    text = words(open_whole_chapter("sources"))
    for source in REFERENCES:
        assert f"| {source.key} |" in text
        assert not source.url or f"[{source.title}]({source.url})" in text
