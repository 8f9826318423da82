"""The panels of Explore: the player's state in the URL, the timeline, words on the mask and downloads."""

import dataclasses
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.device.gpus import GPUS
from kernels.oracle.rule import judge_trace
from kernels.problem import AttentionProblem
from kernels.problem.tiles import count_tiles
from kernels.trace import Trace
from tests.app.pages import run_script
from tests.lanes import hopper_lanes, plain_lanes
from viz.explore import panels
from viz.player.lanes import LanesRun
from viz.shared import runs

GPU = GPUS["A100"]
PROBLEM = AttentionProblem(q_len=50, kv_len=64, head_dim=16, block_m=16, block_n=16, mask="causal", q_heads=2)


@pytest.fixture(scope="module")
def run():
    trace = run_traced(PROBLEM, "flash2")
    return runs.Run(trace, judge_trace(trace), recorded=False)


def script():
    """One panel, as the test asks for it."""
    import streamlit as st

    given = st.session_state["given"]
    given.panel(*given.arguments)


def opened(panel, *arguments, **query):
    return run_script(script, SimpleNamespace(panel=panel, arguments=arguments), **query)


def url(app):
    return {name: value if isinstance(value, str) else value[0] for name, value in app.query_params.items()}


def numbers(text):
    return [int(word.replace(",", "")) for word in re.findall(r"(?<![\w.])\d[\d,]*", text)]


@pytest.fixture
def player(monkeypatch):
    """Stands in for the player: `given` is what it was shown with, `state` what it answers, if not None."""
    stand_in = SimpleNamespace(given=None, state=None)

    def show_player(data, key, state, runs_rows=False):
        stand_in.given = SimpleNamespace(data=data, key=key, state=dict(state))
        return dict(state) if stand_in.state is None else stand_in.state

    monkeypatch.setattr(panels, "show_player", show_player)
    return stand_in


def test_the_player_starts_in_the_state_of_the_url_and_puts_its_own_there(run, player):
    app = opened(panels.player_panel, run, GPU, step="3.1", row="1.20", q_len="50")
    assert player.given.state == {"step": "3.1", "row": "1.20"}
    assert player.given.data["provenance"] == run.provenance
    assert url(app) == {"step": "3.1", "row": "1.20", "q_len": "50"}
    player.state = {"step": "7"}
    assert url(app.run()) == {"step": "7", "q_len": "50"}


@pytest.fixture
def lanes():
    return LanesRun(hopper_lanes(PROBLEM), True), LanesRun(plain_lanes(PROBLEM), True)


def test_the_player_has_the_lanes_and_the_url_says_whether_they_are_open(run, player, lanes):
    app = opened(panels.player_panel, run, GPU, lanes, lanes="open")
    assert player.given.state == {"lanes": "open"}
    titles = [each["title"] for each in player.given.data["lanes"]["runs"]]
    assert titles == [each.kernel.label for each in lanes]
    player.state = {"step": "2"}
    assert url(opened(panels.player_panel, run, GPU, lanes, lanes="open")) == {"step": "2"}
    opened(panels.player_panel, run, GPU)
    assert "lanes" not in player.given.data
    assert not app.exception


def bars(app):
    return json.loads(app.get("plotly_chart")[0].proto.spec)["data"][0]


def test_without_a_clock_the_timeline_is_modelled_on_the_chosen_gpu(run, monkeypatch):
    few = dataclasses.replace(GPU, sm_count=3)
    app = opened(panels.timeline_panel, run, few)
    words = app.caption[0].value
    assert words.startswith("**Modelled**")
    programs = PROBLEM.q_heads * PROBLEM.q_tiles
    spans = [detail[6:8] for detail in bars(app)["customdata"]]
    busy = 100 * sum(end - start for start, end in spans) / (3 * max(end for _, end in spans))
    assert numbers(words.split(GPU.name)[1]) == [programs, 3, 3, round(busy)]
    assert len(bars(app)["customdata"]) == programs
    for module in ("panels", "figures"):
        monkeypatch.setattr(f"viz.explore.{module}.MAX_SPANS", 5)
    app = opened(panels.timeline_panel, run, few)
    assert numbers(app.caption[0].value)[-1] == 5
    assert [detail[6] for detail in bars(app)["customdata"]][:3] == [0, 0, 0]
    assert len(bars(app)["customdata"]) == 5


@pytest.mark.parametrize("mask", ["full", "causal", "window"])
def test_the_mask_is_counted_over_all_heads(mask):
    problem = PROBLEM.with_(mask=mask, window_left=9, batch=3)
    words, counts = panels.mask_words(problem, ALGORITHMS["flash2"]), count_tiles(problem)
    expected = [counts.full, *(count for count in (counts.partial, counts.skipped) if count)]
    assert numbers(words)[: len(expected)] == expected
    assert (f"{100 * counts.skipped / counts.all:.0f} %" in words) == (counts.skipped > 0)


@pytest.fixture
def downloads(run, lanes, monkeypatch):
    """{ending of the file's name: content} of what can be taken along."""
    found = {}

    def download_button(label, data, name, *rest, **named):
        found[name.partition("16x16.")[2]] = data()

    monkeypatch.setattr("viz.shared.layout.st.download_button", download_button)
    opened(panels.take_away, run, GPU, lanes)
    return found


def test_what_is_taken_along_is_the_run_with_its_lanes(downloads, run, lanes):
    trace = Trace.load(downloads["npz"])
    assert trace.problem == PROBLEM
    assert np.array_equal(trace.row_sum, run.trace.row_sum, equal_nan=True)
    assert np.array_equal(trace.output, run.trace.output)
    found = re.search(
        r'<script type="application/json" id="run">(.*?)</script>', downloads["html"], re.DOTALL
    )
    data = json.loads(found[1].replace("<\\/", "</"))["run"]
    assert (data["steps"]["count"], data["provenance"]) == (run.trace.steps, run.provenance)
    assert len(data["lanes"]["runs"]) == len(lanes)
