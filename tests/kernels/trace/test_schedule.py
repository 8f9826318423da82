"""Schedules: the GPU's clock as it was recorded, or modelled waves over the SMs; and their export."""

import json

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, algorithm_of, run_traced
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from kernels.trace import schedule as schedules
from kernels.trace.perfetto import chrome_trace
from kernels.trace.schedule import program_spans

PROBLEM = AttentionProblem(
    q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=16, mask="causal", q_heads=4, kv_heads=2
)


def step_schedule(trace, sm_count):
    return schedules.step_schedule(trace, algorithm_of(trace), sm_count)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("sms", [1, 3, 100])
def test_modelled_programs_never_share_an_sm_and_keep_their_order(algorithm, sms):
    trace = run_traced(PROBLEM, algorithm)
    schedule = step_schedule(trace, sms)
    assert not schedule.measured
    assert schedule.sm.max() < sms
    for sm in np.unique(schedule.sm):
        busy = np.sort(schedule.start[schedule.sm == sm])
        assert (np.diff(busy) >= 1).all()
    spans = program_spans(trace, schedule)
    assert sum(span.steps for span in spans) == trace.steps
    assert all(span.end - span.start == span.steps for span in spans)


def test_one_sm_runs_everything_one_after_the_other():
    trace = run_traced(PROBLEM, "backward")
    schedule = step_schedule(trace, 1)
    assert sorted(schedule.start) == list(range(trace.steps))


def test_a_kernel_waits_for_the_one_before_it():
    trace = run_traced(PROBLEM, "backward")
    schedule = step_schedule(trace, 5)
    for kernel in (1, 2):
        assert schedule.start[trace.kernel == kernel].min() >= schedule.end[trace.kernel == kernel - 1].max()


def test_a_recorded_clock_is_taken_as_it_is():
    trace = recorded_run(PRESETS["layer"].problem, "flash2").trace
    schedule = step_schedule(trace, 1)
    assert schedule.measured
    assert np.array_equal(schedule.start, trace.start_ns)
    assert len(np.unique(schedule.sm)) > 100


def test_the_export_is_chrome_trace_json_with_one_slice_per_program():
    trace = recorded_run(PRESETS["gpt2"].problem, "backward").trace
    document = json.loads(chrome_trace(trace, step_schedule(trace, 132), algorithm_of(trace), "H200"))
    slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert len(slices) == 16 * 3
    assert {event["cat"] for event in slices} == set(trace.kernels)
    assert all(event["dur"] > 0 for event in slices)
    names = {event["tid"] for event in document["traceEvents"] if event.get("name") == "thread_name"}
    assert names == {event["tid"] for event in slices}
    assert document["otherData"]["name"] == "NVIDIA H200"


def names_in(document):
    """Names of the process and of the threads of an export."""
    named = [event for event in json.loads(document)["traceEvents"] if event["ph"] == "M"]
    process = next(event["args"]["name"] for event in named if event["name"] == "process_name")
    return process, [event["args"]["name"] for event in named if event["name"] == "thread_name"]


def test_the_names_of_an_export_say_whether_it_is_modelled():
    modelled, recorded = run_traced(PROBLEM, "flash2"), recorded_run(PRESETS["gpt2"].problem, "flash2").trace
    process, threads = names_in(
        chrome_trace(modelled, step_schedule(modelled, 2), ALGORITHMS["flash2"], "A100")
    )
    assert process.startswith("FlashAttention-2, modelled: one program per SM of the A100")
    assert threads == ["SM 0 (modelled)", "SM 1 (modelled)"]
    process, threads = names_in(
        chrome_trace(recorded, step_schedule(recorded, 2), ALGORITHMS["flash2"], "A100")
    )
    assert process == "FlashAttention-2, recorded by the GPU's timer: NVIDIA H200"
    assert not any("modelled" in name for name in threads)


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_modelled_programs_start_in_the_order_of_the_launch(mask):
    problem = PROBLEM.with_(mask=mask)
    trace = run_traced(problem, "flash2")
    schedule = step_schedule(trace, 1)
    firsts = np.unique(trace.program, return_index=True)[1]
    started = trace.program[firsts[np.argsort(schedule.start[firsts])]].tolist()
    expected = {
        "causal": [head * 4 + tile for tile in (3, 2, 1, 0) for head in range(4)],  # all heads take turns
        "full": [head * 4 + tile for head in range(4) for tile in (3, 2, 1, 0)],
    }
    assert started == expected[mask]
