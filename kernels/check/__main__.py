"""Checks whether a kernel's results are right, by the rule of FlashAttention's own tests.

The kernel is one of ours, torch's, or your own function; or a file holds the result.

Exit status: 0 if at least one case passes and none fails, 1 if any case fails, 2 if nothing was checked (an
argument is wrong, or the kernel refused every case).
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.check.cases import (
    KERNELS,
    PUBLIC_CALL,
    UPLOADED,
    USER,
    CheckCase,
    Grid,
    grid_cases,
    parse_shapes,
)
from kernels.check.file_rules import InvalidUpload
from kernels.check.report import to_html, to_json
from kernels.check.uploads import Upload, read_upload
from kernels.check.user_kernel import UserKernel, UserKernelError, name_user_kernel
from kernels.problem import BLOCKS, DTYPES, INPUTS, MASKS, AttentionProblem, InvalidProblem

if TYPE_CHECKING:
    from kernels.check.result import CheckResult, Sensitivity

EXIT = {"pass": 0, "fail": 1, "invalid": 2}
NAMED_KERNELS = [name for name in KERNELS if name != USER]


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
    add(
        "--kernel",
        default=PUBLIC_CALL,
        help=f"one of {', '.join(NAMED_KERNELS)}; or file.py:function, your own function with the signature "
        "of scaled_dot_product_attention (default flash_attention)",
    )
    shapes = 'lengths such as "256,113x203" (query x key), or "trusted" for FlashAttention\'s own list'
    add("--shapes", default="256", help=f"{shapes} (default 256)")
    add("--head-dim", type=_numbers, default=[64], help="one or more, such as 64,128 (default 64)")
    add("--dtype", type=_words, default=["float16"], help=f"some of {','.join(DTYPES)} (default float16)")
    add("--mask", type=_words, default=["full"], help=f"some of {','.join(MASKS)} (default full)")
    window = "keys before and after the diagonal that the window mask leaves"
    add("--window", type=_numbers, default=[128, 0], help=f"{window} (default 128,0)")
    add("--batch", type=int, default=1)
    add("--q-heads", type=int, default=1)
    add("--kv-heads", type=int, help="default: as many as --q-heads")
    blocks = f"BLOCK_M,BLOCK_N for kernels that take them; each is one of {', '.join(map(str, BLOCKS))}"
    add("--blocks", type=_numbers, default=[64, 64], help=f"{blocks} (default 64,64)")
    add("--inputs", default="normal", choices=INPUTS)
    add("--seed", type=int, default=0)


def _add_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--forward", action="store_true", help="do not check the gradients")
    add("--repeats", type=int, default=3, help="number of runs that are compared bit by bit (default 3)")
    add("--sensitivity", action="store_true", help="also vary tile sizes and the scale of the query")
    file = "take Q, K, V (and dO) from this .npz or .safetensors file; if it holds O, that result is checked"
    add("--file", type=Path, help=file)
    add("--json", type=Path, help="write the report to this file as JSON")
    add("--html", type=Path, help="write the report to this file as HTML; for a grid, that of the worst case")


def _kernel_name(text: str) -> str:
    """The kernel's name in KERNELS; a function of the user becomes known to this process."""
    if text in NAMED_KERNELS:
        return text
    if ".py" not in text:
        raise InvalidProblem(
            "kernel", text, f"expected one of {', '.join(NAMED_KERNELS)}, or file.py:function"
        )
    name_user_kernel(UserKernel.parse(text))
    return USER


def _pair(arguments: argparse.Namespace, name: str) -> tuple[int, int]:
    numbers = getattr(arguments, name)
    if len(numbers) != 2:
        raise InvalidProblem(name, numbers, "expected two numbers, such as 128,64")
    return numbers[0], numbers[1]


def _cases(arguments: argparse.Namespace, upload: Upload | None, backend: str) -> Grid:
    kernel = _kernel_name(arguments.kernel)
    (block_m, block_n), (window_left, window_right) = _pair(arguments, "blocks"), _pair(arguments, "window")
    problem = AttentionProblem(
        batch=arguments.batch,
        q_heads=arguments.q_heads,
        kv_heads=arguments.kv_heads or arguments.q_heads,
        inputs=arguments.inputs,
        seed=arguments.seed,
        block_m=block_m,
        block_n=block_n,
        window_left=window_left,
        window_right=window_right,
    )
    case = CheckCase(problem, kernel, not arguments.forward, arguments.repeats)
    if upload is not None:
        case = replace(case, kernel=UPLOADED if upload.facts.has_output else kernel, upload=upload.digest)
        masked = [upload.facts.problem(problem.with_(mask=mask)) for mask in arguments.mask]
        return Grid(tuple(replace(case, problem=problem) for problem in masked), ())
    shapes = None if arguments.shapes == "trusted" else parse_shapes(arguments.shapes)
    grid = grid_cases(case, backend, shapes, arguments.head_dim, arguments.dtype, arguments.mask)
    # Only the trusted list leaves out cases that are slow in the interpreter; all shapes of the user run.
    return grid if shapes is None else Grid(grid.cases + grid.left_out, ())


def _check_folders(arguments: argparse.Namespace) -> None:
    """Refuse a report that could not be written, before the checks run rather than after them."""
    for option in ("json", "html"):
        path = getattr(arguments, option)
        if path and not path.parent.is_dir():
            raise InvalidProblem(option, str(path), f"there is no folder {path.parent}", "Create it first.")


def _write_reports(
    arguments: argparse.Namespace,
    results: list[CheckResult],
    sensitivities: list[Sensitivity | None],
    command: str,
) -> None:
    if arguments.json:
        arguments.json.write_text(to_json(results, sensitivities, command))
    if arguments.html:
        order = ("fail", "invalid", "pass")
        worst = min(range(len(results)), key=lambda index: order.index(results[index].verdict))
        arguments.html.write_text(to_html(results[worst], sensitivities[worst]))


def _result_lines(result: CheckResult) -> str:
    problem = result.case.problem
    heads = f"b{problem.batch} h{problem.q_heads}/{problem.kv_heads}"
    shape = f"{problem.q_len}x{problem.kv_len} d{problem.head_dim} {heads}"
    lines = [
        f"{result.verdict.upper():8}{shape} {problem.dtype} {problem.mask} {problem.inputs}: {result.reason}"
    ]
    for tensor in result.tensors:
        errors = f"max {tensor.max_error:.2e}  mean {tensor.mean_error:.2e}"
        bounds = f"reference {tensor.naive_max_error:.2e}  allowed {tensor.tolerance:.2e}"
        verdict = "" if tensor.passes else "FAILS"
        lines.append(f"        {tensor.name:4} {errors}  {bounds}  {verdict}".rstrip())
    if result.repeats and not result.repeats.equal:
        lines.append(f"        {result.repeats.runs} runs were not bitwise equal: {result.repeats.differing}")
    return "\n".join([*lines, *(f"        {note}" for note in result.notes)])


def _sensitivity_lines(sensitivity: Sensitivity) -> str:
    lines = list(sensitivity.notes)
    for words, points in (("tiles", sensitivity.blocks), ("query times", sensitivity.scales)):
        for point in points:
            errors = f"max {point.max_error:.2e}  allowed {point.tolerance:.2e}"
            state = point.refused or f"{errors}  {'' if point.passes else 'FAILS'}"
            lines.append(f"{words} {point.label:10} {state}".rstrip())
    return "\n".join(f"        {line}" for line in lines)


def _verdict(results: list[CheckResult]) -> str:
    """The verdict on all results: "fail" if any failed, else "pass" if any passed, else "invalid"."""
    verdicts = {result.verdict for result in results}
    return next((verdict for verdict in ("fail", "pass") if verdict in verdicts), "invalid")


def _run(
    arguments: argparse.Namespace, grid: Grid, upload: Upload | None
) -> tuple[list[CheckResult], list[Sensitivity | None]]:
    from kernels.check.run import run_check
    from kernels.check.sensitivity import run_sensitivity

    results: list[CheckResult] = []
    sensitivities: list[Sensitivity | None] = []
    for case in grid.cases:
        result = run_check(case, upload)
        print(_result_lines(result), flush=True)
        varies = arguments.sensitivity and case.kernel != UPLOADED and not result.refused
        sensitivity = run_sensitivity(case, upload) if varies else None
        if sensitivity:
            print(_sensitivity_lines(sensitivity), flush=True)
        results.append(result)
        sensitivities.append(sensitivity)
    return results, sensitivities


def main(argv: list[str] | None = None) -> int:
    """Run the command line; the exit status is the verdict."""
    arguments = _parser().parse_args(argv)
    command = " ".join(["python -m kernels.check", *(sys.argv[1:] if argv is None else argv)])
    try:
        _check_folders(arguments)
        upload = read_upload(arguments.file.read_bytes()) if arguments.file else None
        from kernels.device.runtime import BACKEND  # imported late: it takes seconds

        grid = _cases(arguments, upload, BACKEND)
        results, sensitivities = _run(arguments, grid, upload)
        _write_reports(arguments, results, sensitivities, command)
    except (InvalidProblem, InvalidUpload, UserKernelError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT["invalid"]
    if grid.left_out:
        print(grid.words, file=sys.stderr)
    return EXIT[_verdict(results)]


if __name__ == "__main__":
    sys.exit(main())
