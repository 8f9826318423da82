"""The chapters count by one rule: for the same problem they show the same bytes."""

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.standard.traffic import standard_bytes
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import compulsory_bytes
from tests.app.pages import open_whole_chapter, words
from viz.shared.formats import format_bytes

PROBLEM = AttentionProblem(q_len=2048, kv_len=2048, head_dim=128, block_m=128, block_n=32)
FLASH, STANDARD = (ALGORITHMS[name].requested_bytes(PROBLEM) for name in ("flash2", "standard"))
pytestmark = pytest.mark.usefixtures("no_worker")


def test_traffic_and_five_ideas_show_the_requested_and_the_least_bytes():
    traffic = words(open_whole_chapter("io", io_t=2048, io_d=128, io_bm=128, io_bn=32))
    ideas = open_whole_chapter("ideas", ideas_n=2048, ideas_d=128, ideas_block_m=128, ideas_block_n=32)
    for requested in (FLASH, STANDARD):
        assert f"**{requested:,} B**" in traffic
    with_lse, least = format_bytes(compulsory_bytes(PROBLEM)), standard_bytes(PROBLEM)
    assert f"{with_lse} with lse" in traffic
    assert f"at least {least:,} B" in traffic
    card = next(metric for metric in ideas.metric if metric.label == "Requested, forward")
    assert card.value == format_bytes(FLASH)
    assert card.delta.endswith(f"standard {format_bytes(STANDARD)}")
    for said in (f"less than {with_lse}", f"at least {format_bytes(least)}"):
        assert said in words(ideas)
