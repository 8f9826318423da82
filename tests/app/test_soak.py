"""Many sessions and many runs through one worker: right answers, a fair queue, and memory that stays flat."""

import gc
import threading

import numpy as np
import pytest

from kernels.algorithms import run_traced
from kernels.check.case.cases import CheckCase
from kernels.check.requests import CheckRequest
from kernels.problem import AttentionProblem
from kernels.worker.client import WorkerClient
from kernels.worker.requests import TraceRequest
from viz.shared import runs
from viz.shared.runs import RunStore

SESSIONS, JOBS_EACH = 6, 2
TINY = AttentionProblem(q_len=8, kv_len=8, head_dim=16, block_m=8, block_n=8)


@pytest.fixture(scope="module")
def store():
    client = WorkerClient()
    yield RunStore(client)
    client.close()


def resident_bytes(process_id="self"):
    with open(f"/proc/{process_id}/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))


def ask(store, problem):
    return store.job(TraceRequest(problem, "flash2"))


def problem_of(session, place):
    q_len, kv_len = ((8, 8), (9, 17), (16, 5), (1, 24), (20, 20))[session % 5]
    mask = ("full", "causal")[session % 2]
    return TINY.with_(q_len=q_len, kv_len=kv_len, mask=mask, seed=100 * session + place)


def test_sessions_at_once_each_get_their_own_right_traces(store):
    found, waited = {}, []

    def session(number):
        for place in range(JOBS_EACH):
            problem = problem_of(number, place)
            job = ask(store, problem)
            waited.append(job.jobs_ahead)
            found[problem] = job.result(120).trace

    threads = [threading.Thread(target=session, args=(number,)) for number in range(SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == SESSIONS * JOBS_EACH
    for problem, trace in found.items():
        assert trace.problem == problem
        assert np.array_equal(trace.output, run_traced(problem).output)
    assert max(waited) < SESSIONS  # each session has one job in the queue at a time


def memory_after(store, seeds):
    """Of both processes, after a run and a check for each seed."""
    for seed in seeds:
        problem = TINY.with_(seed=seed)
        check = store.job(CheckRequest(CheckCase(problem, "flash2", repeats=1)))
        assert ask(store, problem).result(60).trace.problem == problem
        assert check.result(60).verdict == "pass"
    gc.collect()
    return resident_bytes(), resident_bytes(store.client.process_id)


def test_memory_of_both_processes_stays_flat(store, monkeypatch):
    monkeypatch.setattr(runs, "REMEMBERED", 16)
    before = memory_after(store, range(1000, 1010))  # also fills the store, which forgets beyond REMEMBERED
    after = memory_after(store, range(2000, 2025))
    grown = [now - then for now, then in zip(after, before, strict=True)]
    assert max(grown) < 6 << 20, grown
    assert len(store._jobs) <= 16
