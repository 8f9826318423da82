"""Runs split-KV decoding: traced on a problem's own inputs, or on given tensors for a check."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from kernels.algorithms.split_kv.entry import ENTRY
from kernels.algorithms.split_kv.launch import SplitPlan, flash_split_kv, split_plan
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


@dataclass(frozen=True)
class Decoding:
    """A runner of both kernels; block_m counts packed rows."""

    entry: Algorithm
    keys_of: Callable[[AttentionProblem, Tensor, Tensor], dict[str, Any]]
    """Key and value of a problem as `flash_split_kv` takes them."""

    def run_traced(self, problem: AttentionProblem, row: int | None = None) -> Trace:
        rows, plan = problem.packed_rows, _plan(problem)
        programs = problem.key_heads * -(-rows // problem.block_m)
        grids = (programs * plan.splits, plan.tiles_per_split), (programs, plan.splits)
        recorders = tuple(
            make_recorder(kernel, problem, rows=rows, grid=grid, row=row)
            for kernel, grid in zip(self.entry.kernels, grids, strict=True)
        )
        out, lse, launches = self._flash(problem, *make_inputs(problem, DEVICE), recorders=recorders)
        recorded = list(zip(recorders, launches, strict=True))
        return assemble(self.entry, problem, recorded, output=out, lse=lse)

    def run_sampled(self, problem: AttentionProblem, sample: Sample, row: int | None = None) -> Trace:
        """Run some key heads in as many parts of the keys as the whole run has."""
        part = sample.part(problem).with_(kv_splits=_plan(problem).splits)
        return of_heads(problem, self.entry, sample, self.run_traced(part, row))

    def forward(self, problem: AttentionProblem, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        return self._flash(problem, *inputs)[:2]

    def _flash(
        self, problem: AttentionProblem, query: Tensor, key: Tensor, value: Tensor, **options: Any
    ) -> tuple[Tensor, Tensor, Any]:
        asked = asked_of(problem) | {"splits": problem.kv_splits} | self.keys_of(problem, key, value)
        return flash_split_kv(query, **asked, **options)


def _plan(problem: AttentionProblem) -> SplitPlan:
    config = config_of(problem)
    return split_plan(problem.band, problem.key_heads, problem.packed_rows, config, problem.kv_splits)


RUNNER = Decoding(ENTRY, lambda problem, key, value: {"key": key, "value": value})
