"""Which part of a long run is sampled, what it says of itself, and its place in the file format."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.problem import AttentionProblem
from kernels.trace.sample import AT_ONCE_S, SOON_S, Sample, choose_sample, sampled_steps
from kernels.trace.trace import Trace
from tests.kernels.helpers import problem_id

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
    entry = ALGORITHMS["flash2"]
    sample = choose_sample(problem, entry, seconds)
    steps = sampled_steps(problem, entry, sample)
    assert steps < entry.steps(problem)
    assert seconds(steps) <= (AT_ONCE_S if seconds is on_a_gpu else SOON_S)
    assert sample.fits(problem)
    assert problem.q_tiles - 1 in sample.q_tiles


def test_a_sample_is_spread_over_heads_that_share_no_key_head_and_over_the_tiles():
    sample = choose_sample(MANY_HEADS, ALGORITHMS["flash2"], on_a_gpu)
    assert sample == Sample((0, 8, 20, 28), (0, 51, 102, 153, 204, 255))
    assert sample.words(MANY_HEADS) == "4 of 32 heads, 6 of 256 query tiles"
    assert sample.part(MANY_HEADS) == MANY_HEADS.with_(q_heads=4, kv_heads=4)


def test_an_algorithm_that_packs_heads_is_sampled_by_whole_key_heads():
    sample = choose_sample(DECODING, ALGORITHMS["split_kv"], in_the_interpreter)
    assert sample.heads == (0, 1, 2, 3)
    assert sample.words(DECODING) == "4 of 32 heads"
    assert sample.part(DECODING) == DECODING.with_(q_heads=4, kv_heads=1)


def test_no_sample_where_none_helps():
    assert choose_sample(LONG, replace(ALGORITHMS["flash2"], samples=""), on_a_gpu) is None
    assert choose_sample(LONG, ALGORITHMS["flash1"], on_a_gpu) is None  # its only head is the whole run
    assert choose_sample(LONG, ALGORITHMS["flash2"], lambda steps: steps * 1.0) is None
    assert choose_sample(AttentionProblem(q_len=64), ALGORITHMS["flash2"], on_a_gpu) is None


SMALL = AttentionProblem(q_len=40, kv_len=40, head_dim=16, block_m=16, block_n=16, q_heads=2, kv_heads=2)
SAMPLE = Sample((1,), (0, 2))


def test_a_sample_is_kept_in_the_file():
    sampled = run_traced(SMALL, "flash2", SAMPLE)
    again = Trace.load(sampled.to_bytes())
    assert again.sample == SAMPLE
    assert again.output.shape == (1, 1, 24, 16)
    assert np.array_equal(again.output, sampled.output)
