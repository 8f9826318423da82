"""Runs FlashAttention-2: traced on a problem's own inputs, or on given tensors for a check."""

from torch import Tensor

from kernels.algorithms.backward.inputs import BackwardInputs
from kernels.algorithms.backward.launch import flash_backward
from kernels.algorithms.flash2.entry import ENTRY, FORWARD, LANES, WARPS
from kernels.algorithms.flash2.forward import flash_forward
from kernels.device.runtime import DEVICE
from kernels.oracle.exact import Gradients
from kernels.primitives.assemble import assemble
from kernels.primitives.assemble_lanes import LaneLaunch, MarkedCall, measured_lanes
from kernels.primitives.launch import asked_of, config_of
from kernels.primitives.marks import LaneBuffers
from kernels.primitives.recorder import make_recorder
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_inputs
from kernels.problem.tiles import visited_tiles
from kernels.trace import Trace
from kernels.trace.lanes import Lanes
from kernels.trace.sample import Sample, tile_bounds
from kernels.trace.sampled_trace import of_query_tiles


def run_traced(problem: AttentionProblem, row: int | None = None) -> Trace:
    recorder = make_recorder(FORWARD, problem, row=row)
    out, lse, launch = flash_forward(*make_inputs(problem, DEVICE), **asked_of(problem), recorder=recorder)
    return assemble(ENTRY, problem, [(recorder, launch)], output=out, lse=lse)


def run_sampled(problem: AttentionProblem, sample: Sample, row: int | None = None) -> Trace:
    """Run the programs of a sample: one launch per query tile, on the inputs of the sampled heads.

    A program's own rows and a band moved to them give it the key tiles that it visits in the whole run.
    """
    part = sample.part(problem)
    query, key, value = make_inputs(part, DEVICE)

    def trace_tile(q_tile: int) -> Trace:
        first, end = tile_bounds(problem, q_tile)
        tile = part.with_(q_len=end - first)
        visited = max(visited_tiles(problem, q_tile).count, 1)
        recorder = make_recorder(FORWARD, tile, grid=(tile.heads, visited), row=row)
        asked = asked_of(part) | {"band": part.band.of_rows(first, end)}
        if part.pattern:
            asked["pattern"] = part.pattern.of_rows(first, end)
        out, lse, launch = flash_forward(query[:, :, first:end], key, value, **asked, recorder=recorder)
        return assemble(ENTRY, tile, [(recorder, launch)], output=out, lse=lse)

    return of_query_tiles(problem, sample, trace_tile)


def run_lanes(problem: AttentionProblem) -> Lanes:
    """When the warps of each program did what, on the problem's own inputs and tiles."""
    inputs = make_inputs(problem, DEVICE)

    def call(lanes: LaneBuffers | None) -> object:
        return flash_forward(*inputs, **asked_of(problem), lanes=lanes)

    programs = problem.heads * problem.q_tiles
    launch = LaneLaunch((WARPS,), programs, problem.kv_tiles)
    return measured_lanes(problem, LANES.name, MarkedCall(call, (launch,)))


def forward(problem: AttentionProblem, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    return flash_forward(query, key, value, **asked_of(problem))[:2]


def gradients(problem: AttentionProblem, *tensors: Tensor) -> Gradients:
    """dQ, dK and dV, of query, key, value and d_out, by the plain backward kernels."""
    (query, key, value, d_out), config = tensors, config_of(problem)
    results = forward(problem, query, key, value)
    given = (query, key, value, *results, d_out, problem.band, problem.scale)
    inputs = BackwardInputs(*given, pattern=problem.pattern)
    return flash_backward(inputs, config, config).gradients
