"""The run that Explore shows, drawn, by a worker that the test plays: awaited, replaced, failed."""

from types import SimpleNamespace

import pytest

from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from kernels.worker.failures import OutOfMemory
from tests.app.pages import run_script
from tests.viz.shared.fakes import FakeClient, end
from viz.explore.choice import Machine
from viz.shared.run_request import RunRequest
from viz.shared.runs import RunStore

SMALL = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=32, block_n=32)
LONG = SMALL.with_(q_len=131072, kv_len=131072, mask="causal", block_m=64, block_n=64)

pytestmark = pytest.mark.usefixtures("impatient")


def script():
    """The run alone."""
    import streamlit as st

    from viz.explore.panels import shown_run

    given = st.session_state["given"]
    st.session_state["run"] = shown_run(given.machine, given.request, st.container() if given.first else None)


def opened(problem, algorithm="flash2", backend="cuda", first=True):
    machine = Machine(backend, None, RunStore(FakeClient()))
    request = RunRequest(problem, algorithm)
    return run_script(script, SimpleNamespace(machine=machine, request=request, first=first))


def change(app, problem):
    app.session_state["given"].request = RunRequest(problem, "flash2")
    return app.run()


def shown(app):
    return app.session_state["run"]


def jobs(app):
    return app.session_state["given"].machine.store.client.jobs


def labels(app):
    return [button.label for button in app.button]


def test_a_long_run_is_sampled_at_once_and_traced_whole_after_a_click():
    app = opened(LONG)
    assert "**Sample**" in app.caption[0].value
    next(button for button in app.button if button.label == "Trace the whole run").click().run()
    assert [job.request.sample is None for job in jobs(app)] == [False, True]
    assert not app.caption


def test_a_recording_and_a_run_that_takes_long_are_run_after_a_click():
    app = opened(PRESETS["tiny"].problem)
    assert (shown(app).recorded, jobs(app)) == (True, [])
    next(button for button in app.button if button.label == "Run it here").click().run()
    assert [job.request.problem for job in jobs(app)] == [PRESETS["tiny"].problem]
    app = opened(LONG, "flash1")  # it takes long, and has no sample
    assert (jobs(app), labels(app), shown(app).meanwhile) == ([], ["Run"], True)
    app.button[0].click().run()
    assert len(jobs(app)) == 1


def test_while_a_run_is_awaited_a_recording_stands_in_and_then_the_run_before():
    app = opened(LONG)
    assert shown(app).meanwhile
    assert "1024 × 1024" in app.info[0].value
    change(app, SMALL)
    end(jobs(app)[-1])
    app.run()
    assert (shown(app).trace.problem, shown(app).meanwhile) == (SMALL, False)
    change(app, LONG.with_(seed=2))
    assert (shown(app).trace.problem, shown(app).meanwhile) == (SMALL, True)
    assert "64 × 64" in app.info[0].value


def test_a_problem_that_was_changed_before_its_run_began_is_not_run():
    app = opened(SMALL)
    for seed in (1, 2):
        change(app, SMALL.with_(seed=seed))
    assert [job.done for job in jobs(app)] == [True, True, False]
    jobs(app)[2].started = True
    change(app, SMALL)
    assert [job.done for job in jobs(app)] == [True, True, False, False]
    assert not app.error
    end(jobs(app)[3])
    app.run()
    assert shown(app).trace.problem == SMALL


def test_nothing_stands_in_for_a_failure_or_for_the_second_run():
    app = opened(SMALL)
    jobs(app)[0].finish(failure=OutOfMemory(10**12, 10**9))
    app.run()
    assert shown(app) is None
    assert "Out of memory" in app.error[0].value
    second = opened(LONG, first=False)
    assert shown(second) is None
    assert (len(second.info), len(second.caption), labels(second)) == (0, 0, ["Cancel"])
