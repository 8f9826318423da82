"""Is this result right? One case or a grid of them, by FlashAttention's rule, for our kernels, torch's, a file's or your own.

    python -m kernels.check --help

Exit status: 0 every verdict is pass, 1 at least one is fail, 2 nothing was checked (a wrong argument, or every kernel refused).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.check.cases import KERNELS, UPLOADED, USER, CheckCase, Grid, grid_cases, parse_shapes
from kernels.check.file_rules import InvalidUpload
from kernels.check.report import to_html, to_json
from kernels.check.uploads import Upload, read_upload
from kernels.check.user_kernel import UserKernel, UserKernelError, name_user_kernel
from kernels.problem import BLOCKS, DTYPES, INPUTS, MASKS, AttentionProblem, InvalidProblem

if TYPE_CHECKING:
    from kernels.check.result import CheckResult, Sensitivity

EXIT = {"pass": 0, "fail": 1, "invalid": 2}


def answer(request: dict, progress: Callable[[float, str], None]) -> tuple[dict, bytes]:
    """The worker's job "check": request["part"] is "case" or "sensitivity", request["blob"] the upload that the case names."""
    from kernels.check.result import maps_to_bytes
    from kernels.check.run import run_check
    from kernels.check.sensitivity import run_sensitivity

    case = CheckCase.from_dict(request["problem"])
    upload = read_upload(request["blob"]) if case.upload else None
    if request["part"] == "sensitivity":
        return {"sensitivity": run_sensitivity(case, upload, progress).as_dict()}, b""
    result = run_check(case, upload, progress)
    return {"check": result.as_dict()}, maps_to_bytes(result.maps)


# --- command line ----------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    def words(text: str) -> list[str]:
        return text.split(",")

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(
        prog="python -m kernels.check", description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n")[2]
    )
    parser.add_argument("--kernel", default="flash_attention", help=f"one of {', '.join(name for name in KERNELS if name != USER)}; or your own, "
                        "file.py:function with the signature of scaled_dot_product_attention (default flash_attention)")  # fmt: skip
    parser.add_argument(
        "--shapes",
        default="256",
        help='lengths such as "256,113x203" (query x key), or "trusted": FlashAttention\'s own list',
    )
    parser.add_argument("--head-dim", type=numbers, default=[64])
    parser.add_argument("--dtype", type=words, default=["float16"], help=f"some of {','.join(DTYPES)}")
    parser.add_argument("--mask", type=words, default=["full"], help=f"some of {','.join(MASKS)}")
    parser.add_argument(
        "--window", type=numbers, default=[128, 0], help="left,right of the window mask (default 128,0)"
    )
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--q-heads", type=int, default=1)
    parser.add_argument("--kv-heads", type=int, help="default: as --q-heads")
    parser.add_argument(
        "--blocks",
        type=numbers,
        default=[64, 64],
        help=f"BLOCK_M,BLOCK_N where the kernel takes them, of {BLOCKS} (default 64,64)",
    )
    parser.add_argument("--inputs", default="normal", choices=INPUTS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--forward", action="store_true", help="leave the gradients out")
    parser.add_argument(
        "--repeats", type=int, default=3, help="runs that are compared bit by bit (default 3)"
    )
    parser.add_argument(
        "--sensitivity", action="store_true", help="also vary tile sizes and the scale of the input"
    )
    parser.add_argument(
        "--file",
        type=Path,
        help="take Q, K, V (dO) from this .npz or .safetensors file; an O in it is checked as it is",
    )
    parser.add_argument("--json", type=Path, help="write the report here as JSON")
    parser.add_argument(
        "--html", type=Path, help="write the report here as one HTML file; of a grid, the worst case"
    )
    return parser


def _cases(arguments: argparse.Namespace, upload: Upload | None, backend: str) -> Grid:
    kernel = arguments.kernel
    if kernel not in KERNELS or kernel == USER:
        if ".py" not in kernel:
            raise InvalidProblem(
                "kernel",
                kernel,
                f"expected one of {', '.join(name for name in KERNELS if name != USER)}, or file.py:function",
            )
        name_user_kernel(UserKernel.parse(kernel))
        kernel = USER
    if len(arguments.window) != 2 or len(arguments.blocks) != 2:
        raise InvalidProblem(
            "window or blocks",
            (arguments.window, arguments.blocks),
            "expected two numbers each, such as 128,0 and 64,64",
        )
    problem = AttentionProblem(
        batch=arguments.batch, q_heads=arguments.q_heads, kv_heads=arguments.kv_heads or arguments.q_heads, inputs=arguments.inputs,
        seed=arguments.seed, block_m=arguments.blocks[0], block_n=arguments.blocks[1],
        window_left=arguments.window[0], window_right=arguments.window[1],
    )  # fmt: skip
    case = CheckCase(problem, kernel, not arguments.forward, arguments.repeats)
    if upload is not None:
        kernel = UPLOADED if upload.facts.has_output else kernel
        problems = [upload.facts.problem(problem.with_(mask=mask)) for mask in arguments.mask]
        return Grid(
            tuple(replace(case, problem=found, kernel=kernel, upload=upload.digest) for found in problems), ()
        )
    shapes = None if arguments.shapes == "trusted" else parse_shapes(arguments.shapes)
    grid = grid_cases(case, backend, shapes, arguments.head_dim, arguments.dtype, arguments.mask)
    # Shapes that somebody wrote down are run, however long they take; the trusted list is cut to what the interpreter does in seconds.
    return grid if shapes is None else Grid(grid.cases + grid.left_out, ())


def _line(result: CheckResult) -> str:
    problem = result.case.problem
    shape = f"{problem.q_len}x{problem.kv_len} d{problem.head_dim} b{problem.batch} h{problem.q_heads}/{problem.kv_heads}"
    lines = [
        f"{result.verdict.upper():8}{shape} {problem.dtype} {problem.mask} {problem.inputs}: {result.reason}"
    ]
    for tensor in result.tensors:
        errors = f"max {tensor.max_error:.2e}  mean {tensor.mean_error:.2e}  reference {tensor.naive_max_error:.2e}  allowed {tensor.tolerance:.2e}"
        lines.append(f"        {tensor.name:4} {errors}  {'' if tensor.passes else 'FAILS'}".rstrip())
    if result.repeats and not result.repeats.equal:
        lines.append(f"        {result.repeats.runs} runs were not bitwise equal: {result.repeats.differing}")
    return "\n".join([*lines, *(f"        {note}" for note in result.notes)])


def _sensitivity_lines(sensitivity: Sensitivity) -> str:
    lines = list(sensitivity.notes)
    for words, points in (("tiles", sensitivity.blocks), ("query times", sensitivity.scales)):
        for point in points:
            state = (
                point.refused
                or f"max {point.max_error:.2e}  allowed {point.tolerance:.2e}  {'' if point.passes else 'FAILS'}"
            )
            lines.append(f"{words} {point.label:10} {state}".rstrip())
    return "\n".join(f"        {line}" for line in lines)


def verdict_of(results: list[CheckResult]) -> str:
    """ "fail" if any failed, "pass" if at least one passed and none failed, else "invalid"."""
    verdicts = {result.verdict for result in results}
    return next((verdict for verdict in ("fail", "pass") if verdict in verdicts), "invalid")


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        upload = read_upload(arguments.file.read_bytes()) if arguments.file else None
        from kernels.primitives.softmax import BACKEND

        grid = _cases(arguments, upload, BACKEND)
        results, sensitivities = _run(arguments, grid, upload)
    except (InvalidProblem, InvalidUpload, UserKernelError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT["invalid"]
    if grid.left_out:
        print(grid.words, file=sys.stderr)
    command = " ".join(["python -m kernels.check", *(sys.argv[1:] if argv is None else argv)])
    if arguments.json:
        arguments.json.write_text(to_json(results, sensitivities, command))
    if arguments.html:
        worst = min(
            range(len(results)), key=lambda place: ("fail", "invalid", "pass").index(results[place].verdict)
        )
        arguments.html.write_text(to_html(results[worst], sensitivities[worst]))
    return EXIT[verdict_of(results)]


def _run(
    arguments: argparse.Namespace, grid: Grid, upload: Upload | None
) -> tuple[list[CheckResult], list[Sensitivity | None]]:
    from kernels.check.run import run_check
    from kernels.check.sensitivity import run_sensitivity

    results, sensitivities = [], []
    for case in grid.cases:
        results.append(run_check(case, upload))
        print(_line(results[-1]), flush=True)
        vary = arguments.sensitivity and case.kernel != UPLOADED and not results[-1].refused
        sensitivities.append(run_sensitivity(case, upload) if vary else None)
        if sensitivities[-1]:
            print(_sensitivity_lines(sensitivities[-1]), flush=True)
    return results, sensitivities
