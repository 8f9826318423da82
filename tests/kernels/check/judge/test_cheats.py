"""Nothing that the user's code does can move the verdict: it runs in a process that does not judge."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from kernels.check.case.battery import battery
from kernels.check.judge.run import run_check
from kernels.check.subject.user_kernel import UserKernel, name_user_kernels
from kernels.device.runtime import BACKEND
from kernels.oracle.rule import OutputReferences
from kernels.worker.failures import JobFailure
from kernels.worker.process import HOST
from tests.kernels.check.conftest import TINY

FILE = Path(__file__).parents[1] / "kernels/cheats.py"
SHAPE = {"q_len": 20, "kv_len": 25}


@pytest.fixture
def alone():
    """The result of a function's check in a process of its own, as outside of tests."""

    def check(function):
        name_user_kernels([UserKernel.parse(f"{FILE}:{function}")])
        return run_check(replace(TINY, problem=TINY.problem.with_(**SHAPE)))

    yield check
    HOST.end()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("leaves_later", "exit status 0"),
        ("closes_everything", "ended the process"),
        ("answers_with_nothing", "its process gave 0 bytes"),
    ],
)
def test_how_its_process_ends_or_answers_is_named(function, words, alone):
    result = alone(function)
    assert (result.verdict, words in result.reason) == ("fail", True)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("by_address_and_version", "with other numbers in other tensors in the same memory"),
        ("by_shape", "with other numbers of this shape"),
        ("subclass", "Lazy"),
        ("into_the_query", "in the memory of query"),
        ("changes_later", "changed after the call"),
        ("first_lse", "in new tensors too: lse is off"),
        ("two_buffers_in_turn", "its result changed after the call"),
        ("clears_the_inputs_before", "an input of an earlier call changed"),
        ("clears_the_mask", "changes its mask"),
        ("writes_beside_its_views", "memory around query"),
        ("sparse", "expected an ordinary one"),
        ("says_two_lines", "Error PASS"),
    ],
)
def test_what_is_no_result_is_named(function, words, checked):
    case = {"writes_beside_its_views": {"layout": "sliced"}, "clears_the_mask": {"mask": "window"}}
    result = checked(FILE, function, **SHAPE, **case.get(function, {}))
    assert result.verdict == "fail"
    assert words in result.reason
    assert result.reason.isprintable()


@pytest.mark.parametrize("seed", [0, 5])
def test_a_mask_that_is_kept_by_its_shape_is_found_by_the_next_case_of_that_shape(seed, checked):
    cases = [case for case in battery(TINY, seed) if case.problem.mask in ("causal", "window")]
    masked = [case for case in cases if case.problem.q_len < case.problem.kv_len]
    results = [checked(FILE, "by_shape_of_the_mask", case=case) for case in masked]
    assert [result.verdict for result in results] == ["pass", "fail"]


def test_a_reference_that_is_not_off_at_all_ends_the_check(monkeypatch, checked):
    of = OutputReferences.of

    def without_error(*given):
        references = of(*given)
        return replace(references, exact=references.naive.double())

    monkeypatch.setattr(OutputReferences, "of", without_error)
    assert checked(FILE, "by_products", kv_len=1).verdict == "pass"  # O is V, without any rounding
    with pytest.raises(JobFailure, match="float16"):
        checked(FILE, "by_products", **SHAPE)


def test_a_kernel_is_required_whose_stores_reach_the_result(checked):
    source = (FILE.parent / "planted.py").read_text()
    assert checked(FILE, "launches_for_show", **SHAPE).verdict == "pass"
    for function, verdict in (("launches_for_show", "fail"), ("by_products", "fail")):
        assert checked(FILE, function, requires_kernel=True, **SHAPE).verdict == verdict
    assert checked(source, "right", requires_kernel=True, **SHAPE).verdict == "pass"


def test_a_file_that_changes_during_the_check_has_no_verdict(checked):
    source = f"open(__file__, 'a').write('# another')\n{FILE.read_text()}"
    result = checked(source, "by_products", **SHAPE)
    assert (result.verdict, "changed during the check" in result.reason) == ("error", True)


def test_what_a_function_changes_of_its_process_does_no_harm(alone):
    result = alone("changes_the_process")
    assert result.verdict == "pass", result.reason


def test_who_changes_torch_or_the_judges_tools_changes_its_own_process_alone(alone):
    """In one process each would change what the next one calls."""
    with pytest.raises(JobFailure):
        alone("takes_torch_away")
    result = alone("nothing")
    assert (result.verdict, result.tensor("O").passes) == ("fail", False)
    assert not torch.ones(1).abs().eq(0)


@pytest.mark.skipif(BACKEND == "cuda", reason="the interpreter's note")
def test_a_file_that_asks_where_it_runs_may_run_other_code_on_a_gpu(checked):
    asks = "import os\nON_A_GPU = os.environ.get('TRITON_INTERPRET') != '1'\n"
    source = "import torch\ndef attention(q, k, v):\n    return torch.softmax(q @ k.mT / 4, -1) @ v\n"
    for text, said in ((source, False), (asks + source, True)):
        assert any("TRITON_INTERPRET" in note for note in checked(text, **SHAPE).notes) == said
