"""Rebuilds the table of tiles for this machine's GPU: `python -m kernels.tune`. It takes some minutes.

For every kernel, head_dim, mask and class of lengths, it times the candidates on one shape and keeps the
fastest. All candidates are compiled first, in parallel.
"""

import argparse
import contextlib
import functools
import itertools
import json
import sys
import tomllib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernels.device.backend import device_info, utc_now
from kernels.device.clocks import Call, Clock, CudaClock, Timing
from kernels.device.runtime import BACKEND
from kernels.measure.measure import draw_tensors
from kernels.measure.sweep import in_processes, problem_for
from kernels.primitives import tuning
from kernels.primitives.launch import TileConfig
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.tool_arguments import numbers, some_of

MASKS = ("full", "causal")
LENGTHS = (1024, 8192)
"""One length of each length class."""
COMPILE_LENGTH = 512
DTYPE = "float16"
BUDGET_S = 0.1
"""Seconds of timed calls per candidate."""
SHOWN = 4
"""Candidates of a class in a line of progress."""
TRIED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
CANDIDATES = {
    kernel: [
        TileConfig(*map(int, blocks.split(" x ")), *each) for blocks, tried in tiles.items() for each in tried
    ]
    for kernel, tiles in TRIED.items()
}
HOPPER_CANDIDATES = {
    64: [TileConfig(rows, 128, warps, stages) for rows, warps in ((128, 12), (192, 16)) for stages in (2, 3)],
    128: [TileConfig(128, 128, 12, 2)],
    256: [TileConfig(128, 64, 12, 2)],
}
"""Candidates of forward_hopper by head_dim: those that fit the registers and the shared memory."""
PORTABLE = None
"""A candidate of forward_hopper: the plain kernel with its own tuned tiles. If it is the fastest, the table
does not list the class."""
Candidate = TileConfig | None


def candidates(kernel: str, head_dim: int) -> list[Candidate]:
    """What can be timed for a kernel and head_dim on this machine's GPU."""
    if kernel != "forward_hopper":
        return [*CANDIDATES[kernel]]
    if head_dim not in HOPPER_CANDIDATES or tuning.architecture() != "sm90" or not tuning.gluon_is_known():
        return []
    return [PORTABLE, *HOPPER_CANDIDATES[head_dim]]


def prepare(kernel: str, problem: AttentionProblem) -> dict[Candidate, Call]:
    """Tensors on the GPU, and for each candidate a call that launches the kernel on them with its tiles.

    A call raises InvalidProblem if its tiles do not fit the GPU.
    """
    from kernels.algorithms.backward.inputs import BackwardInputs
    from kernels.algorithms.backward.launch import BackwardCall
    from kernels.algorithms.flash2.forward import flash_forward

    query, key, value, d_out = draw_tensors(problem, "cuda")
    mask: dict[str, Any] = {"band": problem.band, "scale": problem.scale}
    flash2 = functools.partial(flash_forward, query, key, value, **mask)
    if kernel == "forward":
        return {config: functools.partial(flash2, config=config) for config in CANDIDATES[kernel]}
    if kernel == "forward_hopper":
        from kernels.algorithms.flash3.launch import flash_forward_hopper

        masked = problem.mask != "full"
        tuned = tuning.choose_config("forward", problem.head_dim, query.dtype, masked, problem.kv_len)
        hopper = functools.partial(flash_forward_hopper, query, key, value, **mask)
        calls: dict[Candidate, Call] = {PORTABLE: functools.partial(flash2, config=tuned)}
        for config in HOPPER_CANDIDATES[problem.head_dim]:
            calls[config] = functools.partial(hopper, config=config)
        return calls
    out, lse, _ = flash2(config=tuning.fallback_config("forward", problem.head_dim, problem.itemsize))
    backward = BackwardCall(BackwardInputs(query, key, value, out, lse, d_out, **mask))
    backward.preprocess()
    launch = getattr(backward, kernel)
    return {config: functools.partial(launch, config) for config in CANDIDATES[kernel]}


def _compile(job: tuple[str, int, str, Candidate]) -> None:
    """Run a candidate on a short sequence, so that Triton's cache on disk has it."""
    kernel, head_dim, mask, candidate = job
    problem = problem_for(COMPILE_LENGTH, head_dim, mask, DTYPE).with_(batch=1)
    with contextlib.suppress(InvalidProblem):  # does not fit the shared memory
        prepare(kernel, problem)[candidate]()


def time_candidates(clock: Clock, kernel: str, problem: AttentionProblem) -> dict[Candidate, Timing]:
    """Times of the candidates that fit this GPU, the fastest first."""
    fitting: dict[Candidate, Call] = {}
    with clock.context():
        for candidate, call in prepare(kernel, problem).items():
            with contextlib.suppress(InvalidProblem):  # does not fit the shared memory
                call()
                fitting[candidate] = call
        timings = clock.time_in_turn(fitting, BUDGET_S)
    return dict(sorted(timings.items(), key=lambda item: item[1].median_ms))


def tune(kernels: list[str], head_dims: list[int], say: Callable[[str], None]) -> dict[str, dict | None]:
    """The table's entry for every class: the fastest candidate, and its time on `problem_for` the class.

    None if PORTABLE is the fastest. `say` is called with the SHOWN fastest candidates of each class.
    """
    classes = itertools.product(kernels, head_dims, MASKS)
    in_processes(_compile, [(*each, tiles) for each in classes for tiles in candidates(*each[:2])], None)
    clock = CudaClock()
    entries: dict[str, dict | None] = {}
    for kernel, head_dim, mask, length in itertools.product(kernels, head_dims, MASKS, LENGTHS):
        if not candidates(kernel, head_dim):
            continue
        problem = problem_for(length, head_dim, mask, DTYPE)
        timings = time_candidates(clock, kernel, problem)
        best, timing = next(iter(timings.items()))
        name = tuning.shape_class(kernel, head_dim, problem.itemsize, mask == "causal", length)
        entry = None if best is PORTABLE else {"config": asdict(best), "median_ms": timing.median_ms}
        entries[name] = entry
        fastest = [f"{each or 'forward.py'} {timings[each].median_ms:.3f} ms" for each in [*timings][:SHOWN]]
        say(f"{name}: {', '.join(fastest)}")
    return entries


def main(argv: list[str] | None = None) -> int:
    """The command line. Returns 0, or 2 without a GPU."""
    parser = argparse.ArgumentParser(
        prog="python -m kernels.tune",
        description="Rebuild the table of tiles for this machine's GPU. It takes some minutes.",
    )
    add = parser.add_argument
    known = f"some of {','.join(tuning.KERNELS)} (default: all)"
    add("--kernels", type=some_of(tuning.KERNELS), default=list(tuning.KERNELS), help=known)
    dims = [32, 64, 128, 256]
    add("--head-dims", type=numbers, default=dims, help="comma separated (default 32,64,128,256)")
    out = "file to write (default: the table of this architecture); classes that are not timed are kept"
    add("--out", type=Path, help=out)
    arguments = parser.parse_args(argv)
    if BACKEND != "cuda":
        print("error: tuning needs a CUDA GPU", file=sys.stderr)
        return 2
    path = arguments.out or tuning.FOLDER / f"{tuning.architecture()}.json"
    path.parent.mkdir(exist_ok=True)
    kept = json.loads(path.read_text())["classes"] if path.exists() else {}
    say = functools.partial(print, file=sys.stderr, flush=True)
    timed = tune(arguments.kernels, arguments.head_dims, say)
    document = {
        "format": tuning.FORMAT,
        "version": tuning.FORMAT_VERSION,
        "device": asdict(device_info(BACKEND)),
        "tuned_at": utc_now(),
        "classes": {name: entry for name, entry in (kept | timed).items() if entry},
    }
    path.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
