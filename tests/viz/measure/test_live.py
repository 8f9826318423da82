"""The sweep on this machine."""

from kernels.measure.__main__ import argument_parser, parse_problems
from kernels.worker.failures import Cancelled, JobFailure
from tests.kernels.documents import LENGTHS, measurement
from viz.measure.live import LiveSweep, command_for
from viz.shared.runs import RunStore


def test_the_command_repeats_the_sweep():
    for problems in (
        [measurement(n).problem for n in LENGTHS],
        [measurement(n, batch=4096 // n).problem for n in LENGTHS],
        [measurement(512, batch=b).problem for b in (1, 2, 4)],
        [measurement(512, head_dim=d, heads=256 // d).problem for d in (32, 64)],
    ):
        command = command_for(problems, ("naive", "sdpa"), ("forward", "backward"), 0.4)
        arguments = argument_parser().parse_args(command.split()[3:])
        again = [problem.with_(block_m=64, block_n=64) for problem in parse_problems(arguments)]
        assert sorted(map(str, again)) == sorted(map(str, problems))
        assert arguments.peers == ["naive", "sdpa"]


class Job:
    """A job that has not ended, until it is cancelled."""

    def __init__(self, request):
        self.request, self.done = request, False

    def cancel(self):
        self.done = True

    def result(self):
        raise Cancelled if self.done else TimeoutError


class Client:
    def submit(self, request, blob):
        return Job(request)


def test_a_sweep_after_a_cancelled_one_runs_the_same_points_again():
    store, problem = RunStore(Client()), measurement(512).problem
    for _ in range(2):
        sweep = LiveSweep([problem], ("naive",), ("forward",), 0.1, "", 1)
        sweep.advance(store)
        assert not sweep.running.done
        sweep.cancel()
        assert sweep.cancelled


def test_a_point_that_fails_is_named_by_all_that_an_axis_may_vary():
    store = RunStore(Client())
    sweep = LiveSweep([measurement(512).problem], ("naive",), ("forward",), 0.1, "", 1)
    sweep.advance(store)
    sweep.running.done, sweep.running.result = True, lambda: failed()
    sweep.advance(store)
    assert sweep.failures == ["length 512, head_dim 64, batch 1: too little memory"]


def failed():
    raise JobFailure("too little memory")
