"""What Explore asks for beside a run: its lanes, and the row of large tiles that is opened."""

import dataclasses
from types import SimpleNamespace

import pytest

from kernels.algorithms import run_traced
from kernels.device.backend import DeviceInfo
from kernels.problem import AttentionProblem
from kernels.trace import Trace
from kernels.worker.failures import OutOfMemory
from kernels.worker.process import decode, encode
from kernels.worker.requests import TraceRequest
from tests.app.pages import run_script
from tests.lanes import backward_lanes, hopper_lanes, plain_lanes
from tests.viz.player.runs import hand_built
from tests.viz.shared.fakes import FakeClient, end
from viz.explore.asked_here import lanes_of
from viz.explore.choice import Machine
from viz.player import lanes as player_lanes
from viz.shared import runs

PROBLEM = AttentionProblem(q_len=256, kv_len=512, head_dim=64, block_m=128, block_n=128)
pytestmark = pytest.mark.usefixtures("impatient")
HOPPER_GPU = DeviceInfo("cuda", "Made-up GPU", "2.0", "3.0", "3.12", sm_count=4, compute_capability="9.0")
REPLAY = Machine("replay")
BUILT = {"flash2": plain_lanes(PROBLEM), "flash3": hopper_lanes(PROBLEM)}


@pytest.fixture
def known(monkeypatch):
    """Lanes by algorithm that are recorded."""
    found = {}
    monkeypatch.setattr(player_lanes, "recorded_lanes", lambda problem, name: found.get(name))
    player_lanes.recorded_lane_runs.cache_clear()
    yield found
    player_lanes.recorded_lane_runs.cache_clear()


@pytest.fixture(scope="module")
def trace() -> Trace:
    return hand_built(PROBLEM)


@pytest.fixture
def store():
    return runs.RunStore(FakeClient(HOPPER_GPU))


def names(found):
    return [each.lanes.kernel for each in found]


def test_a_recorded_run_has_the_lanes_of_its_problem_if_its_own_algorithm_has_some(known, trace):
    known |= BUILT
    run = runs.Run(trace, None, recorded=True)
    assert set(names(lanes_of(REPLAY, run))) == {"flash2", "flash3"}
    del known["flash2"]
    player_lanes.recorded_lane_runs.cache_clear()
    assert lanes_of(REPLAY, run) == ()  # those of other kernels alone are not shown
    known |= BUILT
    player_lanes.recorded_lane_runs.cache_clear()
    other = dataclasses.replace(trace, algorithm="flash1")
    assert lanes_of(REPLAY, runs.Run(other, None, recorded=True)) == ()


def script():
    import streamlit as st

    from viz.explore.asked_here import lanes_of

    st.session_state["found"] = lanes_of(*st.session_state["given"])


def opened(store, backend, trace):
    machine = Machine(backend, store.client.device, store)
    return run_script(script, (machine, runs.Run(trace, None, recorded=False)))


def test_a_run_of_here_is_measured_for_its_lanes_once_the_reader_asks(known, trace, store):
    app = opened(store, "cuda", trace)
    assert (app.session_state["found"], store.client.jobs) == ((), [])
    app.button[0].click().run()
    assert app.session_state["found"] == ()
    asked = {job.request.kernel: job for job in store.client.jobs}
    assert set(asked) == set(BUILT)
    for name, job in asked.items():
        job.finish(answer=decode(encode(BUILT[name])))
    app.run()
    found = app.session_state["found"]
    assert names(found) == sorted(BUILT, key=lambda name: BUILT[name].plain_us)
    assert not any(each.recorded for each in found)
    assert names(app.run().session_state["found"]) == names(found)
    assert app.session_state["found"] == found  # the same: the player is not sent anew


def test_a_failure_is_said_and_the_recorded_lanes_stay(known, trace, store):
    known |= BUILT
    app = opened(store, "cuda", trace)
    assert all(each.recorded for each in app.session_state["found"])
    app.button[0].click().run()
    for job in store.client.jobs:
        job.finish(failure=OutOfMemory(1 << 40, 1 << 30))
    app.run()
    assert not app.exception
    assert app.error
    assert all(each.recorded for each in app.session_state["found"])


# --- the backward pass: plain kernels, and the sweep as an algorithm of its own ---

WHOLE = PROBLEM.with_(block_m=64)
"""The backward sweep takes it."""
SWEEP, PLAIN = "backward_sweep", "backward_plain"
BACKWARD = {
    SWEEP: hopper_lanes(WHOLE, kernel=SWEEP, plain_us=5.0),
    PLAIN: backward_lanes(WHOLE, plain_us=8.0),
}


def played(trace, algorithm="backward", **changes):
    return dataclasses.replace(trace, algorithm=algorithm, problem=WHOLE.with_(**changes))


@pytest.mark.parametrize(
    ("changes", "capability", "wanted"),
    [({}, "9.0", [PLAIN, SWEEP]), ({}, "8.0", [PLAIN]), ({"head_dim": 16}, "9.0", [PLAIN])],
)
def test_the_sweep_is_measured_beside_the_plain_kernels_where_it_can_run(
    known, trace, store, changes, capability, wanted
):
    store.client.device = dataclasses.replace(HOPPER_GPU, compute_capability=capability)
    app = opened(store, "cuda", played(trace, **changes))
    app.button[0].click().run()
    assert [job.request.kernel for job in store.client.jobs] == wanted


@pytest.mark.parametrize("algorithm", ["backward", "flash3_backward"])
def test_both_are_shown_with_either_the_faster_one_first(known, trace, algorithm):
    known |= BACKWARD
    run = runs.Run(played(trace, algorithm), None, recorded=True)
    assert names(lanes_of(REPLAY, run)) == [SWEEP, PLAIN]


# --- the row of large tiles that the URL opens: by a worker that the test plays ---

LARGE = AttentionProblem(q_len=70, kv_len=64, head_dim=16, block_m=32, block_n=32)


def row_script():
    """The run with its row alone."""
    import streamlit as st

    from viz.explore.asked_here import can_pick, with_picked_row

    given = st.session_state["given"]
    st.session_state["run"] = with_picked_row(given.machine, given.run)
    st.session_state["can_pick"] = can_pick(given.machine, given.run)


def opened_row(problem=LARGE, algorithm="flash2", backend="cuda", **query):
    run = runs.Run(run_traced(problem, algorithm), None, recorded=True)
    machine = Machine(backend, None, None if backend == "replay" else runs.RunStore(FakeClient()))
    return run_script(row_script, SimpleNamespace(machine=machine, run=run), **query)


def shown_row(app):
    return app.session_state["run"].trace


def jobs(app):
    return app.session_state["given"].machine.store.client.jobs


def test_the_kernel_runs_again_for_the_row_that_is_opened():
    app = opened_row(open="tile", row="0.37")
    (job,) = jobs(app)
    assert job.request == TraceRequest(LARGE, "flash2", None, 5)
    assert shown_row(app).matrices is None  # the run itself stays until the row is there
    end(job)
    app.run()
    assert shown_row(app).matrix_row == 5
    assert shown_row(app).acc is None
    assert shown_row(app).matrices["acc"].shape == (6, 1, 16)
    app.query_params["row"] = "0.69"  # the last tile has six rows; this is its last
    app.run()
    assert [each.request.row for each in jobs(app)] == [5]  # the same offset: the numbers are there


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"row": "0.3"},
        {"open": "tile"},
        {"open": "tile", "row": "x.<b>"},
        {"open": "row", "row": "0.3"},
        {"open": "tile", "row": "0." + "9" * 5000},
    ],
)
def test_nothing_runs_for_a_row_that_is_not_opened(query):
    app = opened_row(**query)
    assert not jobs(app)
    assert shown_row(app).matrices is None


def test_small_tiles_have_all_their_numbers_already():
    app = opened_row(LARGE.with_(block_m=16, block_n=16), open="tile", row="0.3")
    assert not jobs(app)
    assert shown_row(app).matrix_row is None
    assert shown_row(app).matrices is not None


def test_where_no_row_can_be_run_the_player_is_told():
    for changes in ({"backend": "replay"}, {"algorithm": "standard"}):
        app = opened_row(open="tile", row="0.3", **changes)
        assert not app.session_state["can_pick"]
        assert shown_row(app).matrices is None
    assert opened_row().session_state["can_pick"]


def test_a_run_that_takes_a_while_waits_for_a_click_and_one_that_takes_too_long_is_not_offered(monkeypatch):
    monkeypatch.setattr(runs, "estimated_seconds", lambda *args: 500.0)
    app = opened_row(open="tile", row="0.3")
    assert (jobs(app), len(app.button)) == ([], 0)
    assert "about 8 min" in app.info[0].value
    monkeypatch.setattr(runs, "estimated_seconds", lambda *args: 20.0)
    app = opened_row(open="tile", row="0.3")
    assert not jobs(app)
    app.button[0].click().run()
    assert [job.request.row for job in jobs(app)] == [3]
