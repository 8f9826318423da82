"""The recorded sweep: FlashAttention's benchmark shapes, all peers, both directions, in order of interest."""

import itertools
import multiprocessing
import os
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernels.measure import peers
from kernels.measure.document import Document
from kernels.measure.measure import draw_tensors, make_call, measure
from kernels.measure.measurement import DIRECTIONS, Measurement, report, shape_words
from kernels.measure.series import SweepView
from kernels.problem import AttentionProblem

TOKENS, WIDTH = 16384, 2048
"""Tokens per launch, and heads x head_dim: the shapes of FlashAttention's own benchmarks."""
LENGTHS = (1024, 4096, 16384, 512, 2048, 8192)
PEERS = ("naive", "ours", "sdpa_flash", "sdpa_efficient", "sdpa_cudnn", "fa4")
FLEX_LENGTHS = (1024, 4096, 16384)
COMPILED_PEERS = ("ours", "fa4", "flex")
"""Peers that compile for a shape before their first call."""
BUDGET_S = 0.06
"""Seconds of timed calls per peer and direction."""
COMPILE_LIMIT_S = 150


@dataclass(frozen=True)
class SweepPoint:
    problem: AttentionProblem
    peers: tuple[str, ...]
    directions: tuple[str, ...] = DIRECTIONS

    @property
    def name(self) -> str:
        return f"{'+'.join(self.peers)} {shape_words(self.problem)}"


def problem_for(length: int, head_dim: int, mask: str, dtype: str) -> AttentionProblem:
    """A problem of TOKENS tokens in all its sequences, and of WIDTH columns in all its heads."""
    return SweepView("length", length, head_dim, dtype, mask, tokens=TOKENS, width=WIDTH).problem()


def sweep_points() -> list[SweepPoint]:
    """All points, the most interesting first.

    A peer whose package is not installed is left out. FlexAttention comes last, together with ours, because
    it compiles for a long time.
    """
    installed = tuple(name for name in PEERS if peers.PEERS[name].is_installed)
    types = itertools.product(((64, 128), (256,)), ("float16", "bfloat16"))
    groups: list[tuple] = [(installed, LENGTHS, dtype, head_dims) for head_dims, dtype in types]
    groups.append((("ours", "flex"), FLEX_LENGTHS, "float16", (64, 128)))
    return [
        SweepPoint(problem_for(length, head_dim, mask, dtype), names)
        for names, lengths, dtype, head_dims in groups
        for length, head_dim, mask in itertools.product(lengths, head_dims, ("full", "causal"))
    ]


def run_sweep(
    points: list[SweepPoint],
    minutes: float,
    save: Callable[[Document], None],
    say: Callable[[str], None],
    known: tuple[Measurement, ...] = (),
    **options: Any,
) -> Document:
    """Measure point by point until `minutes` have passed.

    `save` is called after each point with everything measured so far, what is `known` first, and with the
    names of the points left out; `say` with a line of progress. `options` are those of `measure`.
    """
    began, measured, left = time.monotonic(), list(known), list(points)

    def document() -> Document:
        return Document(measurements=tuple(measured), left_out=tuple(point.name for point in left))

    for point in points:
        if time.monotonic() - began > 60 * minutes:
            say(f"stopped after {minutes:g} minutes: {len(left)} of {len(points)} are left out")
            break
        try:
            measured.append(measure(point.problem, point.peers, point.directions, **options))
        except RuntimeError as error:
            say(f"{point.name}: {str(error).splitlines()[0]}")
            if "CUDA error" in str(error):
                break  # the context is lost: all points after this one are left out
            continue
        left.remove(point)
        save(document())
        seconds = time.monotonic() - began
        say(f"{len(points) - len(left)}/{len(points)} {seconds:4.0f} s  {report(measured[-1])}")
    save(document())
    return document()


CompileJob = tuple[str, tuple[AttentionProblem, ...]]
"""A peer, and problems on which it shares compiled code."""


def compile_kernels(points: list[SweepPoint], say: Callable[[str], None]) -> None:
    """On CUDA, compile in parallel what the points need, into Triton's and torch's caches on disk."""
    from kernels.device.runtime import BACKEND

    jobs = _compile_jobs(points)
    if not jobs or BACKEND != "cuda":
        return
    began = time.monotonic()
    try:
        failures = [failure for failure in in_processes(_compile, jobs, COMPILE_LIMIT_S) if failure]
    except multiprocessing.TimeoutError:
        failures = [f"some had not ended after {COMPILE_LIMIT_S} s"]
    seconds = time.monotonic() - began
    say(f"compiled for {len(jobs)} groups of shapes in {seconds:.0f} s {'; '.join(failures)}")


def in_processes(function: Callable, jobs: list, limit_s: float | None) -> list:
    """The answers of a function to all jobs, each in one of several new processes. Raises what a job raised.

    After `limit_s` it raises multiprocessing.TimeoutError.
    """
    workers = min(len(jobs), max((os.cpu_count() or 2) - 2, 1))
    with multiprocessing.get_context("spawn").Pool(workers) as pool:  # leaving it ends unfinished processes
        return pool.map_async(function, jobs, chunksize=1).get(limit_s)


def _compile_jobs(points: list[SweepPoint]) -> list[CompileJob]:
    """One job per peer and group of problems with common compiled code; FlexAttention compiles per length."""
    groups: dict[tuple, list[AttentionProblem]] = defaultdict(list)
    for problem, names in ((point.problem, point.peers) for point in points):
        for peer in (name for name in COMPILED_PEERS if name in names):
            length = problem.q_len if peer == "flex" else None
            groups[peer, problem.head_dim, problem.mask, problem.dtype, length].append(problem)
    return [(peer, tuple(problems)) for (peer, *_), problems in groups.items()]


def _compile(job: CompileJob) -> str:
    """Run one peer forward and backward on every problem. Returns why it failed, or an empty text."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # the processes already run in parallel
    peer, problems = job
    try:
        for problem in problems:
            tensors = draw_tensors(problem, "cuda")
            for direction in DIRECTIONS:
                make_call(peer, direction, problem, tensors)()
    except Exception as error:  # a compiler may raise anything; the sweep will report it
        return f"{peer} {shape_words(problems[0])}: {type(error).__name__} {str(error).splitlines()[:1]}"
    return ""
