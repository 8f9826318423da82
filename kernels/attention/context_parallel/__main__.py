"""Attention over several GPUs, by the ranks that torchrun starts: see USAGE."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from kernels.attention.context_parallel.run import RunOrder, run_on_this_rank
from kernels.device.runtime import BACKEND, DEVICE
from kernels.file_format import write
from kernels.measure.document import Document, read_document
from kernels.measure.ranks import DECODE, LONGEST_ALONE, ONE_GPU, TORCH, RanksTime, share_of_ideal
from kernels.measure.timed_ranks import measure_ranks
from kernels.problem import AttentionProblem
from kernels.problem.ranks import divisor_of
from kernels.recordings import FILES, FOLDER, RANKS_PREFIX
from kernels.tool_arguments import numbers, some_of

COMMAND = "torchrun --nproc-per-node {} -m kernels.attention.context_parallel"
USAGE = f"{COMMAND.format('N')} check | measure | record"
WAYS = (
    ("ring", "zigzag"),
    ("ring", "contiguous"),
    ("ring", "striped"),
    ("all_gather", "zigzag"),
    ("all_to_all", "zigzag"),
)
"""Methods and layouts that are recorded."""
PARTS = ("traces", "ways", "decoding")
DIRECTIONS = ("forward", "backward")
LAYER: dict[str, Any] = {"q_heads": 32, "kv_heads": 8, "head_dim": 128, "dtype": "bfloat16", "mask": "causal"}
"""A layer of Llama-3-8B."""
TRACED_LENGTH = 32768
EVERY_HEAD = {"q_heads": 16, "kv_heads": 16}
"""What is changed of it to give each query head keys of its own."""
SMALL: dict[str, Any] = {"q_heads": 8, "kv_heads": 8, "head_dim": 16, "dtype": "float32"}
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
        print(f"error: this process is no rank. Start it by {USAGE}", file=sys.stderr)
        return 2
    on_gpus = BACKEND == "cuda"
    own = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()) if on_gpus else None
    if own:
        torch.cuda.set_device(own)
    alone = not own or int(os.environ["LOCAL_WORLD_SIZE"]) > torch.cuda.device_count()
    limit = timedelta(seconds=arguments.limit)
    dist.init_process_group("gloo" if alone else "nccl", timeout=limit, device_id=None if alone else own)
    does: dict[str, Callable[..., Any]] = {"check": check, "measure": measure, "record": record}
    found = does[arguments.what](arguments)
    dist.destroy_process_group()
    return int(found is True)


def _argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(usage=USAGE, description=(__doc__ or "").split(",", 1)[0])
    add = parser.add_argument
    add("what", choices=("check", "measure", "record"))
    standard = "tokens of all ranks, comma separated (default: 8k, 32k and 128k per rank, and 1M)"
    add("--lengths", type=numbers, help=standard)
    add("--out", type=Path, default=FOLDER, help="folder that record writes to (default: shipped recordings)")
    parts = "some of traces,ways,decoding (default: all); measure takes no traces"
    add("--parts", type=some_of(PARTS), default=PARTS, help=parts)
    add("--budget", type=float, default=0.5, help="seconds of timed calls per cell (default 0.5)")
    limit = "seconds after which a silent rank is given up (default 120)"
    add("--limit", type=float, default=120, help=limit)
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
        if "kv_len" in change:
            change = change | {"kv_len": 2 * length}
        problem = AttentionProblem(q_len=length, kv_len=length, q_heads=4, kv_heads=4).with_(**change)
        for method, layout in WAYS:
            refusal = _left_out(problem, method, layout)
            for direction in () if refusal else DIRECTIONS:
                trace = run_on_this_rank(RunOrder(problem, method, layout, direction), DEVICE)
                for name, report in (trace.reports if trace else {}).items():
                    wrong |= not report.passes
                    verdict = "right" if report.passes else "WRONG"
                    error = f"{report.max_error:.1e} of {report.tolerance:.1e}"
                    _say(f"{verdict} {name} {error}: {method}, {layout}, {change}")
            if refusal:
                _say(f"left out: {method}, {layout}, {change}: {refusal}")
    return wrong


def _left_out(problem: AttentionProblem, method: str, layout: str) -> str:
    """Why a way cannot take a problem on these ranks; "" if it can."""
    world = dist.get_world_size()
    if method == "all_to_all" and problem.kv_heads % world:
        return f"{problem.kv_heads} key heads cannot be shared out over {world} ranks"
    divisor = divisor_of(world, layout)
    return f"lengths are no multiple of {divisor}" if problem.q_len % divisor else ""


def measure(
    arguments: argparse.Namespace, keep: Callable[[list[RanksTime]], None] = lambda times: None
) -> None:
    """Time ours, torch's and one GPU over the lengths; `keep` is called with all times so far, after each."""
    found: list[RanksTime] = []
    for asked in _timed(arguments):
        for time in measure_ranks(*asked, arguments.budget):
            found.append(time)
            share = share_of_ideal(time, found)
            rate = f"{time.timing.median_ms:.2f} ms, {time.tflops:.0f} TFLOP/s" if time.timing else ""
            ideal = f", {share:.2f} of ideal" if share else ""
            problem = time.problem
            shape = f"{problem.q_len} x {problem.kv_len}, {problem.q_heads} over {problem.kv_heads} heads"
            _say(f"{shape}, {time.method} {time.layout} {time.direction}: {rate or time.refused}{ideal}")
            keep(found)


def _timed(arguments: argparse.Namespace) -> Iterator[tuple[AttentionProblem, str, str, Iterable[str]]]:
    """Problem, method, layout and directions of all that is timed."""
    world = dist.get_world_size()
    standard = [64 * world] if arguments.dry_run else sorted({*(world << k for k in (13, 15, 17)), 1 << 20})
    lengths, small = arguments.lengths or standard, SMALL if arguments.dry_run else {}
    for length in lengths if "ways" in arguments.parts else ():
        for shape in (LAYER, LAYER | EVERY_HEAD)[: 1 if length >= 1 << 20 else 2]:
            problem = AttentionProblem(**(shape | {"q_len": length, "kv_len": length} | small))
            if length <= LONGEST_ALONE:
                yield problem, ONE_GPU, "", DIRECTIONS
            for method, layout in WAYS if shape is LAYER else WAYS[:1]:
                if not _left_out(problem, method, layout):
                    yield problem, method, layout, DIRECTIONS
            for method in TORCH if BACKEND == "cuda" else ():
                yield problem, method, "", DIRECTIONS
    for length in (lengths[0], lengths[-1]) if "decoding" in arguments.parts else ():
        step = AttentionProblem(**(LAYER | {"q_len": 1, "kv_len": length, "mask": "full"} | small))
        for method in (ONE_GPU, DECODE):
            yield step, method, "", DIRECTIONS[:1]


def record(arguments: argparse.Namespace) -> bool:
    """Write runs for the player and times. About seven minutes on four H200, nearly all of them "ways".

    Times of parts that are not recorded again stay.
    """
    arguments.out.mkdir(parents=True, exist_ok=True)
    wrong = _record_traces(arguments) if "traces" in arguments.parts else False
    path = arguments.out / FILES["ranks"]
    old = read_document(path.read_bytes()) if path.exists() else Document()
    command = f"{COMMAND.format(dist.get_world_size())} {' '.join(sys.argv[1:])}"
    commands = "; ".join(dict.fromkeys(filter(None, (old.command, command))))

    def keep(times: list[RanksTime]) -> None:
        again = {_cell(time) for time in times}
        kept = [time for time in old.ranks if _cell(time) not in again]
        if not dist.get_rank():
            write(path, Document(commands, ranks=(*kept, *times)).to_json())

    measure(arguments, keep)
    return wrong


def _cell(time: RanksTime) -> tuple:
    return time.problem, time.method, time.layout, time.direction


def _record_traces(arguments: argparse.Namespace) -> bool:
    """Returns whether one is wrong."""
    length = 16 * dist.get_world_size() if arguments.dry_run else TRACED_LENGTH
    small = SMALL if arguments.dry_run else {}
    problem, wrong = AttentionProblem(**(LAYER | {"q_len": length, "kv_len": length} | small)), False
    for direction in DIRECTIONS:
        for method, layout in WAYS if direction == "forward" else WAYS[:1]:
            trace = run_on_this_rank(RunOrder(problem, method, layout, direction), DEVICE)
            if trace is None:
                continue
            wrong |= not all(report.passes for report in trace.reports.values())
            trace.save(arguments.out / f"{RANKS_PREFIX}{method}.{layout}.{direction}.npz")
            clocks = f"clocks within {trace.clock_error_ns} ns"
            _say(f"{method}, {layout}, {direction}: {trace.ns / 1e6:.2f} ms, {clocks}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
