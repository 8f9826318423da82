"""Schedules: the GPU's clock as it was recorded, or modelled waves over the SMs."""

from dataclasses import replace

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, algorithm_of, run_traced
from kernels.device.backend import DeviceInfo
from kernels.device.gpus import GPUS
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from kernels.trace import LaunchInfo, Trace
from kernels.trace import schedule as schedules
from kernels.trace.schedule import ProgramSpan, program_spans
from tests.anywhere import ANYWHERE
from tests.kernels.helpers import tiny

PROBLEM = tiny(64, 32, mask="causal", q_heads=4, kv_heads=2)


def step_schedule(trace, sm_count):
    """On a GPU of which an SM moves a byte per ns, and computes in no time."""
    gpu = replace(GPUS["H200"], sm_count=sm_count, hbm_bandwidth=sm_count * 1e9, fp16_flops=1e30)
    return schedules.step_schedule(trace, algorithm_of(trace), gpu)


def made_up(kernel, program, algorithm="backward", **arrays):
    """A trace of these steps, of which step i is about query tile i and key tile 10 + i of head 20 + i."""
    count = len(kernel)
    tiles = {"batch_head": 20, "q_tile": 0, "kv_tile": 10}
    return Trace(
        problem=PROBLEM,
        algorithm=algorithm,
        device=DeviceInfo("interpreter", "made up", "t", "t", "p"),
        kernels=tuple(f"kernel {index}" for index in range(max(kernel) + 1)),
        launches=(LaunchInfo(4, 2),) * (max(kernel) + 1),
        recorded_at="2026-01-01T00:00:00",
        tensors=("Q",),
        kernel=np.array(kernel, np.int8),
        program=np.array(program, np.int32),
        tensor_bytes_read=np.ones((count, 1), np.int64),
        tensor_bytes_written=np.zeros((count, 1), np.int64),
        **{name: first + np.arange(count, dtype=np.int32) for name, first in tiles.items()} | arrays,
    )


@pytest.mark.parametrize(
    ("kernel", "program", "sms", "start", "sm"),
    [
        ([0] * 6, [0, 1, 1, 2, 2, 2], 2, [0, 0, 1, 1, 2, 3], [0, 1, 1, 0, 0, 0]),
        ([0, 0, 0, 1, 1], [0, 1, 1, 0, 1], 2, [0, 0, 1, 2, 2], [0, 1, 1, 0, 1]),
        ([0, 0, 1, 2, 1, 2], [0, 1, 0, 0, 1, 1], 1, [0, 1, 2, 3, 4, 5], [0] * 6),
    ],
    ids=["the SM that is free first", "a kernel after the one before it", "parts of one launch"],
)
def test_programs_start_where_and_when_the_model_says(kernel, program, sms, start, sm):
    schedule = step_schedule(made_up(kernel, program, "standard" if sms == 1 else "backward"), sms)
    assert schedule.start.tolist() == start
    assert (schedule.end - schedule.start == 1).all()
    assert schedule.sm.tolist() == sm


CLOCK = {"start_ns": np.array([100, 300]), "end_ns": np.array([250, 300]), "sm": np.array([5, 7], np.int32)}


def test_a_clock_gives_an_unresolved_step_a_nanosecond_and_is_not_used_if_it_lacks_something():
    schedule = step_schedule(made_up([0, 0], [0, 1], **CLOCK), 1)
    assert schedule.measured
    assert (schedule.start.tolist(), schedule.end.tolist()) == ([100, 300], [250, 301])
    assert schedule.sm.tolist() == [5, 7]
    for missing in CLOCK:
        schedule = step_schedule(made_up([0, 0], [0, 1], **CLOCK | {missing: None}), 1)
        assert not schedule.measured
        assert schedule.start.tolist() == [0, 1]


def test_spans_tell_the_first_step_of_a_program_and_are_ordered_by_kernel_and_start():
    trace = made_up([0, 0, 0, 1, 1], [0, 0, 1, 0, 1])
    clock = {"start": [50, 60, 10, 90, 80], "end": [55, 75, 20, 95, 99]}
    times = {name: np.array(values) for name, values in clock.items()}
    schedule = schedules.Schedule(**times, sm=np.array([3, 3, 4, 3, 4]), measured=True)
    assert program_spans(trace, schedule, ALGORITHMS["backward"]) == [
        ProgramSpan("kernel 0", 1, batch_head=22, q_tile=2, kv_tile=12, sm=4, start=10, end=20, steps=1),
        ProgramSpan("kernel 0", 0, batch_head=20, q_tile=0, kv_tile=10, sm=3, start=50, end=75, steps=2),
        ProgramSpan("kernel 1", 1, batch_head=24, q_tile=4, kv_tile=14, sm=4, start=80, end=99, steps=1),
        ProgramSpan("kernel 1", 0, batch_head=23, q_tile=3, kv_tile=13, sm=3, start=90, end=95, steps=1),
    ]


@pytest.mark.parametrize("algorithm", ANYWHERE)
def test_modelled_programs_never_share_an_sm_and_keep_their_order(algorithm):
    trace = run_traced(PROBLEM.with_(q_len=32), algorithm)
    for sms in (3, 100):
        schedule = step_schedule(trace, sms)
        assert not schedule.measured
        assert schedule.sm.max() < sms
        for sm in np.unique(schedule.sm):
            own = np.flatnonzero(schedule.sm == sm)
            own = own[np.argsort(schedule.start[own])]
            assert (schedule.start[own[1:]] >= schedule.end[own[:-1]]).all()
        moved = (trace.bytes_read + trace.bytes_written).astype(float)
        np.testing.assert_allclose(schedule.end - schedule.start, moved, atol=1)
        spans = program_spans(trace, schedule, algorithm_of(trace))
        assert sum(span.steps for span in spans) == trace.steps


@pytest.mark.parametrize(("algorithm", "launches"), [("row_wise", 1), ("standard", 3)])
def test_loops_of_one_function_are_one_launch_with_a_program_per_query_tile(algorithm, launches):
    trace = run_traced(PROBLEM, algorithm)
    spans = program_spans(trace, step_schedule(trace, 3), algorithm_of(trace))
    assert (len({span.kernel for span in spans}), len(spans)) == (launches, launches * 16)


def test_the_time_of_the_merge_is_that_of_what_it_moves():
    problem = PRESETS["decode"].problem
    trace = replace(recorded_run(problem, "split_kv").trace, start_ns=None)
    schedule = schedules.step_schedule(trace, ALGORITHMS["split_kv"], GPUS["H200"])
    merges = trace.kernel == 1
    took = schedule.end[merges].max() - schedule.start[merges].min()
    assert took < 0.2 * schedule.end.max()  # if each step took as long, it would be two thirds


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_modelled_programs_start_in_the_order_of_the_launch(mask):
    trace = run_traced(PROBLEM.with_(mask=mask), "flash2")
    schedule = step_schedule(trace, 1)
    firsts = np.unique(trace.program, return_index=True)[1]
    started = trace.program[firsts[np.argsort(schedule.start[firsts])]].tolist()
    expected = {
        "causal": [head * 4 + tile for tile in (3, 2, 1, 0) for head in range(4)],  # all heads take turns
        "full": [head * 4 + tile for head in range(4) for tile in (3, 2, 1, 0)],
    }
    assert started == expected[mask]
