"""The sweep on this machine."""

from dataclasses import replace

import pytest

from kernels.measure.__main__ import argument_parser, parse_problems
from kernels.measure.series import SweepView
from kernels.worker.failures import JobFailure
from kernels.worker.requests import MeasureRequest
from tests.kernels.documents import measurement
from tests.viz.shared.fakes import FakeClient
from viz.measure.controls import ONE_POINT, Choice
from viz.measure.live import LiveSweep, command_for

VIEW = SweepView("length", 1024, 64, "float16", "causal", batch=2, q_heads=4)
TOKENS = {"tokens": 4096, "width": 256}


@pytest.mark.parametrize(
    ("view", "axis", "points"),
    [
        (VIEW, "length", (512, 1024)),
        (SweepView("length", 1024, 64, "float16", "full", **TOKENS), "length", (512, 2048)),
        (SweepView("head_dim", 1024, 64, "float16", "full", **TOKENS), "head_dim", (32, 64)),
        (SweepView("batch", 512, 64, "float16", "full", q_heads=4), "batch", (1, 2, 4)),
        (replace(VIEW, kv_heads=2), ONE_POINT, (1024,)),
    ],
    ids=str,
)
def test_the_command_repeats_the_sweep(view, axis, points):
    choice = Choice(view, axis, points, ("forward", "backward"), ("naive", "sdpa"))
    command = command_for(choice, "float32", choice.peers, 0.4)
    arguments = argument_parser().parse_args(command.split()[3:])
    again = [problem.with_(block_m=64, block_n=64) for problem in parse_problems(arguments)]
    assert again == choice.problems("float32")
    assert (arguments.peers, arguments.directions, arguments.budget) == (
        ["naive", "sdpa"],
        ["forward", "backward"],
        0.4,
    )


@pytest.fixture
def sweep():
    """A sweep of one point, which has begun."""
    request = MeasureRequest(measurement(512).problem, ("forward",), ("naive",), 0.1)
    sweep = LiveSweep(FakeClient(), (request,), "")
    sweep.advance()
    return sweep


def test_a_cancelled_sweep_stops_the_point_that_runs(sweep):
    job = sweep.running
    assert not job.done
    sweep.cancel()
    assert (job.done, sweep.cancelled, sweep.active) == (True, True, False)


def test_a_point_that_fails_is_named_by_all_that_an_axis_may_vary(sweep):
    sweep.running.finish(failure=JobFailure("too little"))
    sweep.advance()
    (words,) = sweep.failures
    assert {"512", "64", "full", "b1", "h4:"} <= set(words.split())
    assert words.endswith(": too little")
