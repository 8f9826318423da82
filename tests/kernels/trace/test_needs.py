"""What an algorithm needs: which problems and devices it refuses, and in which words."""

import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.device.backend import DeviceInfo
from kernels.problem import AttentionProblem, InvalidProblem
from tests.anywhere import ANYWHERE

HOPPER = ALGORITHMS["flash3"]
PROBLEM = AttentionProblem(head_dim=64, block_m=128, block_n=128)


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        (
            {"dtype": "float32"},
            "dtype",
            "dtype='float32' is not .* takes float16 or bfloat16. Choose",
        ),
        ({"head_dim": 16}, "head_dim", "head_dim=16 .* a multiple of 8 from 40 to 256. Choose"),
        ({"head_dim": 68}, "head_dim", "head_dim=68 .* a multiple of 8 from 40 to 256. Choose"),
        ({"block_m": 64}, "block_m", "block_m=64 .* runs with 128 x 128 tiles. Choose those"),
        ({"head_dim": 256}, "block_n", "block_n=128 .* head_dim 256, .* 128 x 64 tiles. Choose those"),
    ],
)
def test_a_problem_that_it_does_not_take_is_refused_with_field_accepted_and_remedy(changes, field, words):
    problem = PROBLEM.with_(**changes)
    refused = HOPPER.refusal(problem)
    assert refused.field == field
    with pytest.raises(InvalidProblem, match=words):
        run_traced(problem, "flash3")


def test_it_takes_its_own_tiles_and_leaves_all_else_of_the_problem():
    chosen = PROBLEM.with_(block_m=16, block_n=32, seed=5)
    own = HOPPER.with_own_tiles(chosen)
    assert HOPPER.refusal(own) is None
    assert own == chosen.with_(block_m=128, block_n=128)


def test_a_device_that_is_not_the_one_it_needs_is_named():
    assert HOPPER.missing("9.0") is None
    assert "compute capability 9.0), and this GPU has 8.0" in str(HOPPER.missing("8.0"))
    assert "here kernels run in Triton's interpreter" in str(HOPPER.missing(""))


@pytest.mark.parametrize("name", ANYWHERE)
def test_the_others_take_every_problem_on_every_device(name):
    entry = ALGORITHMS[name]
    for problem in (PROBLEM, PROBLEM.with_(dtype="float32", head_dim=17, block_m=4)):
        assert entry.with_own_tiles(problem) == problem
        assert entry.refusal(problem) is None
    assert entry.missing("") is None


def test_a_device_recorded_before_its_compute_capability_was_still_reads():
    old = {"backend": "cuda", "name": "NVIDIA H200", "torch": "2", "triton": "3", "python": "3"}
    assert DeviceInfo(**old).compute_capability == ""
