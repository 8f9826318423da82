"""Runs the query-outer backward pass: traced on a problem's own inputs, or on given tensors for a check."""

from __future__ import annotations

from torch import Tensor

from kernels.algorithms.backward_q_outer.entry import BACKWARD, ENTRY
from kernels.algorithms.backward_q_outer.q_outer import flash_backward_q_outer
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
    """Run the forward kernel, then the backward kernel with TRACE on.

    Inputs, dO and tiles are the problem's own.
    """
    inputs = make_inputs(problem, DEVICE)
    out, lse = forward(problem, *inputs)
    recorder = make_recorder(
        BACKWARD,
        problem,
        rows=problem.q_len,
        programs=problem.key_heads,
        max_steps=problem.group_size * problem.q_tiles * problem.kv_tiles,
        row=row,
    )
    d_query, d_key, d_value, launch = flash_backward_q_outer(
        *inputs,
        out,
        lse,
        make_d_output(problem, DEVICE),
        band=problem.band,
        scale=problem.scale,
        config=config_of(problem),
        recorder=recorder,
    )
    results = {"output": out, "lse": lse, "d_query": d_query, "d_key": d_key, "d_value": d_value}
    return assemble(ENTRY, problem, [(recorder, launch)], **results)


def gradients(
    problem: AttentionProblem, query: Tensor, key: Tensor, value: Tensor, d_out: Tensor
) -> Gradients:
    """dQ, dK and dV with the problem's mask and tiles."""
    out, lse = forward(problem, query, key, value)
    band, scale, config = problem.band, problem.scale, config_of(problem)
    d_query, d_key, d_value, _ = flash_backward_q_outer(
        query, key, value, out, lse, d_out, band=band, scale=scale, config=config
    )
    return d_query, d_key, d_value
