"""The time of a problem from the nearest measured one: which one that is, how far, and the scale."""

from dataclasses import replace

import pytest

from kernels.measure.nearest import NAIVE, estimate
from kernels.problem import AttentionProblem
from kernels.recordings import recorded_measurements
from tests.kernels.documents import measurement

ASKED = AttentionProblem(1, 8, 2, 4096, 4096, mask="causal")


def test_just_this_problem_counts_as_it_was_measured_whatever_its_tiles():
    exact = measurement(4096, heads=4, block_m=128)
    found = estimate(exact.problem.with_(block_m=16, seed=3), "ours", [measurement(2048), exact])
    assert found.is_exact
    assert found.amount == exact.result("ours").timing.median_ms


def test_a_time_is_scaled_by_the_work_and_says_how_far_it_is():
    there, launch = measurement(2048, heads=8, mask="causal"), measurement(16, head_dim=128)
    found = estimate(ASKED, "ours", [there, launch])
    ms, least = (each.result("ours").timing.median_ms for each in (there, launch))
    assert found.amount == pytest.approx(least + 4 * (ms - least))
    assert found.differences == ("length 2,048, not 4,096", "heads 8 over 8, not 8 over 2")
    assert not found.is_exact


@pytest.mark.parametrize(
    ("near", "far"),
    [
        ({"length": 4096, "mask": "causal"}, {"length": 4096, "mask": "full"}),
        ({"length": 2048, "mask": "causal"}, {"length": 4096, "mask": "causal", "head_dim": 128}),
        ({"length": 8192, "mask": "causal"}, {"length": 2048, "mask": "causal"}),
        ({"length": 4096, "mask": "causal", "heads": 8}, {"length": 4096, "mask": "causal", "heads": 1}),
        ({"length": 4096, "mask": "causal"}, {"length": 4096, "mask": "causal", "dtype": "float32"}),
    ],
    ids=["mask", "head_dim", "smaller", "heads", "dtype"],
)
def test_the_nearest_is_the_one_that_a_reader_would_take(near, far):
    both = [measurement(**far), measurement(**near)]
    assert estimate(ASKED, "ours", both).measurement is both[1]


def test_no_call_is_faster_than_the_fastest_that_was_measured():
    there = measurement(4096, mask="causal", heads=8)
    tiny = AttentionProblem(1, 1, 1, 16, 16, mask="causal")
    assert estimate(tiny, "ours", [there]).amount == there.result("ours").timing.median_ms


def test_a_step_is_not_taken_from_many_queries_and_a_cpu_times_no_kernel():
    step = AttentionProblem(1, 8, 2, 1, 4096)
    there = measurement(4096)
    assert estimate(step, "ours", [there]) is None
    on_cpu = replace(there, device=replace(there.device, backend="interpreter"))
    assert estimate(ASKED, "ours", [on_cpu]) is None
    assert estimate(ASKED, "fa4", [there]) is None


def test_a_step_is_taken_from_one_of_as_many_bytes_and_never_scaled_down():
    def taken(batch, length, peer="ours"):
        step = AttentionProblem(batch, 32, 8, 1, length, 128, dtype="bfloat16")
        found = estimate(step, peer, recorded_measurements())
        return found and (found.amount, found.measurement.problem.kv_len)

    (four, length), (one, _) = taken(4, 2048), taken(1, 8192)
    assert length == 8192
    assert four == pytest.approx(one, rel=0.01)
    assert taken(1, 3001) == taken(1, 4096)
    assert taken(1, 3001, NAIVE) == taken(1, 4096, NAIVE)
    assert taken(1, 1) is taken(8, 131072) is None


def test_every_recording_is_its_own_nearest():
    for peer in ("ours", NAIVE):
        for each in recorded_measurements():
            result = each.result(peer)
            if result and result.timing:
                assert estimate(each.problem, peer, recorded_measurements()).is_exact
