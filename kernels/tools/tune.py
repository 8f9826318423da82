"""Rebuild the table of tiles for the GPU at hand: `python -m kernels.tune`. Takes some minutes; compiles in parallel first.

For every kernel, head_dim, mask and length class it times the candidates on one shape and keeps the fastest.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import multiprocessing
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from kernels.measure.sweep import problem_for
from kernels.problem import AttentionProblem, InvalidProblem

LENGTHS = {"short": 1024, "long": 8192}
COMPILE_LENGTH = 512
BUDGET_S = 0.1
CANDIDATES = {
    "forward": [(64, 64, 4, 2), (64, 64, 4, 3), (64, 128, 4, 2), (64, 128, 4, 3), (128, 64, 4, 2), (128, 64, 4, 3), (128, 128, 4, 2),
                (128, 64, 8, 2), (128, 64, 8, 3), (128, 128, 8, 2), (64, 32, 4, 2), (64, 32, 4, 3), (128, 32, 8, 2)],
    "forward_hopper": [(128, 128, 12, 2), (192, 128, 16, 2)],
    "dk_dv": [(32, 64, 4, 2), (32, 64, 4, 3), (64, 64, 4, 2), (64, 64, 4, 3), (32, 128, 4, 2), (32, 128, 8, 2), (64, 128, 8, 2), (64, 128, 8, 3),
              (128, 128, 8, 2), (128, 64, 4, 2), (128, 64, 8, 2), (32, 32, 4, 2), (64, 32, 4, 2), (64, 64, 8, 1), (64, 64, 8, 2), (32, 64, 8, 1),
              (32, 64, 8, 2)],
    "dq": [(64, 32, 4, 2), (64, 32, 4, 3), (64, 64, 4, 2), (64, 64, 4, 3), (64, 128, 4, 2), (128, 32, 4, 2), (128, 32, 4, 3), (128, 64, 4, 2),
           (128, 64, 8, 2), (128, 64, 8, 3), (128, 128, 8, 2), (32, 32, 4, 2), (32, 64, 4, 2)],
}  # fmt: skip
"""(BLOCK_M, BLOCK_N, warps, stages) of each kernel."""
HOPPER_HEAD_DIMS = {(128, 128, 12, 2): (64, 128), (192, 128, 16, 2): (64,)}
"""head_dims for which a candidate of forward_hopper fits the registers and the shared memory."""
PORTABLE = ()
"""Stands, among the candidates of forward_hopper, for forward.py with its own tuned tiles: where it wins, the class is left out."""


def prepare(kernel: str, problem: AttentionProblem) -> Callable[[tuple], object]:
    """Tensors on the GPU, and a function that launches the kernel on them with a candidate's tiles."""
    import torch

    from kernels.algorithms.backward.launch import BackwardCall
    from kernels.algorithms.flash2.forward import flash_forward
    from kernels.primitives.launch import TileConfig
    from kernels.primitives.tuning import choose_config, fallback_config

    def draw(shape: tuple) -> torch.Tensor:
        return torch.randn(shape, dtype=getattr(torch, problem.dtype), device="cuda")

    query, key, value, d_out = (
        draw(shape) for shape in (problem.q_shape, problem.kv_shape, problem.kv_shape, problem.q_shape)
    )
    mask = {"band": problem.band, "scale": problem.scale}
    if kernel == "forward":
        return lambda candidate: flash_forward(query, key, value, config=TileConfig(*candidate), **mask)
    if kernel == "forward_hopper":
        from kernels.algorithms.flash3.launch import flash_forward_hopper

        tuned = choose_config(
            "forward", problem.head_dim, query.dtype, problem.mask != "full", problem.kv_len
        )
        portable = functools.partial(flash_forward, query, key, value, config=tuned, **mask)
        return lambda candidate: (
            portable()
            if candidate == PORTABLE
            else flash_forward_hopper(query, key, value, config=TileConfig(*candidate), **mask)
        )
    out, lse, _ = flash_forward(
        query, key, value, config=fallback_config("forward", problem.head_dim, problem.itemsize), **mask
    )
    call = BackwardCall(query, key, value, out, lse, d_out, **mask)
    call.preprocess()
    return lambda candidate: getattr(call, kernel)(TileConfig(*candidate))


def candidates(kernel: str, head_dim: int) -> list[tuple]:
    """What can be timed for a kernel and head_dim on the GPU at hand."""
    if kernel != "forward_hopper":
        return CANDIDATES[kernel]
    from kernels.primitives.tuning import architecture, gluon_is_known

    fitting = [candidate for candidate, head_dims in HOPPER_HEAD_DIMS.items() if head_dim in head_dims]
    return [PORTABLE, *fitting] if fitting and architecture() == "sm90" and gluon_is_known() else []


def _compile(job: tuple) -> None:
    """Run one candidate on a short sequence in a process of its own, so that Triton's cache on disk has it."""
    kernel, head_dim, mask, candidate = job
    with contextlib.suppress(InvalidProblem):  # does not fit the shared memory
        prepare(kernel, problem_for(COMPILE_LENGTH, head_dim, mask, "float16").with_(batch=1))(candidate)


def tune(kernels: list[str], head_dims: list[int], say: Callable[[str], None]) -> dict[str, dict | None]:
    """The fastest candidate of every class, with its time in ms, by the name of the class; None where the class is to be left out."""
    jobs = [
        (k, d, mask, c)
        for k, d, mask in itertools.product(kernels, head_dims, ("full", "causal"))
        for c in candidates(k, d)
    ]
    with ProcessPoolExecutor(
        max(os.cpu_count() - 2, 1), mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        list(pool.map(_compile, jobs, chunksize=2))

    from kernels.device.clocks import CudaClock
    from kernels.primitives.tuning import shape_class

    clock, classes = CudaClock(), {}
    for kernel, head_dim, mask, (name, length) in itertools.product(
        kernels, head_dims, ("full", "causal"), LENGTHS.items()
    ):
        options = candidates(kernel, head_dim)
        if not options:
            continue
        problem = problem_for(length, head_dim, mask, "float16")
        calls = {}
        with clock.context():
            launch = prepare(kernel, problem)
            for candidate in options:
                with contextlib.suppress(InvalidProblem):  # does not fit the shared memory
                    launch(candidate)
                    calls[candidate] = functools.partial(launch, candidate)
            timings = clock.time_in_turn(calls, BUDGET_S)
        ranking = sorted(timings, key=lambda candidate: timings[candidate].median_ms)
        best, median_ms = ranking[0], timings[ranking[0]].median_ms
        key = shape_class(kernel, head_dim, problem.itemsize, mask == "causal", length)
        if best == PORTABLE:
            classes[key] = None
        else:
            config = dict(zip(("block_m", "block_n", "num_warps", "num_stages"), best, strict=True))
            classes[key] = {"config": config, "median_ms": median_ms, "problem": problem.as_dict()}
        say(
            f"{key} ({name}): "
            + "  ".join(
                f"{candidate or 'forward.py'} {timings[candidate].median_ms:.3f}" for candidate in ranking[:4]
            )
        )
    return classes


def main(argv: list[str] | None = None) -> int:
    """The command line. Returns 0, or 2 without a GPU."""
    from kernels.primitives.tuning import FOLDER, FORMAT, FORMAT_VERSION, KERNELS, architecture

    parser = argparse.ArgumentParser(prog="python -m kernels.tune", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--kernels",
        type=lambda text: text.split(","),
        default=list(KERNELS),
        help=f"some of {', '.join(KERNELS)}",
    )
    parser.add_argument(
        "--head-dims", type=lambda text: [int(part) for part in text.split(",")], default=[32, 64, 128, 256]
    )
    parser.add_argument(
        "--out", type=Path, help="file to write (default: the table of this architecture, other classes kept)"
    )
    arguments = parser.parse_args(argv)

    from kernels.device.backend import device_info, utc_now
    from kernels.device.runtime import BACKEND

    if BACKEND != "cuda":
        print("error: tuning needs a CUDA GPU", file=sys.stderr)
        return 2
    path = arguments.out or FOLDER / f"{architecture()}.json"
    path.parent.mkdir(exist_ok=True)
    kept = json.loads(path.read_text())["classes"] if path.exists() else {}
    classes = tune(
        arguments.kernels, arguments.head_dims, lambda line: print(line, file=sys.stderr, flush=True)
    )
    document = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "device": asdict(device_info(BACKEND)),
        "tuned_at": utc_now(),
    }
    chosen = {key: entry for key, entry in (kept | classes).items() if entry}
    path.write_text(json.dumps(document | {"classes": chosen}, indent=1) + "\n")
    return 0
