"""Runs FlashAttention-3: traced on a problem's own inputs, or on given tensors for a check."""

import torch

from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.dispatch import attention_gradients
from kernels.algorithms.flash3.entry import ENTRY, KERNEL, LANES, LOADS, WARPGROUP
from kernels.algorithms.flash3.launch import can_run_hopper, flash_forward_hopper
from kernels.device.backend import compute_capability
from kernels.device.runtime import BACKEND, DEVICE
from kernels.oracle.exact import Gradients
from kernels.primitives.assemble import assemble
from kernels.primitives.assemble_lanes import LaneLaunch, MarkedCall, measured_lanes
from kernels.primitives.launch import TileConfig, sm_count
from kernels.primitives.marks import LaneBuffers
from kernels.primitives.recorder import Recorder, make_recorder
from kernels.primitives.tuning import GLUON_VERSIONS, gluon_is_known
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.inputs import make_inputs
from kernels.trace import LaunchInfo, Trace
from kernels.trace.algorithm import Algorithm
from kernels.trace.lanes import Lanes


def own_config(problem: AttentionProblem) -> TileConfig:
    """The problem's tiles, as the kernel is launched with them: two slots per ring, a warpgroup more to load.

    Raises InvalidProblem for a problem that the entry does not take, and for other tiles than its own.
    """
    if refused := ENTRY.refusal(problem):
        raise refused
    return TileConfig(problem.block_m, problem.block_n, 4 * (problem.block_m // 64 + 1), 2)


def ensure_runs_on(*inputs: torch.Tensor, entry: Algorithm = ENTRY) -> None:
    """Raise InvalidProblem if the entry's kernels cannot run here, or not on such tensors."""
    if missing := entry.missing(compute_capability(BACKEND)):
        raise missing
    if not gluon_is_known():
        accepted = f"it is written in Gluon, of which Triton {' or '.join(GLUON_VERSIONS)}x is known"
        raise InvalidProblem("algorithm", entry.label, accepted, "Install one of these.")
    if not can_run_hopper(*inputs):
        given = [tensor.stride() for tensor in inputs]
        accepted = "TMA takes rows whose numbers lie beside each other, at multiples of 16 bytes"
        raise InvalidProblem("strides", given, accepted, "Copy the tensors with contiguous().")


def _inputs(problem: AttentionProblem) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Q, K and V. Raises InvalidProblem if the kernel cannot run on them."""
    inputs = make_inputs(problem, DEVICE)
    ensure_runs_on(*inputs)
    return inputs


def traced_launch(
    problem: AttentionProblem, config: TileConfig
) -> tuple[Recorder, LaunchInfo, torch.Tensor, torch.Tensor]:
    """What the kernel wrote down on the problem's own inputs, how it was launched, O and lse.

    Raises InvalidProblem if it cannot run on them.
    """
    inputs = _inputs(problem)
    tiles = (-(-problem.q_len // config.block_m), -(-problem.kv_len // config.block_n))
    grid = (problem.heads * tiles[0], tiles[1])
    recorder = make_recorder(KERNEL, problem, grid=grid, block_m=config.block_m)
    out, lse, launch = flash_forward_hopper(
        *inputs, band=problem.band, scale=problem.scale, config=config, recorder=recorder
    )
    return recorder, launch, out, lse


def run_traced(problem: AttentionProblem) -> Trace:
    """The trace of the kernel on the problem, whose tiles have to be those of the entry.

    A query tile that sees no key has one step, which is wholly masked. Its "programs" are query tiles: a
    program of the launch takes several of them, one after the other.
    """
    recorder, launch, out, lse = traced_launch(problem, own_config(problem))
    return assemble(ENTRY, problem, [(recorder, launch)], output=out, lse=lse)


def forward(problem: AttentionProblem, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """O and lse with the problem's mask, and tiles that have to be those of the entry."""
    config = own_config(problem)
    ensure_runs_on(*inputs)
    return flash_forward_hopper(*inputs, band=problem.band, scale=problem.scale, config=config)[:2]


def gradients(problem: AttentionProblem, *tensors: torch.Tensor) -> Gradients:
    """dQ, dK and dV, of query, key, value and d_out, by the fastest kernels for these (dispatch.py)."""
    query, key, value, d_out = tensors
    results = forward(problem, query, key, value)
    inputs = BackwardInputs(query, key, value, *results, d_out, problem.band, problem.scale)
    return attention_gradients(inputs)


def requested_bytes(problem: AttentionProblem, config: TileConfig) -> tuple[int, int]:
    """(read, written): bytes that the kernel requests with these tiles, as it counts them itself."""
    recorder, *_ = traced_launch(problem, config)
    counted = {"read": 0, "write": 0}
    columns = recorder.buffers.requested.sum(dim=0, dtype=torch.int64).tolist()
    for n_bytes, (_, way) in zip(columns, KERNEL.requests, strict=False):
        counted[way] += n_bytes
    return counted["read"], counted["write"]


def run_lanes(problem: AttentionProblem) -> Lanes:
    """When the warpgroups and the loading warp of each program did what, with the problem's tiles."""
    config = own_config(problem)
    inputs = _inputs(problem)
    units = problem.heads * problem.q_tiles
    programs = min(sm_count(), units)

    def call(lanes: LaneBuffers | None) -> object:
        return flash_forward_hopper(
            *inputs, band=problem.band, scale=problem.scale, config=config, lanes=lanes
        )

    roles = (*[WARPGROUP] * (problem.block_m // 64), LOADS)
    turns = 2 * -(-units // programs) * (problem.kv_tiles + 1) + 1
    launch = LaneLaunch(roles, programs, turns)
    return measured_lanes(problem, LANES.name, MarkedCall(call, (launch,)))
