"""Which variations change bits, and how the distance in units in the last place is counted."""

import pytest
import torch

from kernels.check.case.cases import UPLOADED, CheckCase
from kernels.check.judge.compare import difference, ulps_between
from kernels.check.judge.determinism import run_determinism
from kernels.problem import InvalidProblem
from tests.kernels.helpers import rows_keep_their_bits, tiny

PROBLEM = tiny(20, 40, q_heads=2, kv_heads=2, dtype="float32")


@pytest.fixture
def of_user(named):
    def case(change, **fields):
        named(f"import torch\ncount = [0]\ndef attention(q, k, v):\n    {change}\n")
        return CheckCase(PROBLEM, "user", gradients=False, repeats=1, **fields)

    return case


def changing(determinism):
    assert not any(each.refused for each in determinism.variations)
    return {each.kind for each in determinism.variations if each.differences}


@pytest.mark.parametrize(
    ("change", "kinds"),
    {
        "return 2 * q": set(),
        "count[0] += 1; return q + count[0]": {"runs", "batch", "place"},
        "return q + q.shape[0]": {"batch"},
        "return q + torch.arange(q.shape[2])[:, None]": {"place"},
        "return q + torch.arange(q.shape[1])[:, None, None]": {"place"},
        "return q + q.abs().max()": {"place"},
    }.items(),
    ids=["right", "counts its runs", "batch", "row", "head", "largest of all"],
)
def test_what_the_bits_depend_on_is_found(change, kinds, of_user):
    assert changing(run_determinism(of_user(change))) == kinds


def test_one_ulp_is_told():
    one, other = torch.tensor([1.0, -2.0, 0.0, -1e-45]), torch.tensor([1.0, -2.0, -0.0, 1e-45])
    other[:2] = torch.nextafter(one[:2], torch.tensor(9.0))
    assert ulps_between(one, other).tolist() == [1, 1, 0, 2]
    half = torch.tensor([1.0, 2.0]).half()
    assert ulps_between(half, torch.tensor([1.0, 2.002]).half()).tolist() == [0, 1]
    found = difference("O", one, one + torch.tensor([0, 0, 0, 0.5]))
    assert (found.elements, found.of, found.largest) == (1, 4, 0.5)
    assert difference("O", one, one.clone()) is None


def test_ours_give_the_same_bits_in_every_batch_and_place():
    problem = PROBLEM.with_(dtype="float16", q_len=18, kv_len=18)
    determinism = run_determinism(CheckCase(problem, "flash2", repeats=1))
    assert changing(determinism) <= (set() if rows_keep_their_bits() else {"place"})
    assert {each.kind for each in determinism.variations} == {"runs", "batch", "place"}
    has_dk = {each.label: "dK" in each.tensors for each in determinism.variations}
    assert has_dk["heads in reverse"]
    assert not has_dk["row 9 alone"]


def test_under_a_mask_rows_stay_where_they_are():
    determinism = run_determinism(CheckCase(PROBLEM.with_(mask="causal", q_heads=1, kv_heads=1), "sdpa"))
    assert {each.kind for each in determinism.variations} == {"runs", "batch"}
    assert any("not moved" in note for note in determinism.notes)


def test_a_kernel_that_refuses_says_why(of_user):
    assert "fails" in run_determinism(of_user("raise NotImplementedError('fails')")).notes[0]


def test_a_result_from_a_file_cannot_be_run_again():
    with pytest.raises(InvalidProblem, match="cannot be run again"):
        run_determinism(CheckCase(PROBLEM, UPLOADED))
