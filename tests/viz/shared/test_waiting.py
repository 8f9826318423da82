"""Asking for a job and waiting for it: the button of long work, progress, cancel, failure and another try."""

from types import SimpleNamespace

import pytest

from kernels.problem import InvalidProblem
from kernels.worker.failures import Crashed, OutOfMemory
from tests.app.pages import run_script
from tests.kernels.worker.stub import Double
from tests.viz.shared.fakes import FakeClient, end
from viz.shared.runs import RunStore
from viz.shared.waiting import IMMEDIATE_S, job_words


def one_job():
    """A page that asks for one job and shows its result."""
    import streamlit as st

    from viz.shared.waiting import asked_job, result_of

    given = st.session_state["given"]
    if st.session_state.pop("another widget", False):
        st.rerun()
    job = asked_job(given.store, given.requests[0], given.seconds, "Run", notice=given.notice, key="ask")
    st.session_state["result"] = result_of(given.store, job, "one", wait_s=0) if job else None


def some_jobs():
    """A page that asks for several jobs at once and shows their results by number."""
    import streamlit as st

    from viz.shared.waiting import results_of

    given = st.session_state["given"]
    jobs = {request.number: given.store.job(request) for request in given.requests}
    st.session_state["result"] = results_of(given.store, jobs, "all", wait_s=0)


def opened(script, *numbers, seconds=0.0, notice=""):
    """The page and the client that it asks."""
    client, requests = FakeClient(), [Double(number) for number in numbers]
    given = SimpleNamespace(store=RunStore(client), requests=requests, seconds=seconds, notice=notice)
    return run_script(script, given), client


def drawn(app):
    app.run()
    assert not app.exception
    return app


def click(app, label):
    next(button for button in app.button if button.label == label).click()
    return drawn(app)


def labels(app):
    return [button.label for button in app.button]


def test_short_work_starts_at_once():
    app, client = opened(one_job, 21, seconds=IMMEDIATE_S)
    assert [job.request for job in client.jobs] == [Double(21)]
    assert "Run" not in labels(app)
    end(client.jobs[0])
    assert drawn(app).session_state["result"] == 42
    assert labels(app) == []
    assert len(client.jobs) == 1


def test_long_work_waits_for_the_button_and_says_why_also_after_a_failure():
    app, client = opened(one_job, 21, seconds=IMMEDIATE_S + 1, notice="This takes 9 s.")
    for jobs in (0, 1):
        assert len(client.jobs) == jobs
        assert labels(app) == ["Run"]
        assert [info.value for info in app.info] == ["This takes 9 s."]
        click(app, "Run")
        if not jobs:
            client.jobs[0].finish(failure=Crashed(-11))
            click(drawn(app), "Try again")
    end(client.jobs[1])
    assert drawn(app).session_state["result"] == 42
    assert not app.info


def test_a_click_is_not_lost_when_another_widget_starts_the_page_again_before_its_button():
    app, client = opened(one_job, 21, seconds=IMMEDIATE_S + 1)
    app.session_state["another widget"] = True
    click(app, "Run")
    assert [job.request for job in client.jobs] == [Double(21)]


def test_a_job_that_runs_shows_what_it_does_and_can_be_cancelled():
    app, client = opened(one_job, 21)
    job = client.jobs[0]
    assert app.session_state["result"] is None
    assert labels(app) == ["Cancel"]
    job.fraction, job.label = 0.25, "running the kernel"
    progress = drawn(app).get("progress")[0].proto
    assert (progress.value, progress.text) == (25, "running the kernel")
    client.ahead = 2
    assert job_words(job).startswith("2 jobs ahead")
    click(app, "Cancel")
    assert job.done
    assert [info.value for info in app.info] == ["Cancelled."]
    assert not app.error
    assert labels(app) == ["Try again"]
    assert len(client.jobs) == 1
    click(app, "Try again")
    assert len(client.jobs) == 2
    end(client.jobs[1])
    assert drawn(app).session_state["result"] == 42


@pytest.mark.parametrize(
    "failure", [Crashed(-11), OutOfMemory(10**10, 10**9), InvalidProblem("q_len", 0, "expected more")]
)
def test_a_failure_is_shown_until_the_reader_tries_again(failure):
    app, client = opened(one_job, 21)
    client.jobs[0].finish(failure=failure)
    for _ in range(2):
        drawn(app)
        assert [error.value for error in app.error] == [str(failure)]
        assert app.session_state["result"] is None
    assert len(client.jobs) == 1
    click(app, "Try again")
    assert len(client.jobs) == 2
    assert not app.error
    end(client.jobs[1])
    assert drawn(app).session_state["result"] == 42


def test_several_jobs_give_their_results_as_they_end():
    app, client = opened(some_jobs, 1, 2, 3)
    assert app.session_state["result"] == {}
    end(client.jobs[0])
    client.jobs[1].fraction = 0.5
    assert drawn(app).session_state["result"] == {1: 2}
    progress = app.get("progress")[0].proto
    assert progress.value == 50
    assert progress.text.startswith("run 2")
    end(client.jobs[1])
    end(client.jobs[2])
    assert drawn(app).session_state["result"] == {1: 2, 2: 4, 3: 6}
    assert not app.get("progress")


def test_cancel_stops_all_that_still_run_and_another_try_asks_only_for_what_failed():
    app, client = opened(some_jobs, 1, 2, 3)
    end(client.jobs[0])
    click(app, "Cancel")
    assert all(job.done for job in client.jobs)
    assert app.session_state["result"] == {1: 2}
    assert [info.value for info in app.info] == ["Cancelled."]
    click(app, "Try again")
    assert [job.request.number for job in client.jobs[3:]] == [2, 3]
    for job in client.jobs[3:]:
        end(job)
    assert drawn(app).session_state["result"] == {1: 2, 2: 4, 3: 6}


def test_a_job_that_ends_while_the_page_is_drawn_is_shown_at_once():
    app, client = opened(one_job, 21)
    job = client.jobs[0]

    def too_short(timeout_s):
        if not job.done:
            end(job)
            return False
        return True

    job.wait = too_short
    assert drawn(app).session_state["result"] == 42
    assert labels(app) == []
