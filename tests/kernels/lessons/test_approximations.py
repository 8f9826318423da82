"""Approximations of attention: exact if nothing is left out, closer with more features, and their work."""

import pytest

from kernels.lessons.approximations import approximations
from kernels.problem import AttentionProblem

PROBLEM = AttentionProblem(q_len=256, kv_len=256, head_dim=16)


def by_name(size, problem=PROBLEM):
    return {way.name: way for way in approximations(problem, size)}


def test_groups_of_one_key_and_a_window_of_all_keys_are_exact():
    all_keys = by_name(256)
    assert all_keys["Linformer"].error < 1e-14
    assert all_keys["Longformer"].error < 1e-14
    assert all(way.error > 1e-3 for way in by_name(32).values())


def test_random_features_come_closer_the_more_there_are():
    problem = PROBLEM.with_(q_len=32, kv_len=32)
    assert by_name(65536, problem)["Performer"].error < 0.3 * by_name(16, problem)["Performer"].error


def test_work_grows_with_the_size_and_not_with_the_square():
    small, large = by_name(32), by_name(32, PROBLEM.with_(q_len=512, kv_len=512))
    for name, way in large.items():
        assert way.flops == pytest.approx(2 * small[name].flops)
    assert small["Longformer"].flops == 4 * 256 * 32 * 16
    assert small["Performer"].flops == 4 * 512 * 32 * 16
