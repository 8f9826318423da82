"""Runs the backward pass with TRACE on, or with marks, on a problem's own inputs."""

import torch

from kernels.algorithms.backward.entry import ENTRY, KEY_PROGRAM, PLAIN, QUERY_PROGRAM
from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.backward.launch import BackwardCall, tiles_of_backward
from kernels.algorithms.flash2.forward import flash_forward
from kernels.device.runtime import DEVICE
from kernels.primitives.assemble import assemble
from kernels.primitives.assemble_lanes import LaneLaunch, MarkedCall, measured_lanes
from kernels.primitives.launch import asked_of
from kernels.primitives.marks import LaneBuffers
from kernels.primitives.recorder import make_recorder
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.trace import Trace
from kernels.trace.lanes import Lanes


def run_traced(problem: AttentionProblem, row: int | None = None) -> Trace:
    config, call = tiles_of_backward(problem), call_of(problem)
    preprocess, dk_dv, dq = (make_recorder(kernel, problem, row=row) for kernel in ENTRY.kernels)
    launches = [
        (preprocess, call.preprocess(preprocess)),
        (dk_dv, call.dk_dv(config, dk_dv)),
        (dq, call.dq(config, dq)),
    ]
    gradients = {"d_query": call.d_query, "d_key": call.d_key, "d_value": call.d_value}
    return assemble(
        ENTRY, problem, launches, output=call.inputs.out, lse=call.inputs.lse, delta=call.delta, **gradients
    )


def call_of(problem: AttentionProblem) -> BackwardCall:
    """The pass on the problem's own inputs and dO, after its forward kernel."""
    inputs, band, scale = make_inputs(problem, DEVICE), problem.band, problem.scale
    config = tiles_of_backward(problem)
    out, lse, _ = flash_forward(*inputs, **asked_of(problem) | {"config": config})
    d_out = make_d_output(problem, DEVICE)
    return BackwardCall(BackwardInputs(*inputs, out, lse, d_out, band, scale, pattern=problem.pattern))


def run_lanes(problem: AttentionProblem) -> Lanes:
    """When the programs of the dK-dV kernel, and then those of the dQ kernel, did what.

    Inputs, dO and tiles are the problem's own. Raises InvalidProblem if the tiles do not fit the GPU.
    """
    call = call_of(problem)
    call.preprocess()
    torch.cuda.synchronize()  # the kernels are timed on another stream
    return measured_lanes(problem, PLAIN.name, marked_call(problem, call))


def marked_call(problem: AttentionProblem, call: BackwardCall) -> MarkedCall:
    """Both kernels of a call whose D is there, one after the other."""
    config = tiles_of_backward(problem)

    def both(of_keys: LaneBuffers | None, of_queries: LaneBuffers | None) -> None:
        call.dk_dv(config, lanes=of_keys)
        call.dq(config, lanes=of_queries)

    by_key_tile = problem.key_heads * problem.kv_tiles
    launches = (
        LaneLaunch((KEY_PROGRAM,), by_key_tile, turns=problem.group_size * problem.q_tiles),
        LaneLaunch((QUERY_PROGRAM,), problem.heads * problem.q_tiles, turns=problem.kv_tiles),
    )
    return MarkedCall(both, launches)
