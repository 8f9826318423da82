"""Runs the key-outer backward pass: traced on a problem's own inputs, or on given tensors for a check."""

from __future__ import annotations

from torch import Tensor

from kernels.algorithms.backward.launch import BackwardCall
from kernels.algorithms.backward_kv_outer.entry import BACKWARD, ENTRY, PREPROCESS
from kernels.algorithms.backward_kv_outer.kv_outer import flash_backward_kv_outer
from kernels.algorithms.flash2.run import forward
from kernels.device.runtime import DEVICE
from kernels.oracle.exact import Gradients
from kernels.primitives.assemble import assemble
from kernels.primitives.launch import config_of
from kernels.primitives.recorder import make_recorder
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.trace import Trace

__all__ = ["forward", "gradients", "run_traced"]


def run_traced(problem: AttentionProblem, row: int | None = None) -> Trace:
    """Run the forward kernel, then the two backward kernels with TRACE on.

    Inputs, dO and tiles are the problem's own.
    """
    inputs = make_inputs(problem, DEVICE)
    out, lse = forward(problem, *inputs)
    call = BackwardCall(*inputs, out, lse, make_d_output(problem, DEVICE), problem.band, problem.scale)
    programs, rows = problem.heads * problem.q_tiles, problem.q_len
    preprocess = make_recorder(PREPROCESS, problem, rows=rows, programs=programs, max_steps=1, row=row)
    steps = problem.kv_tiles * problem.group_size * problem.q_tiles
    backward = make_recorder(
        BACKWARD, problem, rows=rows, programs=problem.key_heads, max_steps=steps, row=row
    )
    launches = [
        (preprocess, call.preprocess(preprocess)),
        (backward, flash_backward_kv_outer(call, config_of(problem), backward)),
    ]
    gradients = {"d_query": call.d_query, "d_key": call.d_key, "d_value": call.d_value}
    return assemble(ENTRY, problem, launches, output=out, lse=lse, delta=call.delta, **gradients)


def gradients(
    problem: AttentionProblem, query: Tensor, key: Tensor, value: Tensor, d_out: Tensor
) -> Gradients:
    """dQ, dK and dV with the problem's mask and tiles."""
    out, lse = forward(problem, query, key, value)
    call = BackwardCall(query, key, value, out, lse, d_out, problem.band, problem.scale)
    call.preprocess()
    flash_backward_kv_outer(call, config_of(problem))
    return call.d_query, call.d_key, call.d_value
