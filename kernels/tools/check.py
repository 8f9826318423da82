"""Checks whether a kernel's results are right, by the rule of FlashAttention's own tests.

The kernel is one of ours, torch's, or your own function; or a file holds the result. Without shapes or other
properties of a case, a battery of small cases is run, each with something that kernels get wrong. Every case
runs in a child process with a time limit, so that a crash or a hang costs that case alone.

Exit status: 0 if no case fails and at least half of them pass, 1 if any case fails or ends without a verdict,
2 if fewer were checked (an argument is wrong, or the kernel refuses too many cases). Of several kernels each
is judged alone, and the status is the worst: 1, else 2, else 0.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernels.check.battery import battery
from kernels.check.cases import (
    KERNELS,
    LAYOUTS,
    PUBLIC_CALL,
    UPLOADED,
    USERS,
    CheckCase,
    Grid,
    grid_cases,
    parse_shapes,
)
from kernels.check.file_rules import InvalidUpload
from kernels.check.result import CheckResult
from kernels.check.result_lines import INDENT, WORDS
from kernels.check.summary import (
    by_kernel,
    causes,
    hints,
    last_words,
    overall,
    side_by_side,
    summary,
    table_text,
)
from kernels.check.uploads import AXES, AXES_WORDS, Upload, read_upload
from kernels.check.user_kernel import UserKernel, UserKernelError
from kernels.problem import BLOCKS, DTYPES, INPUTS, MASKS, AttentionProblem, InvalidProblem
from kernels.tool_arguments import check_report_path, seconds
from kernels.tools.check_session import Session
from kernels.worker.client import WorkerClient

EXIT = {"pass": 0, "fail": 1, "error": 1, "invalid": 2, "few": 2}
NAMED_KERNELS = [name for name in KERNELS if name not in USERS]
DETAILED_CASES = 4
"""Up to so many cases, every tensor of each is listed; of more, those of cases that do not pass."""

CASE_OPTIONS: dict[str, object] = {
    "shapes": "256",
    "head_dim": [64],
    "dtype": ["float16"],
    "mask": ["full"],
    "window": [128, 0],
    "batch": 1,
    "q_heads": 1,
    "kv_heads": None,
    "blocks": [64, 64],
    "inputs": "normal",
    "seed": 0,
    "layout": LAYOUTS[0],
    "scale": None,
}
"""Options that describe cases, and their values if another one is given. Without any: the battery."""
WITH_A_FILE = ("mask", "window", "blocks", "layout", "scale")
"""Those that a file does not say itself."""


def _words(text: str) -> list[str]:
    return text.split(",")


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        accepted = "expected whole numbers separated by commas, such as 64,128"
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted: {accepted}") from None


def _parser() -> argparse.ArgumentParser:
    description, _, epilog = (__doc__ or "").partition("\n\nExit")
    parser = argparse.ArgumentParser(
        prog="python -m kernels.check", description=description, epilog=f"Exit{epilog}"
    )
    _add_cases(parser)
    _add_run(parser)
    return parser


def _add_cases(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    named = (
        f"one of {', '.join(NAMED_KERNELS)}; or file.py:function, your own function with the signature of "
        f"scaled_dot_product_attention (default {PUBLIC_CALL}). Several are checked side by side"
    )
    add("--kernel", action="append", default=[], help=named)
    shapes = 'lengths such as "256,113x203" (query x key), or "trusted" for FlashAttention\'s own list'
    add("--shapes", help=f"{shapes} (default: the battery)")
    add("--head-dim", type=_numbers, help="one or more, such as 64,128 (default 64)")
    add("--dtype", type=_words, help=f"some of {','.join(DTYPES)} (default float16)")
    add("--mask", type=_words, help=f"some of {','.join(MASKS)} (default full)")
    window = "keys before and after the diagonal that the window mask leaves"
    add("--window", type=_numbers, help=f"{window} (default 128,0)")
    add("--batch", type=int)
    add("--q-heads", type=int)
    add("--kv-heads", type=int, help="default: as many as --q-heads")
    blocks = f"BLOCK_M,BLOCK_N for kernels that take them; each is one of {', '.join(map(str, BLOCKS))}"
    add("--blocks", type=_numbers, help=f"{blocks} (default 64,64)")
    add("--inputs", choices=INPUTS)
    add("--seed", type=int)
    add("--layout", choices=LAYOUTS, help="how Q, K and V lie in memory (default contiguous)")
    add("--scale", type=float, help="factor on the scores (default 1 / sqrt(head_dim))")


def _add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--forward", action="store_true", help="do not check the gradients")
    add("--repeats", type=int, help="number of runs that are compared bit by bit (default 3, battery 2)")
    limit = "seconds, more than 0, after which a case is stopped, without a verdict (default 120)"
    add("--time-limit", type=seconds, default=120.0, help=limit)
    add("--sensitivity", action="store_true", help="also vary tile sizes and the scale of the query")
    invariance = "also compare bit by bit: more runs, other batches, other places of a row, other splits"
    add("--determinism", action="store_true", help=invariance)
    file = (
        "take Q, K, V (and dO) from this .npz or .safetensors file. If it holds O and no --kernel is given, "
        "that result is checked"
    )
    add("--file", type=Path, help=file)
    axes = "; ".join(f"{name}: {words}" for name, words in AXES_WORDS.items())
    add("--file-axes", choices=AXES, help=f"axes of the file's tensors, {axes} (default bhld, if it fits)")
    add("--json", type=Path, help="write the report to this file as JSON")
    add("--html", type=Path, help="write the report to this file as HTML: all cases, and the worst in full")


@dataclass
class _Kernels:
    """What is checked: names of KERNELS, or UPLOADED; and the user's own among them."""

    names: list[str]
    own: list[UserKernel] = field(default_factory=list)

    def user(self, name: str) -> UserKernel | None:
        """The user's kernel of that name."""
        return self.own[USERS.index(name)] if name in USERS else None


def _kernels(arguments: argparse.Namespace, upload: Upload | None) -> _Kernels:
    if upload is not None and upload.facts.has_output and not arguments.kernel:
        return _Kernels([UPLOADED])
    found = _Kernels([])
    for text in arguments.kernel or [PUBLIC_CALL]:
        if text in NAMED_KERNELS:
            found.names.append(text)
            continue
        if ".py" not in text:
            accepted = f"expected one of {', '.join(NAMED_KERNELS)}, or file.py:function"
            raise InvalidProblem("kernel", text, accepted)
        if len(found.own) == len(USERS):
            raise InvalidProblem("kernel", text, f"expected at most {len(USERS)} kernels of your own")
        found.own.append(UserKernel.parse(text))
        found.names.append(USERS[len(found.own) - 1])
    return found


def _pair(arguments: argparse.Namespace, name: str) -> tuple[int, int]:
    numbers = getattr(arguments, name)
    if len(numbers) != 2:
        raise InvalidProblem(name, numbers, "expected two numbers, such as 128,64")
    return numbers[0], numbers[1]


def _fill_in(arguments: argparse.Namespace, upload: Upload | None) -> bool:
    """Give the options of cases their defaults. True if none was given, which asks for the battery."""
    given = [name for name in CASE_OPTIONS if getattr(arguments, name) is not None]
    if upload is not None and (misplaced := [name for name in given if name not in WITH_A_FILE]):
        option = misplaced[0]
        words = "it is not accepted with --file, which brings its own shape and type"
        raise InvalidProblem(option, getattr(arguments, option), words, "Leave one of the two out.")
    for name, value in CASE_OPTIONS.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    is_battery = not given and upload is None
    if arguments.repeats is None:
        arguments.repeats = 2 if is_battery else 3
    return is_battery


def _cases(arguments: argparse.Namespace, kernel: str, upload: Upload | None, backend: str) -> Grid:
    if kernel in KERNELS and backend not in KERNELS[kernel].backends:
        accepted = ", ".join(key for key in NAMED_KERNELS if backend in KERNELS[key].backends)
        raise InvalidProblem("kernel", kernel, f"expected one of {accepted} on this device")
    (block_m, block_n), (window_left, window_right) = _pair(arguments, "blocks"), _pair(arguments, "window")
    problem = AttentionProblem(
        batch=arguments.batch,
        q_heads=arguments.q_heads,
        kv_heads=arguments.q_heads if arguments.kv_heads is None else arguments.kv_heads,
        inputs=arguments.inputs,
        seed=arguments.seed,
        block_m=block_m,
        block_n=block_n,
        window_left=window_left,
        window_right=window_right,
    )
    layout, scale = arguments.layout, arguments.scale
    case = CheckCase(problem, kernel, not arguments.forward, arguments.repeats, layout=layout, scale=scale)
    if upload is not None:
        case = replace(case, upload=upload.digest, axes=upload.axes)
        masked = [upload.facts.problem(problem.with_(mask=mask)) for mask in arguments.mask]
        return Grid(tuple(replace(case, problem=problem) for problem in masked), ())
    if arguments.battery:
        return Grid(battery(case), ())
    shapes = None if arguments.shapes == "trusted" else parse_shapes(arguments.shapes)
    grid = grid_cases(case, backend, shapes, arguments.head_dim, arguments.dtype, arguments.mask)
    # Only the trusted list leaves out cases that are slow in the interpreter; all shapes of the user run.
    return grid if shapes is None else Grid(grid.cases + grid.left_out, ())


def _say_what_is_judged(kernels: _Kernels, upload: Upload | None) -> None:
    if upload is None:
        return
    if kernels.names == [UPLOADED]:
        print("Judged: the O in the file, and what else is in it.")
    elif upload.facts.has_output:
        print(
            "Judged: the kernel, on Q, K and V of the file. The file's O is not: leave --kernel out for it."
        )
    if upload.facts.axes_words:
        print(upload.facts.axes_words, file=sys.stderr)


def _run(arguments: argparse.Namespace, command: str) -> list[CheckResult]:
    check_report_path("json", arguments.json)
    check_report_path("html", arguments.html)
    data = arguments.file.read_bytes() if arguments.file else b""
    upload = read_upload(data, arguments.file_axes) if arguments.file else None
    kernels = _kernels(arguments, upload)
    arguments.battery = _fill_in(arguments, upload)
    _cases(
        arguments, kernels.names[0], upload, KERNELS.get(kernels.names[0], KERNELS[PUBLIC_CALL]).backends[0]
    )
    _say_what_is_judged(kernels, upload)
    client = WorkerClient(kernels=[own.argument for own in kernels.own])
    session = Session(arguments, client, kernels.user, data)
    try:
        backend = session.backend()
        grids = [_cases(arguments, name, upload, backend) for name in kernels.names]
        detailed = len(grids[0].cases) <= DETAILED_CASES
        by_kernel = [[session.check(case, detailed) for case in grid.cases] for grid in grids]
    finally:
        client.close()
        if session.reports:
            session.write(command)
    _print_summary(by_kernel, grids)
    return [result for results in by_kernel for result in results]


def _print_summary(by_kernel: list[list[CheckResult]], grids: list[Grid]) -> None:
    for results, grid in zip(by_kernel, grids, strict=True):
        if len(results) > 1 or len(by_kernel) > 1:
            print(f"\n{WORDS[overall(results)]:11} {results[0].label}: {summary(results)}")
            for words in (*causes(results), *hints(results)):
                print(f"{INDENT}{words}")
            if results[0].case.kernel in USERS:
                print("\n".join(f"{INDENT}{words}" for words in last_words(results)))
        if grid.left_out:
            print(grid.words, file=sys.stderr)
    if len(by_kernel) > 1:
        print("\nLargest error over what is allowed; above 1 fails:")
        print(table_text(side_by_side(by_kernel)))


def main(argv: list[str] | None = None) -> int:
    """Run the command line; the exit status is the verdict."""
    arguments = _parser().parse_args(argv)
    command = " ".join(["python -m kernels.check", *(sys.argv[1:] if argv is None else argv)])
    try:
        results = _run(arguments, command)
    except (InvalidProblem, InvalidUpload, UserKernelError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT["invalid"]
    of_kernels = {EXIT[overall(of_one)] for of_one in by_kernel(results)}
    return EXIT["fail"] if EXIT["fail"] in of_kernels else max(of_kernels, default=EXIT["invalid"])
