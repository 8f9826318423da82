"""Which variations change bits, and how the distance in units in the last place is counted."""

from pathlib import Path

import msgspec
import pytest
import torch

from kernels.check.case.cases import CheckCase
from kernels.check.judge.compare import difference, ulps_between
from kernels.check.judge.vary import run_determinism, run_sensitivity
from kernels.check.result import Determinism
from kernels.device.runtime import INTERPRETED
from tests.kernels.helpers import rows_keep_their_bits, tiny
from tests.kernels.sanitizer import cases as memory_cases

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


def test_the_number_of_parts_changes_bits_of_split_kv_and_is_told_in_ulps():
    problem = PROBLEM.with_(q_len=4, kv_splits=2, dtype="float16")
    determinism = run_determinism(CheckCase(problem, "split_kv", gradients=False, repeats=1))
    one, two, *_ = (each for each in determinism.variations if each.kind == "splits")
    assert (one.equal, two.equal) == (False, True)
    assert changing(determinism) == {"splits"}
    assert msgspec.convert(msgspec.to_builtins(determinism), Determinism) == determinism


def test_under_a_mask_rows_stay_where_they_are():
    determinism = run_determinism(CheckCase(PROBLEM.with_(mask="causal", q_heads=1, kv_heads=1), "sdpa"))
    assert {each.kind for each in determinism.variations} == {"runs", "batch"}
    assert any("not moved" in note for note in determinism.notes)


def test_a_kernel_that_refuses_says_why(of_user):
    assert "fails" in run_determinism(of_user("raise NotImplementedError('fails')")).notes[0]


RIGHT = "return torch.softmax((q @ k.mT).float() * q.shape[-1] ** -0.5, -1).to(v.dtype) @ v"
AS_CONTIGUOUS = "q, k, v = (t.as_strided(t.shape, q.new_empty(t.shape).stride()) for t in (q, k, v))"


@pytest.mark.parametrize(
    ("change", "layout", "passes"),
    [
        (RIGHT.replace("return ", "out = ") + "; q.mul_(2); return out", "contiguous", True),
        (f"{AS_CONTIGUOUS}; {RIGHT}", "contiguous", True),
        (f"{AS_CONTIGUOUS}; {RIGHT}", "transposed", False),
    ],
)
def test_other_scales_are_run_on_fresh_tensors_in_the_layout_of_the_case(change, layout, passes, of_user):
    first = run_sensitivity(of_user(change, layout=layout)).scales[0]
    assert (first.label, first.passes) == ("2^0", passes)


@pytest.mark.skipif(not INTERPRETED, reason="memory is watched in the interpreter only")
@pytest.mark.parametrize("vary", [run_determinism, run_sensitivity])
def test_what_leaves_its_tensors_is_found_and_not_done_while_the_case_is_varied(vary, named):
    named(Path(memory_cases.__file__), "writes_past_output")
    problem = tiny(20, 32)
    notes = vary(CheckCase(problem, "user", False, 2)).notes
    assert any(note.startswith("Found while these ran: out-of-bounds write: ") for note in notes), notes
