"""What algorithms and kernels with lanes take and need, and how their roles fit what is played."""

import pytest

from kernels.algorithms import ALGORITHMS, kernels_with_lanes, lane_kernel, run_lanes, run_traced
from kernels.device.backend import DeviceInfo
from kernels.problem import AttentionProblem, InvalidProblem
from tests.anywhere import ANYWHERE

HOPPER = ALGORITHMS["flash3"]
PROBLEM = AttentionProblem(head_dim=64, block_m=128, block_n=128)
SWEEP, PLAIN = lane_kernel("backward_sweep"), lane_kernel("backward_plain")
LANES = [(entry, kernel) for entry in ALGORITHMS.values() if (kernel := entry.lanes)]


@pytest.mark.parametrize(
    ("changes", "field", "accepted"),
    [
        ({"dtype": "float32"}, "dtype", "float16 or bfloat16"),
        ({"head_dim": 16}, "head_dim", "a multiple of 8 from 40 to 256"),
        ({"head_dim": 68}, "head_dim", "a multiple of 8 from 40 to 256"),
        ({"block_m": 64}, "block_m", "128 x 128 tiles"),
        ({"head_dim": 256}, "block_n", "128 x 64 tiles"),
    ],
)
def test_a_problem_that_it_does_not_take_is_refused_with_field_and_accepted(changes, field, accepted):
    problem = PROBLEM.with_(**changes)
    with pytest.raises(InvalidProblem, match=f"{field}=.* is not accepted: .*{accepted}.* Choose") as caught:
        run_traced(problem, "flash3")
    assert caught.value.field == field
    assert str(HOPPER.refusal(problem)) == str(caught.value)


def test_an_unknown_algorithm_is_refused_by_name():
    with pytest.raises(InvalidProblem, match=r"algorithm='flash9' .* one of flash2, flash1"):
        run_traced(AttentionProblem(), "flash9")


def test_it_takes_its_own_tiles_and_leaves_all_else_of_the_problem():
    chosen = PROBLEM.with_(block_m=16, block_n=32, seed=5)
    own = HOPPER.with_own_tiles(chosen)
    assert HOPPER.refusal(own) is None
    assert own == chosen.with_(block_m=128, block_n=128)


def test_a_device_that_is_not_the_one_it_needs_is_named():
    assert HOPPER.missing("9.0") is None
    assert "compute capability 9.0), and this GPU has 8.0" in str(HOPPER.missing("8.0"))
    assert "interpreter" in str(HOPPER.missing(""))


@pytest.mark.parametrize("name", ANYWHERE)
def test_the_others_take_every_problem_on_every_device(name):
    entry = ALGORITHMS[name]
    for problem in (PROBLEM, PROBLEM.with_(dtype="float32", head_dim=17, block_m=4)):
        assert entry.with_own_tiles(problem) == problem
        assert entry.refusal(problem, "") is None


def test_a_device_recorded_before_its_compute_capability_was_still_reads():
    old = {"backend": "cuda", "name": "NVIDIA H200", "torch": "2", "triton": "3", "python": "3"}
    assert DeviceInfo(**old).compute_capability == ""


# --- kernels with lanes ---


def test_names_and_labels_tell_kernels_apart():
    for field in ("name", "label"):
        values = [getattr(kernel, field) for _, kernel in LANES]
        assert len(set(values)) == len(values)
    assert [kernel.name for kernel in kernels_with_lanes("forward")] == ["flash2", "flash3"]
    assert kernels_with_lanes("backward") == (PLAIN, SWEEP)


@pytest.mark.parametrize(("entry", "kernel"), LANES, ids=[kernel.name for _, kernel in LANES])
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
    assert {kernel.name: kernel.launches for _, kernel in LANES if kernel.launches > 1} == {PLAIN.name: 2}
    assert [role.kernel for role in PLAIN.roles] == [each.name for each in ALGORITHMS["backward"].kernels[1:]]


@pytest.mark.parametrize(
    ("changes", "capability", "field"),
    [
        ({}, "9.0", None),
        ({"dtype": "float32"}, "9.0", "dtype"),
        ({"head_dim": 16}, "9.0", "head_dim"),
        ({"block_n": 64}, "9.0", "block_n"),
        ({}, "8.0", "algorithm"),
        ({}, "", "algorithm"),
    ],
)
def test_the_sweep_is_refused_where_it_cannot_run_and_the_plain_kernels_are_not(changes, capability, field):
    problem = AttentionProblem(block_m=64, block_n=128).with_(**changes)
    refused = SWEEP.refusal(problem, capability)
    assert (refused and refused.field) == field
    assert PLAIN.refusal(problem, capability) is None


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("backward_sweep", "64 x 128 tiles"),
        ("flash3", "128 x 128 tiles"),
        ("backward", "flash2, flash3, backward_plain, backward_sweep"),
    ],
)
def test_lanes_of_other_tiles_or_of_an_unknown_kernel_are_refused(kernel, words):
    with pytest.raises(InvalidProblem, match=words):
        run_lanes(AttentionProblem(block_m=64, block_n=64), kernel)
