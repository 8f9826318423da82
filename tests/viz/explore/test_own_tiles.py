"""Explore with an algorithm that has its own tiles and needs a GPU: what it runs, shows and says.

A worker that the test plays says its device; the recordings are traces as if the algorithm had run.
"""

from types import SimpleNamespace

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from kernels.algorithms import ALGORITHMS
from kernels.device.backend import DeviceInfo
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from tests.app.pages import mounted_player, open_page
from tests.kernels.algorithms.flash3.as_if import as_if_run
from tests.viz.shared.fakes import FakeClient
from viz.shared import runs
from viz.shared.own_tiles import own_tiles

pytestmark = pytest.mark.usefixtures("impatient")

PROBLEM = AttentionProblem(q_len=256, kv_len=256, head_dim=64)
OWN = PROBLEM.with_(block_m=128, block_n=128)
LABEL = ALGORITHMS["flash3"].label
DEVICES = {
    "interpreter": DeviceInfo("interpreter", "a CPU", "2.9", "3.6", "3.12"),
    "ampere": DeviceInfo("cuda", "NVIDIA A100", "2.9", "3.6", "3.12", compute_capability="8.0"),
    "hopper": DeviceInfo("cuda", "NVIDIA H200", "2.9", "3.6", "3.12", compute_capability="9.0"),
}


# --- which tiles ---


def test_the_run_has_the_algorithms_tiles_and_the_page_says_so():
    tiles = own_tiles((PROBLEM, "flash3"), None)
    assert tiles.first == (OWN, "flash3")
    assert tiles.words == (
        f"**{LABEL} runs with its own tiles, 128 × 128.** Yours, 64 × 64, are kept for the other algorithms.",
    )
    assert own_tiles((OWN, "flash3"), None).words == ()
    assert own_tiles((PROBLEM, "flash2"), None) == ((PROBLEM, "flash2"), None, ())


@pytest.mark.parametrize("names", [("flash3", "flash2"), ("flash2", "flash3")])
def test_a_comparison_runs_both_on_the_same_tiles(names):
    tiles = own_tiles(*((PROBLEM, name) for name in names))
    assert [tiles.first, tiles.second] == [(OWN, name) for name in names]
    assert tiles.words[-1] == "FlashAttention-2 beside it runs with the same tiles."


def test_tiles_that_were_chosen_for_the_second_run_alone_stay():
    second = PROBLEM.with_(block_n=32), "flash2"
    assert own_tiles((PROBLEM, "flash3"), second).second == second


def test_of_a_problem_that_it_does_not_take_no_tiles_are_spoken_of():
    assert own_tiles((PROBLEM.with_(dtype="float32"), "flash3"), None).words == ()


@pytest.mark.usefixtures("stop_the_worker")
def test_the_url_and_the_controls_keep_the_tiles_of_the_user():
    app = open_page(**PROBLEM.with_(block_m=32).as_dict(), algorithm="flash3")
    assert not app.exception
    assert "".join(app.query_params["block_m"]) == "32"
    assert app.selectbox(key="block_m").value == 32
    assert any("runs with its own tiles, 128 × 128" in caption.value for caption in app.caption)


# --- where it cannot run ---


def script():
    """The run alone."""
    import streamlit as st

    from viz.explore.current_run import current_run

    given = st.session_state["given"]
    st.session_state["run"] = current_run(given.store, given.backend, given.problem, "flash3", st.container())


def opened(device, problem=OWN):
    app = AppTest.from_function(script)
    found = DEVICES.get(device)
    store = None if device == "replay" else runs.RunStore(FakeClient(found))
    backend = found.backend if found else device
    app.session_state["given"] = SimpleNamespace(store=store, backend=backend, problem=problem)
    app.run()
    assert not app.exception
    return app


def jobs(app):
    return app.session_state["given"].store.client.jobs


def said(app):
    return " ".join(element.value for element in [*app.info, *app.caption])


@pytest.fixture
def recorded(monkeypatch):
    """A recording of OWN and of the GPT-2 head, in place of those that are shipped."""
    problem = ALGORITHMS["flash3"].with_own_tiles(PRESETS["gpt2"].problem)
    run = runs.Run(as_if_run(OWN), None, recorded=True)
    replace_known(monkeypatch, {OWN: run, problem: run})
    return run


@pytest.fixture
def unrecorded(monkeypatch):
    """As if no run of it had been recorded yet."""
    replace_known(monkeypatch, {})


def replace_known(monkeypatch, known):
    links = "viz.explore.not_here.explore_link"
    monkeypatch.setattr(links, lambda label, problem, name: st.caption(f"link to {label}"))
    for module in ("current_run", "not_here"):
        monkeypatch.setattr(f"viz.explore.{module}.recorded_problems", lambda name: tuple(known))
    monkeypatch.setattr(runs, "recorded", lambda problem, name: known.get(problem))


@pytest.mark.parametrize("device", ["interpreter", "ampere"])
def test_without_its_gpu_its_recording_is_replayed_and_the_page_says_so(device, recorded):
    app = opened(device)
    assert app.session_state["run"].trace is recorded.trace
    assert jobs(app) == []
    assert "Run it here" not in [button.label for button in app.button]
    assert "**Replayed**" in said(app)
    assert "needs a Hopper GPU (compute capability 9.0)" in said(app)
    here = "Triton's interpreter" if device == "interpreter" else "This GPU, NVIDIA A100, has 8.0"
    assert here in said(app)


@pytest.mark.parametrize("device", ["interpreter", "ampere", "replay"])
def test_without_a_recording_it_says_what_it_needs_and_links_to_those_that_there_are(device, recorded):
    app = opened(device, OWN.with_(seed=3))
    assert app.session_state["run"] is None
    assert device == "replay" or jobs(app) == []
    assert "needs a Hopper GPU (compute capability 9.0)" in said(app)
    assert "not recorded for this problem" in said(app)
    assert f"link to {PRESETS['gpt2'].label}" in said(app)


def test_as_long_as_nothing_was_recorded_it_says_that(unrecorded):
    assert "None of its runs has been recorded yet" in said(opened("interpreter"))


@pytest.mark.parametrize("device", [*DEVICES, "replay", "starting"])
@pytest.mark.parametrize("changes", [{"dtype": "float32"}, {"head_dim": 16}])
def test_a_problem_that_it_does_not_take_is_refused_everywhere_at_once(device, changes, recorded):
    problem = ALGORITHMS["flash3"].with_own_tiles(OWN.with_(**changes))
    app = opened(device, problem)
    assert app.session_state["run"] is None
    assert device == "replay" or jobs(app) == []
    assert "is not accepted" in said(app)
    assert "link to" in said(app)


def test_until_the_worker_has_said_its_device_nothing_is_asked_of_it(recorded):
    app = opened("starting", OWN.with_(seed=3))
    assert jobs(app) == []
    assert app.session_state["run"].meanwhile  # another run stands in
    app = opened("starting")
    assert not app.session_state["run"].meanwhile
    assert "Run it here" not in [button.label for button in app.button]


def test_on_its_gpu_it_runs(recorded, unrecorded):
    assert [job.request.problem for job in jobs(opened("hopper"))] == [OWN]


def test_on_its_gpu_a_recording_can_be_run_anew(recorded):
    assert "Run it here" in [button.label for button in opened("hopper").button]


@pytest.mark.usefixtures("stop_the_worker")
def test_the_whole_page_plays_a_recording_of_it(recorded):
    app = open_page(**PROBLEM.as_dict(), algorithm="flash3")
    assert not app.exception
    data = mounted_player(app)["run"]
    assert data["title"].startswith(LABEL)
    assert [kernel["name"] for kernel in data["kernels"]] == ["_attn_fwd_hopper"]
    assert data["problem"]["block_m"] == 128
