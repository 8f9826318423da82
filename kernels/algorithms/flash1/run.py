"""Runs FlashAttention-1: traced on a problem's own inputs, or on given tensors for a check."""

from torch import Tensor

from kernels.algorithms.flash1.entry import ENTRY, FORWARD
from kernels.algorithms.flash1.forward_kv_outer import flash_forward_kv_outer
from kernels.device.runtime import DEVICE
from kernels.primitives.assemble import assemble
from kernels.primitives.launch import asked_of
from kernels.primitives.recorder import make_recorder
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_inputs
from kernels.trace import Trace


def run_traced(problem: AttentionProblem, row: int | None = None) -> Trace:
    grid = (problem.heads, problem.q_tiles * problem.kv_tiles)
    recorder = make_recorder(FORWARD, problem, grid=grid, row=row)
    inputs = make_inputs(problem, DEVICE)
    out, lse, launch = flash_forward_kv_outer(*inputs, **asked_of(problem), recorder=recorder)
    return assemble(ENTRY, problem, [(recorder, launch)], output=out, lse=lse)


def forward(problem: AttentionProblem, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    return flash_forward_kv_outer(query, key, value, **asked_of(problem))[:2]
