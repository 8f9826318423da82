"""The worker process and its client: results, queue, cancel, time limit, and every typed failure."""

import os
import signal
import subprocess
import threading
import time

import numpy as np
import pytest

from kernels.algorithms import run_traced
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.worker.client import WorkerClient
from kernels.worker.failures import Cancelled, Crashed, JobFailure, OutOfMemory, TimedOut
from kernels.worker.requests import MeasureRequest, TraceRequest

SMALL = AttentionProblem(q_len=16, kv_len=16, head_dim=16, block_m=16, block_n=16)
LONG = AttentionProblem(q_len=4096, kv_len=4096, block_m=16, block_n=16)
"""Takes minutes in the interpreter."""


class Malformed(TraceRequest):
    """A request that no page makes: its problem has not passed the checks of AttentionProblem."""

    def as_dict(self):
        return {"problem": SMALL.as_dict() | {"head_dim": 7}, "algorithm": "flash2"}


@pytest.fixture(scope="module")
def client():
    client = WorkerClient(memory_limit_bytes=700 << 20)
    yield client
    client.close()


def submit(client, problem, **options):
    return client.submit(TraceRequest(problem, "flash2"), **options)


def trace_of(job, timeout_s=60):
    return job.result(timeout_s).trace


def wait_until_running(job):
    deadline = time.monotonic() + 30
    while job.label == "waiting" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert job.label != "waiting"


def assert_next_job_works(client):
    assert np.isfinite(trace_of(submit(client, SMALL)).output).all()


def test_a_job_gives_the_trace_and_its_error_report(client):
    job = submit(client, SMALL)
    traced = job.result(60)
    assert traced.report.passes
    assert traced.seconds > 0
    assert job.result() is traced
    here = run_traced(SMALL)
    there = trace_of(job)
    assert np.array_equal(there.output, here.output)
    assert np.array_equal(there.row_sum, here.row_sum)
    assert client.device.backend in ("interpreter", "cuda")


def test_an_invalid_problem_is_refused_in_its_own_words(client):
    job = client.submit(Malformed(SMALL, "flash2"))
    with pytest.raises(InvalidProblem, match="head_dim=7 is not accepted: expected 16 to 256") as caught:
        job.result(60)
    assert caught.value.field == "head_dim"
    assert_next_job_works(client)


def test_progress_is_reported_and_a_running_job_can_be_cancelled(client):
    job = submit(client, LONG)
    wait_until_running(job)
    deadline = time.monotonic() + 30
    while job.fraction == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert 0 < job.fraction < 1
    behind = submit(client, SMALL)
    assert behind.jobs_ahead == 1
    job.cancel()
    with pytest.raises(Cancelled):
        job.result(10)
    assert np.isfinite(trace_of(behind).output).all()


def test_a_waiting_job_can_be_taken_out_of_the_queue(client):
    running, waiting, last = submit(client, LONG), submit(client, SMALL), submit(client, SMALL.with_(seed=3))
    wait_until_running(running)
    assert (waiting.jobs_ahead, last.jobs_ahead) == (1, 2)
    assert (running.withdraw(), waiting.withdraw()) == (False, True)
    assert last.jobs_ahead == 1
    with pytest.raises(Cancelled):
        waiting.result(0)
    waiting.cancel()  # it has ended
    running.cancel()
    assert trace_of(last).problem.seed == 3


def test_a_patient_request_lets_the_others_go_first(client):
    blocking = submit(client, LONG)
    wait_until_running(blocking)
    small = [SMALL.with_(seed=seed) for seed in range(4)]
    jobs = [
        client.submit(request)
        for request in (
            MeasureRequest(small[0], ("forward",)),
            TraceRequest(small[1], "flash2"),
            MeasureRequest(small[2], ("forward",)),
            TraceRequest(small[3], "flash2"),
        )
    ]
    assert [job.jobs_ahead for job in jobs] == [3, 1, 4, 2]
    for job in [*jobs, blocking]:
        job.cancel()
    assert_next_job_works(client)


def test_a_time_limit_stops_the_job_and_names_the_limit(client):
    with pytest.raises(TimedOut, match=r"Stopped after 0\.4 s, the time limit"):
        submit(client, LONG, time_limit_s=0.4).result(30)
    assert_next_job_works(client)


def test_a_fault_of_the_client_costs_its_job_alone(client):
    with pytest.raises(JobFailure, match="OverflowError"):
        submit(client, SMALL, time_limit_s=float("inf")).result(30)
    assert_next_job_works(client)


def test_a_time_limit_of_0_is_not_taken_for_the_default(client):
    with pytest.raises(TimedOut, match="Stopped after 0 s"):
        submit(client, LONG, time_limit_s=0.0).result(30)
    assert_next_job_works(client)


@pytest.mark.parametrize("how", [signal.SIGSEGV, signal.SIGKILL])
def test_a_crash_is_reported_and_the_worker_restarted(client, how):
    job = submit(client, LONG)
    wait_until_running(job)
    os.kill(client.process_id, how)
    with pytest.raises(Crashed, match=f"crashed .signal {int(how)}.") as caught:
        job.result(30)
    assert caught.value.exit_code == -how
    assert_next_job_works(client)


def test_a_worker_that_dies_between_jobs_is_replaced(client):
    assert_next_job_works(client)
    os.kill(client.process_id, signal.SIGKILL)
    assert_next_job_works(client)


def test_out_of_memory_says_what_was_asked_and_what_was_free(client):
    if client.wait_ready(60) and client.device.backend == "cuda":
        pytest.skip("limits the CPU's memory")
    shape = {"batch": 64, "q_heads": 16, "kv_heads": 16, "q_len": 16, "kv_len": 16384}
    huge = AttentionProblem(**shape, block_m=16, block_n=128)
    with pytest.raises(OutOfMemory, match=r"asked for [\d.]+ GB, [\d.]+ GB free") as caught:
        submit(client, huge).result(60)
    assert caught.value.asked_bytes >= huge.batch * huge.kv_heads * huge.kv_len * huge.head_dim * 2
    assert caught.value.free_bytes < 1e9
    assert_next_job_works(client)


def test_threads_at_once_each_get_their_own_right_result(client):
    results = {}

    def session(seed):
        problem = AttentionProblem(
            q_len=33, kv_len=40, head_dim=16, block_m=16, block_n=16, seed=seed, mask="causal"
        )
        results[seed] = trace_of(submit(client, problem))

    threads = [threading.Thread(target=session, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, trace in results.items():
        assert trace.problem.seed == seed
        assert np.array_equal(trace.output, run_traced(trace.problem).output)


def test_what_a_kernel_prints_does_not_disturb_the_protocol(client, tmp_path):
    """Standard output of the worker is standard error; only messages travel on the pipe."""
    from kernels.worker.protocol import read_message, write_message

    with open(tmp_path / "pipe", "w+b") as pipe:
        write_message(pipe, {"event": "done"}, b"12\n34")
        pipe.write(b'{"event": "cut')
        pipe.seek(0)
        assert read_message(pipe) == ({"event": "done", "size": 5}, b"12\n34")
        assert read_message(pipe) is None


def test_close_cancels_what_waits():
    client = WorkerClient()
    job = submit(client, LONG)
    client.close()
    with pytest.raises(Cancelled):
        job.result(30)
    with pytest.raises(RuntimeError, match="closed"):
        submit(client, SMALL)


def test_a_worker_that_cannot_start_fails_its_jobs_in_its_own_words(monkeypatch):
    client = WorkerClient()
    client.close()
    monkeypatch.setattr("kernels.worker.process.sys.executable", "/bin/false")
    client = WorkerClient()
    job = submit(client, SMALL)
    with pytest.raises(Crashed, match="exit status 1"):
        job.result(30)
    assert client.start_failure
    later = submit(client, SMALL)  # comes while the client pauses before the next try
    with pytest.raises(Crashed, match="exit status 1"):
        later.result(30)
    client.close()


def test_a_worker_that_the_system_refuses_to_start_fails_its_jobs(monkeypatch):
    def refuse(*args, **more):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("kernels.worker.process.subprocess.Popen", refuse)
    client = WorkerClient()
    with pytest.raises(Crashed, match="Too many open files"):
        submit(client, SMALL).result(30)
    client.close()


def test_a_client_closed_while_its_worker_starts_leaves_no_process(monkeypatch):
    popen = subprocess.Popen

    def slow(*args, **more):
        process = popen(*args, **more)
        time.sleep(0.3)
        return process

    monkeypatch.setattr("kernels.worker.process.subprocess.Popen", slow)
    client = WorkerClient()
    time.sleep(0.1)
    client.close()
    client._dispatcher.join(30)
    assert client.process_id is None
    client._start()  # as a dispatcher does to which close() came first
    assert client.process_id is None
