"""Runs the backward pass with TRACE on, on a problem's own inputs."""

from __future__ import annotations

from kernels.algorithms.backward.entry import DK_DV, DQ, ENTRY, PREPROCESS
from kernels.algorithms.backward.launch import BackwardCall, tiles_of_backward
from kernels.algorithms.flash2.forward import flash_forward
from kernels.device.runtime import DEVICE
from kernels.primitives.assemble import assemble
from kernels.primitives.recorder import Recorder, make_recorder
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.trace import Trace


def run_traced(problem: AttentionProblem, row: int | None = None) -> Trace:
    """Run the forward kernel, then the three backward kernels with TRACE on.

    Inputs, dO and tiles are the problem's own.
    """
    inputs, config = make_inputs(problem, DEVICE), tiles_of_backward(problem)
    out, lse, _ = flash_forward(*inputs, band=problem.band, scale=problem.scale, config=config)
    call = BackwardCall(*inputs, out, lse, make_d_output(problem, DEVICE), problem.band, problem.scale)
    preprocess, dk_dv, dq = recorders(problem, row)
    launches = [
        (preprocess, call.preprocess(preprocess)),
        (dk_dv, call.dk_dv(config, dk_dv)),
        (dq, call.dq(config, dq)),
    ]
    gradients = {"d_query": call.d_query, "d_key": call.d_key, "d_value": call.d_value}
    return assemble(ENTRY, problem, launches, output=out, lse=lse, delta=call.delta, **gradients)


def recorders(problem: AttentionProblem, row: int | None) -> tuple[Recorder, Recorder, Recorder]:
    """Recorders of the three kernels, in launch order."""
    by_query_tile = problem.heads * problem.q_tiles
    return (
        make_recorder(PREPROCESS, problem, rows=problem.q_len, programs=by_query_tile, max_steps=1, row=row),
        make_recorder(
            DK_DV,
            problem,
            rows=problem.q_len,
            programs=problem.key_heads * problem.kv_tiles,
            max_steps=problem.group_size * problem.q_tiles,
            row=row,
        ),
        make_recorder(
            DQ, problem, rows=problem.q_len, programs=by_query_tile, max_steps=problem.kv_tiles, row=row
        ),
    )
