"""Nothing that the user's code does can move the verdict: it runs in a process that does not judge."""

import re
import time
from pathlib import Path

import pytest
import torch

from kernels.worker.failures import JobFailure

FILE = Path(__file__).parents[1] / "kernels/cheats.py"
SHAPE = {"q_len": 20, "kv_len": 25}


@pytest.mark.parametrize("function", ["off_by_five_percent", "nothing", "judges_itself"])
def test_who_changes_the_judges_tools_changes_its_own_process_alone(function, checked):
    result = checked(FILE, function, **SHAPE)
    assert result.verdict == "fail"
    assert not result.tensor("O").passes
    assert not torch.ones(1).abs().eq(0)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("by_address_and_version", "with other numbers in the same tensors"),
        ("by_shape", "with other numbers in the same tensors"),
        ("subclass", "Lazy"),
        ("into_the_query", "in the memory of query"),
        ("changes_later", "changed after it was returned"),
        ("leaves_quietly", "SystemExit"),
        ("leaves_at_once", "exit status 0"),
        ("leaves_later", "exit status 5"),
        ("closes_everything", "ended the process"),
    ],
)
def test_what_is_no_result_is_named_at_once(function, words, checked):
    began = time.monotonic()
    result = checked(FILE, function, **SHAPE)
    assert result.verdict == "fail"
    assert words in result.reason
    assert time.monotonic() - began < 60  # nothing waits for a time limit


def test_what_a_function_changes_of_its_process_is_said_and_does_no_harm(checked):
    result = checked(FILE, "changes_the_process", **SHAPE)
    assert result.verdict == "pass", result.reason
    (note,) = [note for note in result.notes if "It changes" in note]
    assert {"torch.get_default_dtype()", "os.environ['TRITON_INTERPRET']"} <= {
        *re.findall(r"\S+(?=[,.])", note)
    }


def test_one_function_is_not_judged_by_what_another_one_changed(checked):
    """In one process the first patches torch, which the second calls."""
    assert "torch.matmul" in " ".join(checked(FILE, "nothing", **SHAPE).notes)
    assert checked(FILE, "by_products", **SHAPE).verdict == "pass"
    with pytest.raises(JobFailure):
        checked(FILE, "takes_torch_away", **SHAPE)
    assert checked(FILE, "by_products", **SHAPE).verdict == "pass"
