"""Runs split-KV decoding: traced on a problem's own inputs, or on given tensors for a check."""

from collections.abc import Callable

from torch import Tensor

from kernels.algorithms.split_kv.entry import ENTRY
from kernels.algorithms.split_kv.launch import flash_split_kv, split_plan
from kernels.device.runtime import DEVICE
from kernels.primitives.assemble import assemble
from kernels.primitives.launch import asked_of, config_of
from kernels.primitives.recorder import make_recorder
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_inputs
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm
from kernels.trace.sample import Sample
from kernels.trace.sampled_trace import of_heads


def traced(
    entry: Algorithm, problem: AttentionProblem, flash: Callable, inputs: tuple[Tensor, ...], row: int | None
) -> Trace:
    """Run both kernels of an entry with TRACE on; `flash` takes the inputs and what `flash_split_kv` does."""
    rows, config = problem.packed_rows, config_of(problem)
    plan = split_plan(problem.band, problem.key_heads, rows, config, problem.kv_splits)
    programs = problem.key_heads * -(-rows // problem.block_m)
    grids = (programs * plan.splits, plan.tiles_per_split), (programs, plan.splits)
    recorders = tuple(
        make_recorder(kernel, problem, rows=rows, grid=grid, row=row)
        for kernel, grid in zip(entry.kernels, grids, strict=True)
    )
    asked = asked_of(problem) | {"splits": problem.kv_splits}
    out, lse, launches = flash(*inputs, **asked, recorders=recorders)
    return assemble(entry, problem, list(zip(recorders, launches, strict=True)), output=out, lse=lse)


def sampled(
    entry: Algorithm, problem: AttentionProblem, sample: Sample, run: Callable, row: int | None
) -> Trace:
    """Run some key heads by `run(problem, row)`, in as many parts of the keys as the whole run has."""
    config = config_of(problem)
    plan = split_plan(problem.band, problem.key_heads, problem.packed_rows, config, problem.kv_splits)
    part = sample.part(problem).with_(kv_splits=plan.splits)
    return of_heads(problem, entry, sample, run(part, row))


def run_traced(problem: AttentionProblem, row: int | None = None) -> Trace:
    """Run both kernels on the problem's own inputs and tiles with TRACE on; block_m counts packed rows."""
    return traced(ENTRY, problem, flash_split_kv, make_inputs(problem, DEVICE), row)


def run_sampled(problem: AttentionProblem, sample: Sample, row: int | None = None) -> Trace:
    return sampled(ENTRY, problem, sample, run_traced, row)


def forward(problem: AttentionProblem, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    return flash_split_kv(query, key, value, **asked_of(problem), splits=problem.kv_splits)[:2]
