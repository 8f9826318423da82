"""The registry of algorithms: one folder each, with its entry and its kernels.

`ALGORITHMS` holds every `ENTRY` of a module `entry` in a subfolder, or its `ENTRIES`. The folders in the
environment variable FLASH_ATTENTION_ALGORITHMS (separated as in PATH) are searched too, so that an algorithm
can be tried without changing the project. Importing this package imports neither torch nor triton.
"""

import importlib
import os
import pkgutil
from typing import TYPE_CHECKING, Protocol, cast

from kernels import ROOT
from kernels.device.backend import compute_capability
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.trace.algorithm import Algorithm
from kernels.trace.lanes import LaneKernel, Lanes
from kernels.trace.sample import Sample
from kernels.trace.sampled_trace import of_heads
from kernels.trace.trace import Trace

if TYPE_CHECKING:
    from torch import Tensor

FURTHER_FOLDERS = "FLASH_ATTENTION_ALGORITHMS"
FIRST = "flash2"
"""The algorithm that pages start with."""

ALGORITHMS: dict[str, Algorithm] = {}
"""Every algorithm by its name, in the order in which pages list them."""


def discover() -> None:
    """Fill ALGORITHMS from the folders. Relative ones start at the project's folder, as the worker does.

    Raises ValueError for a folder that does not exist, and if two entries have the same name.
    """
    for name in filter(None, os.environ.get(FURTHER_FOLDERS, "").split(os.pathsep)):
        folder = ROOT / name
        if not folder.is_dir():
            raise ValueError(f"{FURTHER_FOLDERS} names {folder}, which is not a folder")
        if str(folder) not in __path__:
            __path__.append(str(folder))
    entries: dict[str, Algorithm] = {}
    for package in pkgutil.iter_modules(__path__):
        name = f"{__name__}.{package.name}"
        folder = pkgutil.resolve_name(name).__path__ if package.ispkg else []
        if any(module.name == "entry" for module in pkgutil.iter_modules(folder)):
            module = importlib.import_module(f"{name}.entry")
            for entry in getattr(module, "ENTRIES", None) or (module.ENTRY,):
                if entry.name in entries:
                    raise ValueError(f"two algorithms are called {entry.name!r}; give {name} another name")
                entries[entry.name] = entry
    ALGORITHMS.clear()
    ALGORITHMS.update(sorted(entries.items(), key=lambda item: (item[1].rank, item[0])))


def algorithm_of(trace: Trace) -> Algorithm:
    """The entry of a trace's algorithm, or what was seen of a user's own kernel.

    Raises InvalidProblem if it is not known here.
    """
    return trace.observed.algorithm if trace.observed else named(trace.algorithm)


def named(name: str) -> Algorithm:
    """The entry of that name. Raises InvalidProblem, which lists the names, if there is none."""
    if name not in ALGORITHMS:
        raise InvalidProblem("algorithm", name, f"expected one of {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


class Runner(Protocol):
    """What the module, or the object of a module, that an entry names as its `runner` defines.

    `forward` and `gradients` are there if the entry says that it is `checked`. They run on tensors of the
    problem's shapes with the problem's mask and tiles, without recording.
    """

    def run_traced(self, problem: AttentionProblem) -> Trace:
        """Run the kernels on `make_inputs(problem)` with TRACE on.

        If a kernel of the entry has a figure, it also takes a `row`: an offset in the query tiles, whose
        numbers are recorded although the tiles are large. A `run_sampled(problem, sample)` beside it runs a
        part of a long run, if a run of the sampled heads alone is not that part; it takes a `row` too.
        """

    def forward(
        self, problem: AttentionProblem, query: "Tensor", key: "Tensor", value: "Tensor"
    ) -> "tuple[Tensor, Tensor | None]":
        """(O, lse): O shaped and typed as query, lse (batch, q_heads, q_len) in float32.

        lse is None if the forward pass gives none.
        """

    def gradients(
        self, problem: AttentionProblem, query: "Tensor", key: "Tensor", value: "Tensor", d_out: "Tensor"
    ) -> "tuple[Tensor, Tensor, Tensor]":
        """(dQ, dK, dV), shaped and typed as query, key and value."""


def runner_of(name: str) -> Runner:
    """What runs an algorithm. Imports torch, and triton if the algorithm has a kernel."""
    return cast(Runner, pkgutil.resolve_name(named(name).runner))


def ensure_runs(entry: Algorithm, problem: AttentionProblem) -> None:
    """Raise InvalidProblem if the algorithm does not take the problem, or cannot run on this device."""
    if refused := entry.refusal(problem):
        raise refused
    if entry.needs:
        from kernels.device.runtime import BACKEND

        if missing := entry.missing(compute_capability(BACKEND)):
            raise missing


def run_traced(
    problem: AttentionProblem, algorithm: str = FIRST, sample: Sample | None = None, row: int | None = None
) -> Trace:
    """Run the algorithm's kernels on `make_inputs(problem)` with TRACE on, on the GPU or in the interpreter.

    With a `sample` only that part runs, on `make_inputs(sample.part(problem))`. With a `row`, an offset in
    the query tiles, the numbers of this row of every tile step are recorded. Raises InvalidProblem for an
    unknown algorithm, sample or row, for a problem that the algorithm does not take, and if it cannot run on
    this device; and what the device raises, such as out of memory.
    """
    entry = named(algorithm)
    ensure_runs(entry, problem)
    runner = runner_of(algorithm)
    if row is not None and not (entry.traces_a_row and 0 <= row < problem.block_m):
        accepted = f"expected 0 to {problem.block_m - 1}, and an algorithm that shows its numbers"
        raise InvalidProblem("row", row, accepted)
    picked = {} if row is None else {"row": row}
    if sample is None:
        return runner.run_traced(problem, **picked)
    tiles_too = sample.q_tiles is not None
    if not sample.fits(problem) or not entry.samples or (tiles_too and entry.samples != "tiles"):
        raise InvalidProblem("sample", sample.words(problem), f"{entry.label} cannot run this part alone")
    if own := getattr(runner, "run_sampled", None):
        return own(problem, sample, **picked)
    return of_heads(problem, entry, sample, runner.run_traced(sample.part(problem), **picked))


def kernels_with_lanes(direction: str | None = None) -> tuple[LaneKernel, ...]:
    """The kernels that set marks, of every algorithm, or of those of one direction."""
    entries = (entry for entry in ALGORITHMS.values() if direction in (None, entry.direction))
    return tuple(entry.lanes for entry in entries if entry.lanes)


def lane_kernel(name: str) -> LaneKernel:
    """The kernel with lanes of that name. Raises InvalidProblem, which lists the names, if there is none."""
    known = {kernel.name: kernel for kernel in kernels_with_lanes()}
    if name not in known:
        raise InvalidProblem("kernel", name, f"lanes are recorded of {', '.join(known)}")
    return known[name]


def run_lanes(problem: AttentionProblem, kernel: str) -> Lanes:
    """What the warps of a kernel did and when, on `make_inputs(problem)`. Needs a GPU.

    `kernel` is the name of a LaneKernel. Raises InvalidProblem if there is none, if there is no GPU, or if
    the kernel cannot run the problem.
    """
    from kernels.device.runtime import BACKEND

    found = lane_kernel(kernel)
    if refused := found.refusal(problem, compute_capability(BACKEND)):
        raise refused
    if BACKEND != "cuda":
        raise InvalidProblem("lanes", kernel, "the interpreter has no clock of an SM", "Run it on a GPU.")
    return importlib.import_module(found.module).run_lanes(problem)


discover()
