"""The model of many GPUs against all that was recorded on four, and against itself where none was."""

import re

import pytest

from kernels.measure.worlds import METHODS, NODE, Machine, World, cost
from kernels.recordings import recorded_document, recorded_ranks

TIMES = [time for time in recorded_document("ranks").ranks if time.method in METHODS and time.timing]
MACHINE = Machine.of(recorded_document("ranks").ranks, recorded_ranks())
TIME_OFF = {"ring": 0.10, "all_gather": 0.08, "all_to_all": 0.14}
"""Seen: 9.8, 7.4, 13.1 %."""
MEMORY_OFF = 0.001


def world_of(time):
    heads = {"q_heads": time.problem.q_heads, "kv_heads": time.problem.kv_heads}
    return World(time.ranks, time.problem.q_len, time.direction, time.method, time.layout, **heads)


@pytest.mark.parametrize(
    "time", TIMES, ids=lambda t: f"{t.method}-{t.layout}-{t.direction}-{t.problem.q_len}-{t.problem.q_heads}"
)
def test_time_and_memory_are_those_recorded(time):
    modelled = cost(world_of(time), MACHINE)
    assert 1e3 * modelled.seconds == pytest.approx(time.timing.median_ms, rel=TIME_OFF[time.method])
    assert modelled.extra_bytes == pytest.approx(time.peak_extra_bytes, rel=MEMORY_OFF)


@pytest.mark.parametrize("name", recorded_ranks())
def test_bytes_are_exactly_those_that_the_ranks_sent(name):
    trace = recorded_ranks()[name]
    world = World(trace.ranks, trace.problem.q_len, trace.direction, trace.method, trace.layout)
    assert len(TIMES) >= 34
    for rank in range(trace.ranks):
        assert trace.span_bytes[trace.of("transfer", rank)].sum() == cost(world, MACHINE).bytes_sent


def test_shares_follow_the_layout_and_the_number_of_ranks():
    seconds = {n: cost(World(4, 1 << 20, layout=n), MACHINE).compute_s for n in ("zigzag", "contiguous")}
    assert seconds["contiguous"] / seconds["zigzag"] == pytest.approx(7 / 4)  # 1 half chunk, 3 whole ones
    ring, hybrid = (cost(World(1024, 10 << 20, method=each), MACHINE) for each in ("ring", "hybrid"))
    assert hybrid.bytes_sent < ring.bytes_sent / (NODE - 1)
    assert hybrid.seconds < ring.seconds


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((4, 256), "ring, 256 tokens on 4 ranks"),
        ((4, 4096, "forward", "tree"), "tree, 4096 tokens"),
        (
            (16, 4096, "forward", "all_to_all"),
            "accepted: ring | all_gather | all_to_all | hybrid, 128 tokens",
        ),
        ((20, 4096, "forward", "hybrid"), "hybrid, 4096 tokens on 20 ranks"),
    ],
)
def test_what_cannot_be_shared_out_is_refused(given, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        World(*given)
