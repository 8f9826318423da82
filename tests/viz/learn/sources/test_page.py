"""The Sources page: the numbers beside the slips are those of the printed and of the right lines."""

import math

from kernels.device.gpus import GPUS
from kernels.references import REFERENCES
from tests.app.pages import open_whole_chapter, words
from viz.learn.io import maths as io
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


def test_the_modelled_numbers():
    gpu, n, d, memory = GPUS["A100"], 1024, 64, 32768
    printed, right = cells("Chu, Liu and Lin 2026, Memory")
    moving, computing = 4 * n * n * 2, 4 * n * n * d
    assert f"{1e6 * moving / (gpu.hbm_bandwidth * 2**40 / 1e12):.2f} µs" in printed
    assert f"{1e6 * moving / gpu.hbm_bandwidth:.2f} µs" in right
    assert f"{1e6 * computing / gpu.fp16_flops:.2f} µs" in right
    forward = io.query_outer_blocks(memory, d)
    assert f"{forward.query} rows" in cells("Chu, Liu and Lin 2026, eq 43")[0]
    printed, right = cells("Dao et al. 2022")
    for sizes, text in ((io.key_outer_blocks(memory, d), printed), (forward, right)):
        assert f"{sum(io.backward_blocks(sizes, d).values()) / memory:.2f} M" in text
    printed, right = cells("Making Attention I/O-Aware |")
    for bandwidth, text in ((2e12, printed), (2.039e12, right), (1.555e12, right)):
        assert f"{gpu.fp16_flops / bandwidth:.0f}" in text


def test_every_slip_names_a_known_source_and_every_source_is_listed_with_its_address(no_worker):
    keys = tuple(f"| {source.key}" for source in REFERENCES)
    assert [line for line in LINES if not line.startswith(keys) or line.count("|") != 5] == []
    text = words(open_whole_chapter("sources"))
    for source in REFERENCES:
        assert f"| {source.key} |" in text
        assert not source.url or f"[{source.title}]({source.url})" in text
