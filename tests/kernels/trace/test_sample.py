"""Which part of a long run is sampled, and what it says of itself."""

from dataclasses import replace

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.problem import AttentionProblem
from kernels.trace.sample import AT_ONCE_S, SOON_S, Sample, choose_sample, sampled_steps
from tests.kernels.helpers import problem_id

FLASH2 = ALGORITHMS["flash2"]
LONG = AttentionProblem(q_len=131072, kv_len=131072, mask="causal")
DECODING = AttentionProblem(q_len=1, kv_len=131072, q_heads=32, kv_heads=8)
MANY_HEADS = AttentionProblem(q_len=16384, kv_len=16384, q_heads=32, kv_heads=8, mask="causal")


def on_a_gpu(steps):
    """Estimated seconds of so many steps."""
    return 0.5 + 2e-5 * steps


def in_the_interpreter(steps):
    return 3e-3 * steps


@pytest.mark.parametrize("seconds", [on_a_gpu, in_the_interpreter], ids=lambda seconds: seconds.__name__)
@pytest.mark.parametrize("problem", [LONG, LONG.with_(mask="full"), DECODING, MANY_HEADS], ids=problem_id)
def test_a_long_run_has_a_sample_that_takes_seconds(problem, seconds):
    sample = choose_sample(problem, FLASH2, seconds)
    steps = sampled_steps(problem, FLASH2, sample)
    assert steps < FLASH2.steps(problem)
    assert seconds(steps) <= (AT_ONCE_S if seconds is on_a_gpu else SOON_S)
    assert sample.fits(problem)
    assert problem.q_tiles - 1 in sample.q_tiles


def test_a_sample_is_spread_over_key_heads_and_tiles_and_by_whole_key_heads_if_they_are_packed():
    sample = choose_sample(MANY_HEADS, FLASH2, on_a_gpu)
    assert sample == Sample((0, 8, 20, 28), (0, 51, 102, 153, 204, 255))
    assert sample.words(MANY_HEADS) == "4 of 32 heads, 6 of 256 query tiles"
    assert sample.part(MANY_HEADS) == MANY_HEADS.with_(q_heads=4, kv_heads=4)
    packed = choose_sample(DECODING, ALGORITHMS["split_kv"], in_the_interpreter)
    assert packed == Sample((0, 1, 2, 3))
    assert packed.words(DECODING) == "4 of 32 heads"
    assert packed.part(DECODING) == DECODING.with_(q_heads=4, kv_heads=1)


@pytest.mark.parametrize(
    ("problem", "entry", "seconds"),
    [
        (LONG, replace(FLASH2, samples=""), on_a_gpu),
        (LONG, ALGORITHMS["flash1"], on_a_gpu),  # its only head is the whole run
        (LONG, FLASH2, float),
        (AttentionProblem(q_len=64), FLASH2, on_a_gpu),
    ],
    ids=["none", "one head", "slow", "short"],
)
def test_no_sample_where_none_helps(problem, entry, seconds):
    assert choose_sample(problem, entry, seconds) is None
