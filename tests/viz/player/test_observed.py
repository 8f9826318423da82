"""A user's kernel in the player: its lines light up, and what is not seen is said."""

import json

import pytest

from kernels.device.runtime import DEVICE
from kernels.problem import AttentionProblem

if DEVICE != "cpu":
    pytest.skip("the interpreter is off on a GPU", allow_module_level=True)

from examples.buggy_kernel import attention_fixed
from kernels.algorithms import run_traced
from kernels.device.gpus import DEFAULT_GPU, GPUS
from kernels.problem.inputs import make_inputs
from kernels.sanitizer.play import play
from tests.kernels.sanitizer import cases
from viz.player.data import duel_data, player_data
from viz.player.html_page import export_html

GPU = GPUS[DEFAULT_GPU]
PROBLEM = AttentionProblem(q_len=40, kv_len=70, head_dim=16, q_heads=2, kv_heads=2, block_m=32, block_n=32)


@pytest.fixture(scope="module")
def trace():
    return play(PROBLEM, make_inputs(PROBLEM, DEVICE), attention_fixed, "mine.py:attention")


def test_the_lines_of_each_access_belong_to_its_phase(trace):
    data = player_data(trace, "run here", GPU)
    (kernel,) = data["kernels"]
    (_, lines, _) = kernel["source"]["lines"]
    phases = [phase["name"] for part in kernel["phases"] for phase in part]
    assert set(phases) == {phase for _, _, phase, _ in lines if phase}
    lit = {phase: text for _, text, phase, _ in lines if phase}
    assert "tl.load(v + " in next(text for phase, text in lit.items() if phase.startswith("load V"))


def test_what_is_not_seen_is_said_and_not_drawn(trace):
    data = player_data(trace, "run here", GPU)
    assert data["observed"]
    assert data["rows"]["values"] == {}
    (kernel,) = data["kernels"]
    assert (kernel["series"], kernel["bars"], kernel["parts"], kernel["cells"]) == ((), "", [], "plain")
    assert any("from outside" in note for note in data["notes"])


def test_it_plays_beside_ours_and_as_a_file(trace):
    ours = run_traced(trace.problem)
    data = duel_data((trace, "run here"), (ours, "run here"), GPU)
    json.dumps(data)
    assert [run["observed"] for run in data["runs"]] == [True, False]
    assert "mine.py:attention" in export_html(data["runs"][0])


def test_a_kernel_of_scratch_alone_has_no_strip():
    seen = play(PROBLEM, make_inputs(PROBLEM, DEVICE), cases.split_kv, "split")
    data = player_data(seen, "run here", GPU)
    assert {strip["name"] for strip in data["strips"]} == {"Q", "K", "V", "O"}
    assert {tensor["name"] for tensor in data["tensors"]} >= {"parts", "sums"}
