"""Runs the Hopper kernel with TRACE on, on a problem's own inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch

from kernels.algorithms.flash2.entry import ENTRY, FORWARD
from kernels.algorithms.flash3.lanes import LOADS, WARPGROUP
from kernels.algorithms.flash3.launch import can_run_hopper, flash_forward_hopper
from kernels.algorithms.flash3.work import work_units
from kernels.device.runtime import DEVICE
from kernels.primitives.assemble import assemble
from kernels.primitives.assemble_lanes import LaneLaunch, measured_lanes
from kernels.primitives.launch import TileConfig, sm_count
from kernels.primitives.marks import LaneBuffers
from kernels.primitives.recorder import Recorder, make_recorder
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.inputs import make_inputs
from kernels.trace import LaunchInfo, Trace
from kernels.trace.lanes import Lanes

KERNEL = replace(FORWARD, name="_attn_fwd_hopper", sums=())


def traced_config(head_dim: int) -> TileConfig:
    """The tiles with which the kernel is traced."""
    return TileConfig(128, 128 if head_dim <= 128 else 64, 12, 2)


class TracedLaunch(NamedTuple):
    """What the kernel wrote down, how it was launched, O and lse."""

    recorder: Recorder
    launch: LaunchInfo
    out: torch.Tensor
    lse: torch.Tensor


def _inputs(problem: AttentionProblem) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Q, K and V. Raises InvalidProblem if the kernel cannot run on them."""
    inputs = make_inputs(problem, DEVICE)
    if not can_run_hopper(*inputs):
        accepted = "the Hopper kernel takes 16-bit types, a multiple of 8 from 40 to 256, and a Hopper GPU"
        raise InvalidProblem("head_dim", problem.head_dim, accepted)
    return inputs


def traced_launch(problem: AttentionProblem, config: TileConfig) -> TracedLaunch:
    """Run the kernel on the problem's own inputs with TRACE on.

    Raises InvalidProblem if the kernel cannot run on them.
    """
    inputs = _inputs(problem)
    recorder = make_recorder(
        KERNEL,
        problem,
        rows=problem.q_len,
        programs=problem.heads * -(-problem.q_len // config.block_m),
        max_steps=-(-problem.kv_len // config.block_n),
        block_m=config.block_m,
    )
    out, lse, launch = flash_forward_hopper(
        *inputs, band=problem.band, scale=problem.scale, config=config, recorder=recorder
    )
    return TracedLaunch(recorder, launch, out, lse)


def run_traced(problem: AttentionProblem) -> Trace:
    """The trace of the kernel on the problem, whose tiles are 128 x 128, or 128 x 64 with head_dim over 128.

    A query tile that sees no key has one step, which is wholly masked.
    """
    config = traced_config(problem.head_dim)
    for name in ("block_m", "block_n"):
        if getattr(problem, name) != getattr(config, name):
            tiles = f"{config.block_m} x {config.block_n} tiles"
            accepted = f"with head_dim {problem.head_dim} the Hopper kernel is traced with {tiles}"
            raise InvalidProblem(name, getattr(problem, name), accepted, "Choose those.")
    recorder, launch, out, lse = traced_launch(problem, config)
    return assemble(ENTRY, problem, [(recorder, launch)], output=out, lse=lse)


def requested_bytes(problem: AttentionProblem, config: TileConfig) -> tuple[int, int]:
    """(read, written): bytes that the kernel requests with these tiles, as it counts them itself."""
    recorder = traced_launch(problem, config).recorder
    counted = recorder.buffers.requested.sum(dim=0, dtype=torch.int64).tolist()
    columns = list(zip(counted, KERNEL.requests, strict=False))
    read, written = (sum(n for n, (_, way) in columns if way == wanted) for wanted in ("read", "write"))
    return read, written


def run_lanes(problem: AttentionProblem) -> Lanes:
    """When the warpgroups and the loading warp of each program did what, with the problem's tiles."""
    inputs = _inputs(problem)
    config = TileConfig(problem.block_m, problem.block_n, 4 * (problem.block_m // 64 + 1), 2)
    work = work_units(problem.batch, problem.q_heads, problem.q_tiles, problem.band.bounds_right)
    programs = min(sm_count(), work.units)
    items = -(-work.units // programs) * 2

    def call(lanes: LaneBuffers | None) -> object:
        return flash_forward_hopper(
            *inputs, band=problem.band, scale=problem.scale, config=config, lanes=lanes
        )

    groups = problem.block_m // 64
    roles = (*[WARPGROUP] * groups, LOADS)
    turns = items * (problem.kv_tiles + 1) + 1
    return measured_lanes(problem, ENTRY.name, LaneLaunch(call, roles, programs, turns, problem.q_tiles))
