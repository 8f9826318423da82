"""What algorithms and kernels with lanes take and need, and how their roles fit what is played."""

import pytest

from kernels.algorithms import ALGORITHMS, kernels_with_lanes, lane_kernel, run_lanes, run_traced
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.trace.lanes import PRODUCT
from tests.anywhere import ANYWHERE

HOPPER, SWEEP, PLAIN = ALGORITHMS["flash3"], lane_kernel("backward_sweep"), lane_kernel("backward_plain")
PROBLEM = AttentionProblem(head_dim=64, block_m=128, block_n=128)
OF_SWEEP = PROBLEM.with_(block_m=64)
LANES = [(entry, kernel) for entry in ALGORITHMS.values() if (kernel := entry.lanes)]


@pytest.mark.parametrize(
    ("needing", "problem", "capability", "field", "accepted"),
    [
        (HOPPER, PROBLEM.with_(dtype="float32"), None, "dtype", "float16 or bfloat16"),
        (HOPPER, PROBLEM.with_(head_dim=16), None, "head_dim", "a multiple of 8 from 40 to 256"),
        (HOPPER, PROBLEM.with_(head_dim=68), None, "head_dim", "a multiple of 8 from 40 to 256"),
        (HOPPER, OF_SWEEP, None, "block_m", "128 x 128 tiles"),
        (HOPPER, PROBLEM.with_(head_dim=256), None, "block_n", "128 x 64 tiles"),
        (HOPPER, PROBLEM, "8.0", "algorithm", "compute capability 9.0), and this GPU has 8.0"),
        (HOPPER, PROBLEM, "", "algorithm", "interpreter"),
        (SWEEP, OF_SWEEP.with_(head_dim=16), "9.0", "head_dim", "a multiple of 8"),
        (SWEEP, OF_SWEEP.with_(block_n=64), "9.0", "block_n", "64 x 128 tiles"),
        (SWEEP, OF_SWEEP, "8.0", "algorithm", "8.0"),
    ],
)
def test_what_it_does_not_take_is_refused_with_field_and_accepted(
    needing, problem, capability, field, accepted
):
    refused = needing.refusal(problem, capability)
    assert refused.field == field
    assert accepted in str(refused)
    assert PLAIN.refusal(problem, capability) is None
    if capability is None:
        with pytest.raises(InvalidProblem, match=f"{field}=.* is not accepted: .* Choose"):
            run_traced(problem, HOPPER.name)


def test_a_device_and_tiles_that_fit_are_taken_and_the_other_algorithms_take_any():
    assert HOPPER.refusal(PROBLEM, "9.0") is SWEEP.refusal(OF_SWEEP, "9.0") is None
    chosen = PROBLEM.with_(block_m=16, block_n=32, seed=5)
    assert HOPPER.with_own_tiles(chosen) == PROBLEM.with_(seed=5)
    for name in ANYWHERE:
        for problem in (PROBLEM, PROBLEM.with_(dtype="float32", head_dim=17, block_m=4)):
            assert ALGORITHMS[name].with_own_tiles(problem) == problem
            assert ALGORITHMS[name].refusal(problem, "") is None


@pytest.mark.parametrize(
    ("run", "name", "words"),
    [
        (run_traced, "flash9", r"algorithm='flash9' .* one of flash2, flash1"),
        (run_lanes, "flash3", "128 x 128 tiles"),
        (run_lanes, "backward", "flash2, flash3, backward_plain, backward_sweep"),
    ],
)
def test_an_unknown_name_and_lanes_of_other_tiles_are_refused(run, name, words):
    with pytest.raises(InvalidProblem, match=words):
        run(AttentionProblem(block_m=64, block_n=64), name)


def test_kernels_with_lanes_are_told_apart():
    for name in ("label", "name"):
        assert len({getattr(kernel, name) for _, kernel in LANES}) == len(LANES)
    assert [kernel.name for kernel in kernels_with_lanes("forward")] == ["flash2", "flash3"]
    assert kernels_with_lanes("backward") == (PLAIN, SWEEP)


@pytest.mark.parametrize(("entry", "kernel"), LANES, ids=[kernel.name for _, kernel in LANES])
def test_a_role_that_names_a_kernel_has_phases_of_that_kernel(entry, kernel):
    for role in kernel.roles:
        played = [each for each in entry.kernels if role.kernel in ("", each.name)]
        phases = {phase.name: phase for each in played for phase in each.phases}
        for activity in role.activities:
            assert activity.phase in phases
            assert {activity.begin, activity.end} <= set(role.marks)
            facts = {"kernel": role.kernel, "phase": activity.phase}
            assert facts.items() <= kernel.facts(activity.name).items()
            if activity.kind == PRODUCT:
                made = {"QK^T": "S", "PV": "O"}.get(activity.name, activity.name.removesuffix("^T"))
                assert made in phases[activity.phase].makes
    assert set(kernel.facts("something else").values()) == {""}
