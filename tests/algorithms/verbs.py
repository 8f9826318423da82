"""What everyone can do with the algorithm of `two_pass/`, which nothing but its folder knows of.

Run by `tests/test_eighth_algorithm.py` in a process that finds the folder; pytest does not collect this file
by itself.
"""

import json

import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.algorithms.two_pass import run
from kernels.check.case.cases import CheckCase, kernels_on
from kernels.check.judge.run import run_check
from kernels.check.requests import CheckRequest
from kernels.device.gpus import GPUS
from kernels.oracle.rule import judge_trace
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from kernels.trace import Trace
from kernels.trace.schedule import program_spans, step_schedule
from kernels.worker.requests import TraceRequest
from tests.app.pages import drawn_with_results, mounted_player, open_page
from tests.kernels.helpers import tiny
from viz.player.data import player_data
from viz.player.html_page import export_html
from viz.shared import runs

pytestmark = pytest.mark.usefixtures("own_store")

NAME = "two_pass"
ENTRY = ALGORITHMS[NAME]
SMALL = {"q_len": 64, "kv_len": 48, "block_m": 32, "block_n": 16, "head_dim": 16}
PROBLEM = tiny(72, 56, mask="causal", q_heads=2, kv_heads=1)


def explore(page="", request=TraceRequest, **query):
    """Explore, or another page, once the worker has given what it was asked for."""
    runs.run_store().client.wait_ready(60)
    app = drawn_with_results(open_page(page, **query), request)
    assert not app.exception
    return app


def shown(app):
    """The component's data, and where it starts."""
    mounted = mounted_player(app)
    return mounted["run"], mounted["state"]


def declared_phases():
    return [phase.name for kernel in ENTRY.kernels for phase in kernel.phases]


def test_it_runs_in_the_worker_plays_with_its_phases_and_is_taken_along():
    app = explore(**SMALL, algorithm=NAME)
    for choice in ("algorithm", "versus"):
        assert app.selectbox(key=choice).options[-1] == ENTRY.label
    data, _ = shown(app)
    assert data["title"].startswith("Two passes, 64 × 48")
    assert data["provenance"].startswith("run here")
    assert data["steps"]["count"] == 2 * 2 * 3
    phases = [phase["name"] for kernel in data["kernels"] for part in kernel["phases"] for phase in part]
    assert phases == declared_phases()
    lit = {line[2] for kernel in data["kernels"] for part in kernel["source"]["lines"] for line in part}
    assert lit == set(phases)
    errors = [metric for metric in app.metric if metric.label == "Largest error of the result · measured"]
    assert errors[0].delta.startswith("passes")
    assert len(app.get("download_button")) == 2


def test_it_races():
    data, place = shown(explore(**SMALL, algorithm="flash2", versus=NAME, place="bytes:250"))
    assert place == {"place": "bytes:250"}
    assert data["runs"][1]["title"].startswith("Two passes")


def test_it_is_counted():
    trace = run_traced(PROBLEM, NAME)
    assert trace.steps == ENTRY.steps(PROBLEM) == 2 * 2 * 5 * 4
    assert trace.total_bytes == ENTRY.requested_bytes(PROBLEM)
    assert judge_trace(trace).passes
    moved = trace.tensor_bytes_read.sum(axis=0)
    assert moved[trace.tensors.index("K")] == 2 * moved[trace.tensors.index("V")]


def test_it_is_checked():
    assert NAME in kernels_on("interpreter", users=0)
    result = run_check(CheckCase(PROBLEM, kernel=NAME))
    assert result.verdict == "pass"
    assert [tensor.name for tensor in result.tensors] == ["O", "lse"]


def test_the_check_page_checks_it():
    app = explore("check", CheckRequest, **SMALL, kernel=NAME)
    assert app.selectbox(key="kernel").value == NAME
    assert any("PASSES" in title.value for title in [*app.subheader, *app.header, *app.markdown])


def test_it_fails_its_check_if_it_is_broken(monkeypatch):
    weights = run._weights
    monkeypatch.setattr(run, "_weights", lambda s, m, l: weights(s, m, l) * 1.1)
    assert run_check(CheckCase(PROBLEM, kernel=NAME)).verdict == "fail"
    assert not judge_trace(run_traced(PROBLEM, NAME)).passes


def test_it_is_exported():
    trace = run_traced(PROBLEM, NAME)
    page = export_html(player_data(trace, "here", GPUS["H100"]))
    assert all(json.dumps(phase) in page for phase in declared_phases())
    again = Trace.load(trace.to_bytes(compress=True))
    assert (again.algorithm, again.steps) == (NAME, trace.steps)
    spans = program_spans(trace, step_schedule(trace, ENTRY, GPUS["H200"]), ENTRY)
    assert {span.kernel for span in spans} == {"first pass, second pass"}


def test_a_missing_recording_is_no_failure(monkeypatch):
    (preset,) = ENTRY.recorded
    problem = PRESETS[preset].problem
    assert recorded_run(problem, NAME) is None
    data, _ = shown(explore(**problem.as_dict(), algorithm=NAME))
    assert data["provenance"].startswith("run here")
    monkeypatch.setattr(runs, "run_store", lambda: None)
    without = open_page(**problem.as_dict(), algorithm=NAME)
    assert not without.exception
    assert "no recording of Two passes" in without.info[0].value
