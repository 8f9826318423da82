"""Runs the backward sweep for Hopper with marks, on a problem's own inputs."""

from __future__ import annotations

import torch

from kernels.algorithms.flash3.launch import can_run_hopper, flash_forward_hopper
from kernels.algorithms.flash3_backward.lanes import (
    KEYS_AHEAD,
    KEYS_ALONE,
    KEYS_AT_ONCE,
    KEYS_BEHIND,
    LOADS,
    QUERIES,
    SWEEP,
)
from kernels.algorithms.flash3_backward.launch import BLOCK_N, HopperBackwardCall
from kernels.algorithms.flash3_backward.shared import Fixed
from kernels.device.runtime import DEVICE
from kernels.primitives.assemble_lanes import LaneLaunch, MarkedCall, measured_lanes
from kernels.primitives.launch import TileConfig
from kernels.primitives.marks import LaneBuffers
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.trace.lanes import LaneRole, Lanes


def run_lanes(problem: AttentionProblem) -> Lanes:
    """When the warpgroups and the loading warp of each program of the sweep did what.

    The problem's tiles are those of the sweep. Raises InvalidProblem for a problem that it does not take.
    """
    query, key, value = make_inputs(problem, DEVICE)
    if not can_run_hopper(query, key, value):
        raise InvalidProblem("kernel", SWEEP.label, "this Triton's Gluon is not known to the Hopper kernel")
    band, scale = problem.band, problem.scale
    config = TileConfig(128, 128, 12, 2)
    out, lse, _ = flash_forward_hopper(query, key, value, band=band, scale=scale, config=config)
    call = HopperBackwardCall(query, key, value, out, lse, make_d_output(problem, DEVICE), band, scale)
    call.prepare()
    torch.cuda.synchronize()

    def sweep(lanes: LaneBuffers | None) -> None:
        call.sweep(lanes)

    roles = _roles(call.fixed)
    programs = -(-problem.kv_len // BLOCK_N) * problem.batch * problem.kv_heads
    turns = problem.q_tiles * problem.group_size + 1
    launch = LaneLaunch(roles, programs, turns)
    return measured_lanes(problem, SWEEP.name, MarkedCall(sweep, (launch,)))


def _roles(fixed: Fixed) -> tuple[LaneRole, ...]:
    """Of the lanes of a program."""
    if fixed.DQ_WARPGROUP:
        keys = KEYS_AHEAD if fixed.SCORES_AHEAD else KEYS_ALONE
        return keys, keys, QUERIES, LOADS
    keys = KEYS_BEHIND if fixed.DQ_BEHIND else KEYS_AT_ONCE
    return keys, keys, LOADS
