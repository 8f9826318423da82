"""Runs decoding over pages: traced on a problem's own inputs, or on given tensors for a check."""

from torch import Tensor

from kernels.algorithms.paged.entry import ENTRY
from kernels.algorithms.paged.launch import flash_paged
from kernels.algorithms.paged.pool import pools_of
from kernels.algorithms.split_kv.run import sampled, traced
from kernels.device.runtime import DEVICE
from kernels.primitives.launch import asked_of
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_inputs
from kernels.trace import Trace
from kernels.trace.sample import Sample


def run_traced(problem: AttentionProblem, row: int | None = None) -> Trace:
    """Run both kernels on the problem's own inputs, put into pages, with TRACE on."""
    query, key, value = make_inputs(problem, DEVICE)
    return traced(ENTRY, problem, flash_paged, (query, *pools_of(problem, key, value)), row)


def run_sampled(problem: AttentionProblem, sample: Sample, row: int | None = None) -> Trace:
    """Run some key heads in as many parts of the keys as the whole run has, with pools of their own."""
    return sampled(ENTRY, problem, sample, run_traced, row)


def forward(problem: AttentionProblem, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """O and lse with the problem's mask, tiles and parts of the keys, which are put into pages first."""
    pools = pools_of(problem, key, value)
    return flash_paged(query, *pools, **asked_of(problem), splits=problem.kv_splits)[:2]
