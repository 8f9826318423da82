"""The client of a worker: results, queue, cancel, time limit, and every typed failure.

The real worker computes here; how one starts, waits and dies is tried on one that starts at once
(`stub.py`).
"""

import os
import signal
import subprocess
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from kernels.algorithms import run_traced
from kernels.problem import InvalidProblem
from kernels.worker import process
from kernels.worker.client import WorkerClient
from kernels.worker.failures import Cancelled, Crashed, JobFailure, OutOfMemory, TimedOut
from kernels.worker.process import read_message, write_message
from kernels.worker.requests import TraceRequest
from tests.kernels.helpers import tiny
from tests.kernels.worker.stub import Double, Endless, Patient

SMALL = tiny(16, 16)


@pytest.fixture(scope="module")
def real():
    client = WorkerClient(memory_limit_bytes=700 << 20)
    yield client
    client.close()


@pytest.fixture(scope="module")
def client():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "MODULE", "tests.kernels.worker.stub")
        client = WorkerClient()
        yield client
        client.close()


def running(client, **options):
    """A job that has begun, and does not end by itself."""
    job = client.submit(Endless(), **options)
    deadline = time.monotonic() + 30
    while job.label == "waiting" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (job.label, job.fraction) == ("running", 0.5)
    return job


def assert_next_job_works(client):
    assert client.submit(Double(21)).result(60) == 42


def test_a_job_gives_the_trace_and_its_error_report(real):
    job, here = real.submit(TraceRequest(SMALL, "flash2")), run_traced(SMALL)
    traced = job.result(60)
    assert traced.report.passes
    assert traced.seconds > 0
    assert job.result() is traced
    for name in ("output", "row_sum"):
        assert np.array_equal(getattr(traced.trace, name), getattr(here, name))
    assert real.device.backend in ("interpreter", "cuda")


@pytest.mark.gpu
def test_a_first_run_on_a_gpu_says_that_it_compiles(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))  # nothing is compiled yet
    worker, said = process.WorkerProcess([]), []
    assert worker.receive(120)
    for _ in range(2):
        worker.ask(TraceRequest(SMALL, "flash2"), 120, lambda share, label: said.append(label))
    assert said.count("compiling a kernel for this GPU") == said.count("running _attn_fwd") == 1
    worker.kill()


def test_an_invalid_problem_is_refused_in_its_own_words(real):
    unchecked = replace(SMALL)
    object.__setattr__(unchecked, "head_dim", 7)
    with pytest.raises(InvalidProblem, match="expected a whole number from 16 to 256") as caught:
        real.submit(TraceRequest(unchecked, "flash2")).result(60)
    assert caught.value.field == "head_dim"


def test_out_of_memory_says_what_was_asked_and_what_was_free(real):
    if real.wait_ready(60) and real.device.backend == "cuda":
        pytest.skip("limits the CPU's memory")
    huge = tiny(16, 16384, 16, 128, batch=64, q_heads=16, kv_heads=16, head_dim=64)
    with pytest.raises(OutOfMemory, match=r"asked for [\d.]+ GB, [\d.]+ GB free") as caught:
        real.submit(TraceRequest(huge, "flash2")).result(60)
    assert caught.value.asked_bytes >= huge.batch * huge.kv_heads * huge.kv_len * huge.head_dim * 2
    assert caught.value.free_bytes < 1e9


def test_jobs_are_cancelled_while_they_run_or_wait_and_the_next_one_runs(client):
    first, waiting, last = running(client), client.submit(Double(1)), client.submit(Double(2))
    assert (waiting.jobs_ahead, last.jobs_ahead) == (1, 2)
    assert (first.withdraw(), waiting.withdraw()) == (False, True)
    assert last.jobs_ahead == 1
    first.cancel()
    waiting.cancel()  # it has ended
    for job in (first, waiting):
        with pytest.raises(Cancelled):
            job.result(10)
    assert last.result(60) == 4


def test_a_patient_request_lets_the_others_go_first(client):
    first = running(client)
    jobs = [client.submit(request) for request in (Patient(1), Double(2), Patient(3), Double(4))]
    assert [job.jobs_ahead for job in jobs] == [3, 1, 4, 2]
    for job in [*jobs, first]:
        job.cancel()
    assert_next_job_works(client)


@pytest.mark.parametrize(
    ("limit_s", "failure", "words"),
    [
        (0.3, TimedOut, "0.3 s"),
        (0.0, TimedOut, "0 s"),  # 0 is not taken for the default
        (float("inf"), JobFailure, "OverflowError"),  # a fault of the client costs its job alone
    ],
)
def test_a_time_limit_stops_the_job_and_names_the_limit(client, limit_s, failure, words):
    with pytest.raises(failure, match=words):
        client.submit(Endless(), time_limit_s=limit_s).result(30)
    assert_next_job_works(client)


def test_a_job_that_fails_leaves_its_worker_alive(client):
    assert_next_job_works(client)
    worker = client.process_id
    with pytest.raises(InvalidProblem, match="number=-1 is not accepted: expected at least 0"):
        client.submit(Double(-1)).result(30)
    assert_next_job_works(client)
    assert client.process_id == worker


def test_a_crash_is_reported_and_the_worker_restarted(client):
    job = running(client)
    os.kill(client.process_id, signal.SIGSEGV)
    with pytest.raises(Crashed) as caught:
        job.result(30)
    assert caught.value.exit_code == -signal.SIGSEGV
    assert_next_job_works(client)
    os.kill(client.process_id, signal.SIGKILL)  # between jobs
    assert_next_job_works(client)


def test_a_message_that_is_cut_off_ends_the_stream(tmp_path):
    with open(tmp_path / "pipe", "w+b") as pipe:
        write_message(pipe, {"event": "done", "answer": {"array": np.eye(2), "size": np.float64(3)}})
        pipe.write(b"cut")
        pipe.seek(0)
        answer = read_message(pipe)["answer"]
        assert (answer["array"].tolist(), answer["size"]) == ([[1, 0], [0, 1]], 3)
        assert read_message(pipe) is None


def test_close_cancels_what_waits(client):
    own = WorkerClient()
    job = own.submit(Endless())
    own.close()
    with pytest.raises(Cancelled):
        job.result(30)
    with pytest.raises(RuntimeError, match="closed"):
        own.submit(Double(1))


def refuse(*args, **more):
    raise OSError(24, "Too many open files")


@pytest.mark.parametrize(
    ("replaced", "by", "words"),
    [("sys.executable", "/bin/false", "exit status 1"), ("subprocess.Popen", refuse, "Too many open files")],
)
def test_a_worker_that_cannot_start_fails_its_jobs_in_its_own_words(monkeypatch, replaced, by, words):
    monkeypatch.setattr(f"kernels.worker.process.{replaced}", by)
    monkeypatch.setattr("kernels.worker.client.NEXT_TRY_S", 0.1)
    client = WorkerClient()
    for _ in range(2):  # the second comes while the client pauses before the next try
        with pytest.raises(Crashed, match=words):
            client.submit(Double(1)).result(30)
    assert client.start_failure
    client.close()


def test_a_client_closed_while_its_worker_starts_leaves_no_process(client, monkeypatch):
    popen, starts, goes_on = subprocess.Popen, threading.Event(), threading.Event()

    def slow(*args, **more):
        process = popen(*args, **more)
        starts.set()
        assert goes_on.wait(30)
        return process

    monkeypatch.setattr("kernels.worker.process.subprocess.Popen", slow)
    own = WorkerClient()
    assert starts.wait(30)
    closing = threading.Thread(target=own.close)
    closing.start()
    goes_on.set()
    closing.join(30)
    own._dispatcher.join(30)
    assert own.process_id is None
    own._start()  # as a dispatcher does to which close() came first
    assert own.process_id is None
