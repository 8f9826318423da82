"""The run store: who shares a job, what is forgotten, and what runs and estimates say."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.device.backend import DeviceInfo
from kernels.problem import AttentionProblem
from kernels.worker.failures import Crashed
from kernels.worker.requests import TraceRequest
from tests.kernels.worker.stub import Double
from tests.viz.player.runs import hand_built
from tests.viz.shared.fakes import FakeClient, end
from viz.shared import runs
from viz.shared.runs import REMEMBERED, RunStore, backend

PROBLEM = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=16)


@pytest.fixture
def client():
    return FakeClient()


@pytest.fixture
def store(client):
    return RunStore(client)


def test_equal_requests_are_one_job_and_others_are_not(store, client):
    assert store.peek(TraceRequest(PROBLEM, "flash2")) is None  # looking starts nothing
    assert client.jobs == []
    first = store.job(TraceRequest(PROBLEM, "flash2"))
    assert store.job(TraceRequest(PROBLEM.with_(seed=0), "flash2")) is first
    assert store.job(TraceRequest(PROBLEM, "flash1")) is not first
    assert store.job(TraceRequest(PROBLEM.with_(seed=1), "flash2")) is not first
    assert len(client.jobs) == 3


def test_a_held_job_is_cancelled_once_nobody_holds_it_and_a_new_one_is_made_for_the_next(store, client):
    job = store.job(Double(1), holder="a")
    assert store.job(Double(1), holder="b") is job
    store.let_go("a")
    assert not job.done
    store.let_go("b", but=[Double(1)])
    assert not job.done
    store.let_go("b")
    assert job.done
    assert store.peek(Double(1)) is None
    assert store.job(Double(1), holder="a") is not job


def test_a_job_that_a_page_waits_for_too_runs_on(store, client):
    job = store.job(Double(1), holder="a")
    assert store.job(Double(1)) is job
    store.let_go("a")
    assert not job.done
    page = store.job(Double(2))
    assert store.job(Double(2), holder="a") is page
    store.let_go("a")
    assert not page.done


def test_what_a_place_asked_for_before_leaves_the_queue_unless_it_has_begun_or_somebody_else_waits(
    store, client
):
    begun, shared, waiting = (store.job(Double(number), holder="a") for number in (1, 2, 3))
    store.job(Double(2), holder="b")
    begun.started = True
    store.let_go("a")
    assert [job.done for job in (begun, shared, waiting)] == [False, False, True]
    assert store.peek(Double(3)) is None
    store.let_go("b")
    assert shared.done


def test_threads_that_ask_at_once_share_one_job(store, client):
    together = threading.Barrier(8)
    submit, jobs = client.submit, []

    def slow_submit(*arguments):
        threading.Event().wait(0.02)  # time for the others to come
        return submit(*arguments)

    def ask():
        together.wait()
        jobs.append(store.job(Double(1)))

    client.submit = slow_submit
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(client.jobs) == 1
    assert set(jobs) == set(client.jobs)


def test_a_forgotten_job_is_asked_for_anew_and_the_others_stay(store, client):
    failed, other = store.job(Double(1)), store.job(Double(2))
    failed.finish(failure=Crashed(-11))
    assert store.job(Double(1)) is failed
    store.forget(failed)
    assert store.peek(Double(1)) is None
    assert store.peek(Double(2)) is other
    again = store.job(Double(1))
    assert again is not failed
    store.forget(failed)  # a second session that tries again, too late
    assert store.peek(Double(1)) is again


def test_of_old_jobs_those_that_run_or_are_looked_at_are_kept(store, client):
    running = store.job(Double(5000))
    for number in range(2 * REMEMBERED):
        end(store.job(Double(number)))
    assert store.peek(Double(5000)) is running
    end(running)
    for number in range(REMEMBERED):
        end(store.job(Double(10_000 + number)))
        assert store.peek(Double(10_000))  # a page still looks at it
    assert store.peek(Double(5000)) is None
    assert sum(store.peek(job.request) is job for job in client.jobs) == REMEMBERED


def test_the_backend_is_what_the_worker_says_once_it_has_started():
    assert backend(None) == "replay"
    cases = (("starting", None), ("cuda", None), ("interpreter", None), ("replay", "no memory"))
    for name, failure in cases:
        device = None if name == "starting" else SimpleNamespace(backend=name)
        assert backend(RunStore(SimpleNamespace(device=device, start_failure=failure))) == name


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_run_names_what_ran_it(name):
    """torch runs some algorithms tile by tile: no word of Triton for them, live or recorded."""
    entry = ALGORITHMS[name]
    for run in (live(name, "interpreter"), live(name, "cuda"), live(name, "cuda", recorded=True)):
        assert ("torch 2.9" in run.provenance) == (entry.runs_in == "torch")
        assert ("Triton 3.7" in run.provenance) == (entry.runs_in == "triton")
        assert run.provenance.startswith("recorded on" if run.recorded else "run here")
        assert run.origin == ("recorded" if run.recorded else "measured")
        interpreted = entry.runs_in == "triton" and run.trace.device.backend == "interpreter"
        assert ("interpreter" in run.provenance) == interpreted


def live(name, backend_name, recorded=False):
    """A run that says so, as far as its provenance goes."""
    device = DeviceInfo(backend_name, "made up", torch="2.9", triton="3.7", python="3")
    return runs.Run(replace(hand_built(PROBLEM), algorithm=name, device=device), None, recorded)
