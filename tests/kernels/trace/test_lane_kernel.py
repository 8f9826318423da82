"""Kernels with lanes: what they are called, what they take, and how their roles fit what is played."""

import pytest

from kernels.algorithms import ALGORITHMS, kernels_with_lanes, lane_kernel, run_lanes
from kernels.problem import AttentionProblem, InvalidProblem

PROBLEM = AttentionProblem(block_m=64, block_n=128)
SWEEP, PLAIN = lane_kernel("backward_sweep"), lane_kernel("backward_plain")
KERNELS = [(entry, kernel) for entry in ALGORITHMS.values() if (kernel := entry.lanes)]


def test_names_and_labels_tell_kernels_apart():
    for field in ("name", "label"):
        values = [getattr(kernel, field) for _, kernel in KERNELS]
        assert len(set(values)) == len(values)
    assert [kernel.name for kernel in kernels_with_lanes("forward")] == ["flash2", "flash3"]
    assert kernels_with_lanes("backward") == (PLAIN, SWEEP)


@pytest.mark.parametrize(("entry", "kernel"), KERNELS, ids=[kernel.name for _, kernel in KERNELS])
def test_a_role_that_names_a_kernel_has_phases_of_that_kernel(entry, kernel):
    for role in kernel.roles:
        played = [each for each in entry.kernels if role.kernel in ("", each.name)]
        phases = {phase.name for each in played for phase in each.phases}
        assert {activity.phase for activity in role.activities} <= phases
        for activity in role.activities:
            assert {activity.begin, activity.end} <= set(role.marks)
            assert kernel.kernel_of(activity.name) == role.kernel
    assert kernel.kernel_of("something else") == kernel.phase_of("something else") == ""


def test_the_plain_backward_kernels_are_two_that_are_played_and_the_others_one():
    assert {kernel.name: kernel.launches for _, kernel in KERNELS if kernel.launches > 1} == {PLAIN.name: 2}
    assert [role.kernel for role in PLAIN.roles] == [
        kernel.name for kernel in ALGORITHMS["backward"].kernels[1:]
    ]
    assert PLAIN.with_own_tiles(PROBLEM) == PROBLEM


@pytest.mark.parametrize(
    ("changes", "capability", "field"),
    [
        ({}, "9.0", None),
        ({"dtype": "float32"}, "9.0", "dtype"),
        ({"head_dim": 16}, "9.0", "head_dim"),
        ({"block_n": 64}, "9.0", "tiles"),
        ({}, "8.0", "algorithm"),
        ({}, "", "algorithm"),
    ],
)
def test_the_sweep_is_refused_where_it_cannot_run_and_the_plain_kernels_are_not(changes, capability, field):
    problem = PROBLEM.with_(**changes)
    refused = SWEEP.refusal(problem, capability)
    assert (refused and refused.field) == field
    assert SWEEP.takes(problem) == (field in (None, "algorithm"))
    assert PLAIN.refusal(problem, capability) is None


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("backward_sweep", "64 x 128 tiles"),
        ("flash3", "128 x 128 tiles"),
        ("backward", "flash2, flash3, backward_plain, backward_sweep"),
    ],
)
def test_a_refusal_names_the_tiles_or_the_kernels_with_lanes(kernel, words):
    with pytest.raises(InvalidProblem, match=words):
        run_lanes(AttentionProblem(block_m=64, block_n=64), kernel)
