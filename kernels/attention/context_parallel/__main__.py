"""Attention over several GPUs, by the ranks that torchrun starts:

torchrun --nproc-per-node N -m kernels.attention.context_parallel check | measure | record
"""

import argparse
import os
import sys
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from kernels.attention.context_parallel.run import RunOrder, run_on_this_rank
from kernels.device.runtime import BACKEND
from kernels.measure.document import Document
from kernels.measure.ranks import LONGEST_ALONE, ONE_GPU, TORCH, RanksTime, measure_ranks, share_of_ideal
from kernels.problem import AttentionProblem
from kernels.problem.ranks import divisor_of
from kernels.record import write
from kernels.recordings import FILES, FOLDER, RANKS_PREFIX
from kernels.tool_arguments import numbers, report_path, some_of

WAYS = (
    ("ring", "zigzag"),
    ("ring", "contiguous"),
    ("ring", "striped"),
    ("all_gather", "zigzag"),
    ("all_to_all", "zigzag"),
)
"""Methods and layouts that are recorded."""
DIRECTIONS = ("forward", "backward")
LAYER: dict[str, Any] = {"q_heads": 32, "kv_heads": 8, "head_dim": 128, "dtype": "bfloat16", "mask": "causal"}
"""A layer of Llama-3-8B."""
TRACED_LENGTH = 32768
SMALL = {"q_heads": 8, "kv_heads": 8, "head_dim": 16, "dtype": "float32"}
"""What a dry run changes of it."""
CHECKS: tuple[dict[str, Any], ...] = (
    {"mask": "causal", "q_heads": 8},
    {"mask": "full", "head_dim": 40},
    {"mask": "window", "window_left": 9, "window_right": 2, "head_dim": 256},
    {"mask": "causal", "kv_len": 2048, "dtype": "float32"},
)
"""What `check` changes of a problem of 1,024 queries and keys (of 16 per rank in the interpreter)."""


def main() -> int:
    """The command line, on each rank. Returns 1 if a check fails."""
    arguments = _argument_parser().parse_args()
    if "RANK" not in os.environ:
        print(f"error: this process is no rank. Start it by {_usage()}", file=sys.stderr)
        return 2
    on_gpus = BACKEND == "cuda"
    own = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()) if on_gpus else None
    if own:
        torch.cuda.set_device(own)
    alone = not own or int(os.environ["LOCAL_WORLD_SIZE"]) > torch.cuda.device_count()
    limit = timedelta(seconds=arguments.limit)
    dist.init_process_group("gloo" if alone else "nccl", timeout=limit, device_id=None if alone else own)
    failed = {"check": check, "measure": measure, "record": record}[arguments.what](arguments)
    dist.destroy_process_group()
    return int(failed)


def _usage() -> str:
    return "torchrun --nproc-per-node N -m kernels.attention.context_parallel check | measure | record"


def _argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(usage=_usage(), description=(__doc__ or "").split(",", 1)[0])
    add = parser.add_argument
    add("what", choices=("check", "measure", "record"))
    add("--lengths", type=numbers, help="tokens of all ranks, comma separated (default 32768,131072,524288)")
    add("--longest", type=int, default=0, help="one more length, by the fastest ways alone: 1048576")
    add("--out", type=Path, default=FOLDER, help="folder that record writes to (default: shipped recordings)")
    add("--file", type=report_path, help="file that measure writes")
    add("--methods", type=some_of({way for way, _ in WAYS}), help="of ours (default: all)")
    add("--budget", type=float, default=0.5, help="seconds of timed calls per cell (default 0.5)")
    add(
        "--limit", type=float, default=120, help="seconds after which a silent rank is given up (default 120)"
    )
    add("--dry-run", action="store_true", help="small problems, to try the command without GPUs")
    return parser


def _say(line: str) -> None:
    if not dist.get_rank():
        print(line, file=sys.stderr, flush=True)


def check(arguments: argparse.Namespace) -> bool:
    """Every way against float64, forward and backward. Returns whether one is wrong."""
    world, wrong = dist.get_world_size(), False
    length = 1024 if BACKEND == "cuda" else 16 * world
    for change in CHECKS:
        shape: dict[str, Any] = {
            "q_len": length,
            "kv_len": length,
            "head_dim": 64,
            "q_heads": 4,
            "kv_heads": 4,
        }
        if "kv_len" in change:
            change = change | {"kv_len": 2 * length}
        problem = AttentionProblem(**(shape | change))
        for method, layout in WAYS:
            refusal = _left_out(problem, method, layout)
            for direction in () if refusal else DIRECTIONS:
                trace = run_on_this_rank(RunOrder(problem, method, layout, direction), _device())
                for name, report in (trace.reports if trace else {}).items():
                    wrong |= not report.passes
                    verdict = "right" if report.passes else "WRONG"
                    error = f"{report.max_error:.1e} of {report.tolerance:.1e}"
                    _say(f"{verdict} {name} {error}: {method}, {layout}, {change}")
            if refusal:
                _say(f"left out: {method}, {layout}, {change}: {refusal}")
    return wrong


def _device() -> str:
    return "cuda" if BACKEND == "cuda" else "cpu"


def _left_out(problem: AttentionProblem, method: str, layout: str) -> str:
    """Why a way cannot take a problem on these ranks; "" if it can."""
    world = dist.get_world_size()
    if method == "all_to_all" and problem.kv_heads % world:
        return f"{problem.kv_heads} key heads cannot be shared out over {world} ranks"
    divisor = divisor_of(world, layout)
    return f"lengths are no multiple of {divisor}" if problem.q_len % divisor else ""


def measure(arguments: argparse.Namespace) -> bool:
    """Time ours, torch's and one GPU over the lengths, and write them to the file."""
    write_times(arguments.file, _times(arguments))
    return False


def _times(arguments: argparse.Namespace) -> list[RanksTime]:
    """Times of all cells that the command line asks for, printed as they come."""
    lengths = arguments.lengths or (
        [64 * dist.get_world_size()] if arguments.dry_run else [1 << 15, 1 << 17, 1 << 19]
    )
    small: dict[str, Any] = SMALL if arguments.dry_run else {}
    every_head = {"q_heads": 16, "kv_heads": 16}  # torch's own takes no shared key heads
    times: list[RanksTime] = []

    def cell(
        problem: AttentionProblem, method: str, layout: str = "", directions: Iterable[str] = DIRECTIONS
    ) -> None:
        for time in measure_ranks(problem, method, layout, directions, arguments.budget):
            times.append(time)
            share = share_of_ideal(time, times)
            rate = f"{time.timing.median_ms:.2f} ms, {time.tflops:.0f} TFLOP/s" if time.timing else ""
            ideal = f", {share:.2f} of ideal" if share else ""
            shape = f"{problem.q_len} tokens, {problem.q_heads} over {problem.kv_heads} heads"
            _say(f"{shape}, {method} {layout} {time.direction}: {rate or time.refused}{ideal}")

    for length in lengths:
        for shape in (LAYER, LAYER | every_head):
            problem = AttentionProblem(**(shape | {"q_len": length, "kv_len": length} | small))
            if length <= LONGEST_ALONE:
                cell(problem, ONE_GPU)
            for method, layout in WAYS if shape is LAYER else WAYS[:1]:
                if (not arguments.methods or method in arguments.methods) and not _left_out(
                    problem, method, layout
                ):
                    cell(problem, method, layout)
            for method in TORCH if BACKEND == "cuda" else ():
                cell(problem, method)
    if arguments.longest:
        problem = AttentionProblem(**(LAYER | {"q_len": arguments.longest, "kv_len": arguments.longest}))
        for method, layout in (WAYS[0], WAYS[-1]):
            cell(problem, method, layout)
    return times


def write_times(path: Path | None, times: list[RanksTime]) -> None:
    """Write a document of the times, on rank 0."""
    if path and not dist.get_rank():
        command = f"torchrun --nproc-per-node {dist.get_world_size()} -m kernels.attention.context_parallel"
        write(path, Document(f"{command} {' '.join(sys.argv[1:])}", ranks=tuple(times)).to_json())


def record(arguments: argparse.Namespace) -> bool:
    """Runs for the player, rank by rank, and times of all cells. About five minutes on four H100."""
    length = 16 * dist.get_world_size() if arguments.dry_run else TRACED_LENGTH
    small: dict[str, Any] = SMALL if arguments.dry_run else {}
    problem, wrong = AttentionProblem(**(LAYER | {"q_len": length, "kv_len": length} | small)), False
    for direction in DIRECTIONS:
        for method, layout in WAYS if direction == "forward" else WAYS[:1]:
            trace = run_on_this_rank(RunOrder(problem, method, layout, direction), _device())
            if trace is None:
                continue
            wrong |= not all(report.passes for report in trace.reports.values())
            trace.save(arguments.out / f"{RANKS_PREFIX}{method}.{layout}.{direction}.npz")
            clocks = f"clocks within {trace.clock_error_ns} ns"
            _say(f"{method}, {layout}, {direction}: {trace.ns / 1e6:.2f} ms, {clocks}")
    times = _times(arguments)
    write_times(arguments.out / FILES["ranks"], times)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
