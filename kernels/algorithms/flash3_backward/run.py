"""Runs the backward sweep for Hopper on a problem's own inputs: traced, or with marks."""

import torch

from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.flash3.launch import flash_forward_hopper
from kernels.algorithms.flash3.run import ensure_runs_on
from kernels.algorithms.flash3_backward.entry import ENTRY, KEYS, KEYS_AND_DQ, LOADS, QUERIES, SWEEP_LANES
from kernels.algorithms.flash3_backward.launch import HopperBackwardCall
from kernels.device.runtime import DEVICE
from kernels.primitives.assemble import assemble
from kernels.primitives.assemble_lanes import LaneLaunch, MarkedCall, measured_lanes
from kernels.primitives.launch import TileConfig
from kernels.primitives.recorder import make_recorder
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.trace import Trace
from kernels.trace.lanes import Lanes


def run_traced(problem: AttentionProblem) -> Trace:
    """Run the forward kernel for Hopper, then the sweep and the kernels before and after it, with TRACE on.

    Inputs and dO are the problem's own; its tiles have to be those of the entry.
    """
    call = _call(problem)
    prepare, sweep, finish = (make_recorder(kernel, problem) for kernel in ENTRY.kernels)
    launches = [
        (prepare, call.prepare(prepare)),
        (sweep, call.sweep(recorder=sweep)),
        (finish, call.finish(finish)),
    ]
    shares = sweep.buffers.rows
    shares[:, 0] += shares[:, 1]  # of the keys of both warpgroups
    delta = call.padded_delta.view(*call.inputs.lse.shape[:2], -1)[:, :, : problem.q_len]
    gradients = {"d_query": call.d_query, "d_key": call.d_key, "d_value": call.d_value}
    return assemble(
        ENTRY, problem, launches, output=call.inputs.out, lse=call.inputs.lse, delta=delta, **gradients
    )


def _call(problem: AttentionProblem) -> HopperBackwardCall:
    """A call on the problem's own inputs. Raises InvalidProblem if the kernels cannot run on them."""
    query, key, value = make_inputs(problem, DEVICE)
    ensure_runs_on(query, key, value, entry=ENTRY)
    band, scale = problem.band, problem.scale
    config = TileConfig(128, 128, 12, 2)
    out, lse, _ = flash_forward_hopper(query, key, value, band=band, scale=scale, config=config)
    d_out = make_d_output(problem, DEVICE)
    return HopperBackwardCall(BackwardInputs(query, key, value, out, lse, d_out, band, scale))


def run_lanes(problem: AttentionProblem) -> Lanes:
    """When the warpgroups and the loading warp of each program of the sweep did what.

    The problem's tiles are those of the sweep. Raises InvalidProblem for a problem that it does not take.
    """
    call = _call(problem)
    call.prepare()
    torch.cuda.synchronize()
    roles = (KEYS, KEYS, QUERIES, LOADS) if call.fixed().DQ_WARPGROUP else (KEYS_AND_DQ, KEYS_AND_DQ, LOADS)
    programs = problem.key_heads * problem.kv_tiles
    launch = LaneLaunch(roles, programs, turns=problem.q_tiles * problem.group_size + 1)
    return measured_lanes(problem, SWEEP_LANES.name, MarkedCall(call.sweep, (launch,)))
