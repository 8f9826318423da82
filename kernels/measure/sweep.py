"""The sweep that is recorded: FlashAttention's own benchmark shapes, all peers, forward and backward, the most asked for first."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from kernels.measure.document import Document
from kernels.measure.measure import measure
from kernels.measure.measurement import DIRECTIONS
from kernels.problem import AttentionProblem

TOKENS, WIDTH = 16384, 2048
"""Tokens a launch, and heads x head_dim: the shapes of FlashAttention's own benchmarks."""
LENGTHS = (1024, 4096, 16384, 512, 2048, 8192)
PEERS = ("naive", "ours", "sdpa_flash", "sdpa_efficient", "sdpa_cudnn")
FLEX_LENGTHS = (1024, 4096, 16384)
BUDGET_S = 0.06
"""Seconds of timed calls a peer and direction."""
WARM_LIMIT_S = 150


@dataclass(frozen=True)
class Cell:
    """One problem of the sweep and the peers that meet on it."""

    problem: AttentionProblem
    peers: tuple[str, ...]

    @property
    def name(self) -> str:
        problem = self.problem
        return f"{'+'.join(self.peers)} N {problem.q_len} d {problem.head_dim} {problem.mask} {problem.dtype}"


def problem_for(length: int, head_dim: int, mask: str, dtype: str) -> AttentionProblem:
    """As many sequences as make TOKENS, as many heads as make WIDTH."""
    heads = max(1, WIDTH // head_dim)
    shape = {
        "batch": max(1, TOKENS // length),
        "q_heads": heads,
        "kv_heads": heads,
        "q_len": length,
        "kv_len": length,
    }
    return AttentionProblem(**shape, head_dim=head_dim, mask=mask, dtype=dtype)


def sweep_cells() -> list[Cell]:
    """All cells, in the order in which they are worth having. FlexAttention comes last, since it compiles for long, and meets ours there."""
    groups = [("float16", (64, 128)), ("bfloat16", (64, 128)), ("float16", (256,)), ("bfloat16", (256,))]
    cells = [
        Cell(problem_for(length, head_dim, mask, dtype), PEERS)
        for dtype, head_dims in groups
        for length, head_dim, mask in itertools.product(LENGTHS, head_dims, ("full", "causal"))
    ]
    flex = itertools.product(FLEX_LENGTHS, (64, 128), ("full", "causal"))
    return cells + [
        Cell(problem_for(length, head_dim, mask, "float16"), ("ours", "flex"))
        for length, head_dim, mask in flex
    ]


def run_sweep(
    cells: list[Cell],
    minutes: float,
    save: Callable[[Document], None],
    say: Callable[[str], None],
    directions: tuple[str, ...] = DIRECTIONS,
) -> Document:
    """Measure cell by cell until `minutes` have passed; `save` is called after each with all there is, and with what is left out."""
    began = time.monotonic()
    warm(cells, say)
    document = Document(left_out=tuple(cell.name for cell in cells))
    for index, cell in enumerate(cells):
        if time.monotonic() - began > 60 * minutes:
            say(f"stopped after {minutes:g} minutes: {len(cells) - index} of {len(cells)} cells are left out")
            break
        try:
            measurement = measure(cell.problem, cell.peers, directions, budget_s=BUDGET_S)
        except (
            RuntimeError
        ) as error:  # a lost CUDA context costs this cell and all after it, and they are left out
            say(f"{cell.name}: {str(error).splitlines()[0]}")
            if "CUDA error" in str(error):
                break
            continue
        left = tuple(name for name in document.left_out if name != cell.name)
        document = document.with_(measurements=(*document.measurements, measurement), left_out=left)
        save(document)
        say(
            f"{index + 1}/{len(cells)} {time.monotonic() - began:4.0f} s  {cell.name}: {_speeds(measurement)}"
        )
    save(document)
    return document


def _speeds(measurement: object) -> str:
    found = []
    for result in measurement.results:
        speed = result.tflops(measurement.problem)
        found.append(
            f"{result.peer} {'fwd' if result.direction == 'forward' else 'bwd'} {f'{speed:.0f}' if speed else '-'}"
        )
    return ", ".join(found)


def warm(cells: list[Cell], say: Callable[[str], None]) -> None:
    """Compile what the cells need, in processes of their own, so that Triton's and torch's caches on disk have it. On CUDA only."""
    from kernels.device.runtime import BACKEND

    jobs = [job for job in dict.fromkeys(_jobs(cells)) if BACKEND == "cuda"]
    if not jobs:
        return
    began = time.monotonic()
    workers = min(len(jobs), max((os.cpu_count() or 2) - 2, 1))
    with multiprocessing.get_context("spawn").Pool(
        workers
    ) as pool:  # leaving it ends the processes, finished or not
        answers = pool.map_async(_compile, jobs, chunksize=1)
        try:
            failures = [failure for failure in answers.get(WARM_LIMIT_S) if failure]
        except multiprocessing.TimeoutError:
            failures = [f"not all had ended after {WARM_LIMIT_S} s"]
    say(
        f"compiled for {len(jobs)} groups of shapes in {time.monotonic() - began:.0f} s {'; '.join(failures)}"
    )


def _jobs(cells: list[Cell]) -> list[tuple]:
    """(peer, problems): what shares compiled code stays in one process."""
    groups: dict[tuple, list[AttentionProblem]] = {}
    for cell in cells:
        for peer in ("ours", "flex"):
            if peer in cell.peers:
                key = (
                    peer,
                    cell.problem.head_dim,
                    cell.problem.mask,
                    cell.problem.dtype,
                    cell.problem.q_len if peer == "flex" else 0,
                )
                groups.setdefault(key, []).append(cell.problem)
    return [(peer, tuple(problems)) for (peer, *_), problems in groups.items()]


def _compile(job: tuple) -> str:
    """Run one peer forward and backward on every problem. Returns what went wrong, or nothing."""
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # the processes are the parallelism
    peer, problems = job
    try:
        from kernels.measure.measure import draw_tensors, make_call

        for problem in problems:
            *inputs, d_output = draw_tensors(problem, "cuda")
            for direction in DIRECTIONS:
                make_call(peer, direction, problem, tuple(inputs), d_output)()
    except (
        Exception
    ) as error:  # whatever a compiler raises: the sweep meets it again and says so in its place
        return f"{peer} {problems[0].head_dim} {problems[0].mask}: {type(error).__name__} {str(error).splitlines()[:1]}"
    return ""
