"""Sizes to scale, and the share of S that fits on the chip."""

import pytest

from kernels.device.gpus import GPUS
from kernels.lessons.memory import (
    ALL,
    PART,
    SPECK,
    matrix_bytes,
    scores_bytes,
    share_in_sram,
    share_words,
    square_side,
)
from kernels.lessons.roofline import memory_against_compute
from kernels.problem import AttentionProblem


def problem(length, head_dim=64):
    return AttentionProblem(q_len=length, kv_len=length, head_dim=head_dim)


def test_twice_as_many_tokens_make_s_four_times_as_large_and_q_twice():
    assert scores_bytes(problem(2048)) == 4 * scores_bytes(problem(1024)) == 2 * 2048 * 2048
    assert matrix_bytes(problem(2048)) == 2 * matrix_bytes(problem(1024)) == 2 * 2048 * 64


@pytest.mark.parametrize(("length", "words"), [(128, ALL), (1024, PART), (4096, SPECK)])
def test_the_share_of_s_in_words(length, words):
    assert share_words(share_in_sram(problem(length), GPUS["H200"])) == words


def test_areas_are_to_each_other_as_bytes():
    assert square_side(1.0, 4.0, 100.0) == 50.0
    assert square_side(7.0, 7.0, 100.0) == 100.0


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("head_dim", [32, 64, 128, 256])
def test_moving_takes_longer_than_computing_on_every_choice_of_the_chapter(gpu, head_dim):
    times = memory_against_compute(4096, 4096, head_dim, 2, GPUS[gpu])
    assert times.memory_seconds > times.compute_seconds
