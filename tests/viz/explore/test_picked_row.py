"""The row of large tiles that the URL opens: which run gives its numbers, by a worker that the test plays."""

from types import SimpleNamespace

import pytest

from kernels.algorithms import run_traced
from kernels.problem import AttentionProblem
from kernels.worker.requests import TraceRequest
from tests.app.pages import run_script
from tests.viz.shared.fakes import FakeClient, end
from viz.explore.choice import Machine
from viz.shared import runs

PROBLEM = AttentionProblem(q_len=70, kv_len=64, head_dim=16, block_m=32, block_n=32)


pytestmark = pytest.mark.usefixtures("impatient")


def script():
    """The run with its row alone."""
    import streamlit as st

    from viz.explore.asked_here import can_pick, with_picked_row

    given = st.session_state["given"]
    st.session_state["run"] = with_picked_row(given.machine, given.run)
    st.session_state["can_pick"] = can_pick(given.machine, given.run)


def opened(problem=PROBLEM, algorithm="flash2", backend="cuda", **query):
    run = runs.Run(run_traced(problem, algorithm), None, recorded=True)
    machine = Machine(backend, None, None if backend == "replay" else runs.RunStore(FakeClient()))
    return run_script(script, SimpleNamespace(machine=machine, run=run), **query)


def shown(app):
    return app.session_state["run"].trace


def jobs(app):
    return app.session_state["given"].machine.store.client.jobs


def test_the_kernel_runs_again_for_the_row_that_is_opened():
    app = opened(open="tile", row="0.37")
    (job,) = jobs(app)
    assert job.request == TraceRequest(PROBLEM, "flash2", None, 5)
    assert shown(app).matrices is None  # the run itself stays until the row is there
    end(job)
    app.run()
    assert shown(app).matrix_row == 5
    assert shown(app).acc is None
    assert shown(app).matrices["acc"].shape == (6, 1, 16)
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
    app = opened(**query)
    assert not jobs(app)
    assert shown(app).matrices is None


def test_small_tiles_have_all_their_numbers_already():
    app = opened(PROBLEM.with_(block_m=16, block_n=16), open="tile", row="0.3")
    assert not jobs(app)
    assert shown(app).matrix_row is None
    assert shown(app).matrices is not None


def test_where_no_row_can_be_run_the_player_is_told():
    for changes in ({"backend": "replay"}, {"algorithm": "standard"}):
        app = opened(open="tile", row="0.3", **changes)
        assert not app.session_state["can_pick"]
        assert shown(app).matrices is None
    assert opened().session_state["can_pick"]


def test_a_run_that_takes_a_while_waits_for_a_click_and_one_that_takes_too_long_is_not_offered(monkeypatch):
    monkeypatch.setattr(runs, "estimated_seconds", lambda *args: 500.0)
    app = opened(open="tile", row="0.3")
    assert (jobs(app), len(app.button)) == ([], 0)
    assert "about 8 min" in app.info[0].value
    monkeypatch.setattr(runs, "estimated_seconds", lambda *args: 20.0)
    app = opened(open="tile", row="0.3")
    assert not jobs(app)
    app.button[0].click().run()
    assert [job.request.row for job in jobs(app)] == [3]
