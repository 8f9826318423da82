"""The sweep on this machine."""

from kernels.measure.__main__ import argument_parser, parse_problems
from tests.kernels.documents import LENGTHS, measurement
from viz.measure.live import command_for


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
