"""Checks whether a kernel's results are right, by the rule of FlashAttention's own tests.

The kernel is one of ours, torch's, or your own function; or a file holds the result. Without shapes or other
properties of a case, a battery of small cases is run, each with something that kernels get wrong. Every case
runs in a child process with a time limit, so that a crash or a hang costs that case alone.

Exit status: 0 if no case fails and at least half of them pass, 1 if any case fails or ends without a verdict,
2 if fewer were checked (an argument is wrong, or the kernel refuses too many cases). Of several kernels each
is judged alone, and the status is the worst: 1, else 2, else 0.
"""

import argparse
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from kernels.check import requests
from kernels.check.case import cases, options
from kernels.check.files.uploads import AXES, AXES_WORDS, InvalidUpload, Upload, read_upload
from kernels.check.report import report as reports
from kernels.check.report.html import to_html
from kernels.check.result import CheckResult, Determinism, Sensitivity
from kernels.check.subject.user_errors import UserKernelError
from kernels.check.subject.user_kernel import UserKernel
from kernels.device.backend import triton_missing
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.tool_arguments import report_path, seconds
from kernels.worker.client import START_LIMIT_S, WorkerClient
from kernels.worker.failures import FAILURES

EXIT = {"pass": 0, "fail": 1, "error": 1, "invalid": 2, "few": 2}
NAMED_KERNELS = [name for name in cases.KERNELS if name not in cases.USERS]
DETAILED_CASES = 4
"""Up to so many cases, every tensor of each is listed; of more, those of cases that do not pass."""


def main(argv: list[str] | None = None) -> int:
    """Run the command line; the exit status is the verdict."""
    arguments = _parser().parse_args(argv)
    command = " ".join(["python -m kernels.check", *(sys.argv[1:] if argv is None else argv)])
    try:
        results = _run(arguments, command)
    except (InvalidProblem, InvalidUpload, UserKernelError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT["invalid"]
    of_kernels = {EXIT[reports.overall(of_one)] for of_one in reports.by_kernel(results)}
    return EXIT["fail"] if EXIT["fail"] in of_kernels else max(of_kernels, default=EXIT["invalid"])


def _parser() -> argparse.ArgumentParser:
    description, _, epilog = (__doc__ or "").partition("\n\nExit")
    parser = argparse.ArgumentParser(
        prog="python -m kernels.check", description=description, epilog=f"Exit{epilog}"
    )
    add = parser.add_argument
    named = (
        f"one of {', '.join(NAMED_KERNELS)}; or file.py:function, your own function with the signature of "
        f"scaled_dot_product_attention (default {cases.PUBLIC_CALL}). Several are checked side by side"
    )
    add("--kernel", action="append", default=[], help=named)
    options.add_case_options(parser)
    add("--forward", action="store_true", help="do not check the gradients")
    required = "a function of yours that launches no Triton kernel fails"
    add("--require-kernel", action="store_true", help=required)
    repeats = f"runs that are compared bit by bit (default {options.REPEATS}, battery 2)"
    add("--repeats", type=int, help=repeats)
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
    add("--json", type=report_path, help="write the report to this file as JSON")
    add(
        "--html",
        type=report_path,
        help="write the report to this file as HTML: all cases, and the worst in full",
    )
    return parser


def _run(arguments: argparse.Namespace, command: str) -> list[CheckResult]:
    data = arguments.file.read_bytes() if arguments.file else b""
    upload = read_upload(data, arguments.file_axes) if arguments.file else None
    named = _named_kernels(arguments, upload)
    _fill_in(arguments, upload)
    first = next(iter(named))
    _cases(arguments, upload, first, "cuda")  # refuses what it can before the worker starts
    if upload is not None:
        judged = "the O in the file" if first == cases.UPLOADED else "the kernel, on Q, K and V of the file"
        print(f"Judged: {judged}. {upload.facts.axes_words}")
    own = {name: kernel for name, kernel in named.items() if kernel}
    client = WorkerClient(kernels=[kernel.argument for kernel in own.values()])
    session = _Session(arguments, data, own, client)
    try:
        missing = triton_missing()
        if missing or not client.wait_ready(START_LIMIT_S) or client.device is None:
            why = missing or client.start_failure or "it did not start"
            raise InvalidProblem("worker", "python -m kernels.worker", why)
        grids = [_cases(arguments, upload, name, client.device.backend) for name in named]
        detailed = len(grids[0].cases) <= DETAILED_CASES
        of_kernels = [[session.check(case, detailed) for case in grid.cases] for grid in grids]
    finally:
        client.close()
        if session.found:
            session.write(command)
    _print_summary(of_kernels, grids)
    return [result for results in of_kernels for result in results]


def _named_kernels(arguments: argparse.Namespace, upload: Upload | None) -> dict[str, UserKernel | None]:
    """What is checked: names of KERNELS, or UPLOADED, with the user's functions. Raises InvalidProblem."""
    if upload is not None and upload.facts.has_output and not arguments.kernel:
        return {cases.UPLOADED: None}
    named: dict[str, UserKernel | None] = {}
    free = list(cases.USERS)
    for text in arguments.kernel or [cases.PUBLIC_CALL]:
        if text in NAMED_KERNELS:
            named[text] = None
        elif ".py" not in text:
            accepted = f"expected one of {', '.join(NAMED_KERNELS)}, or file.py:function"
            raise InvalidProblem("kernel", text, accepted)
        elif not free:
            raise InvalidProblem("kernel", text, f"expected at most {len(cases.USERS)} kernels of your own")
        else:
            named[free.pop(0)] = UserKernel.parse(text)
    return named


def _fill_in(arguments: argparse.Namespace, upload: Upload | None) -> None:
    """Give the options of cases their defaults. If none was given, that asks for the battery."""
    values = vars(arguments)
    given = [name for name in options.CASE_OPTIONS if values[name] is not None]
    for name in given if upload is not None else ():
        if name not in options.WITH_FILE:
            words = "it is not accepted with --file, which brings its own shape and type"
            raise InvalidProblem(name, values[name], words, "Leave one of the two out.")
    for name, (default, read, _) in options.CASE_OPTIONS.items():
        if name not in given and default:
            values[name] = read(default)
    values["battery"] = not given and upload is None
    if values["repeats"] is None:
        values["repeats"] = 2 if values["battery"] else options.REPEATS


def _cases(arguments: argparse.Namespace, upload: Upload | None, kernel: str, backend: str) -> cases.Grid:
    for name in ("blocks", "window"):
        if len(getattr(arguments, name)) != 2:
            raise InvalidProblem(name, getattr(arguments, name), "expected two numbers, such as 128,64")
    problem = AttentionProblem(
        batch=arguments.batch,
        q_heads=arguments.q_heads,
        kv_heads=arguments.q_heads if arguments.kv_heads is None else arguments.kv_heads,
        inputs=arguments.inputs,
        seed=arguments.seed,
        block_m=arguments.blocks[0],
        block_n=arguments.blocks[1],
        window_left=arguments.window[0],
        window_right=arguments.window[1],
        **{name: value for name in options.PATTERN if (value := getattr(arguments, name)) is not None},
    )
    gradients, given = not arguments.forward, {"layout": arguments.layout, "scale": arguments.scale}
    given["requires_kernel"] = arguments.require_kernel
    case = cases.CheckCase(problem, kernel, gradients, arguments.repeats, **given)
    if upload is not None:
        masked = [upload.facts.problem(problem.with_(mask=mask)) for mask in arguments.mask]
        case = replace(case, upload=upload.facts.digest, axes=upload.facts.axes)
        return cases.Grid(tuple(replace(case, problem=problem) for problem in masked))
    if arguments.battery:
        return cases.Grid(cases.battery(case))
    shapes = None if arguments.shapes == "trusted" else cases.parse_shapes(arguments.shapes)
    grid = cases.grid_cases(case, backend, shapes, arguments.head_dim, arguments.dtype, arguments.mask)
    # Only the trusted list leaves out cases that are slow in the interpreter; all shapes of the user run.
    return grid if shapes is None else cases.Grid(grid.cases + grid.left_out)


Varied = TypeVar("Varied", Sensitivity, Determinism)


@dataclass
class _Session:
    """One call of the command line: its worker, and what came of its cases so far."""

    arguments: argparse.Namespace
    data: bytes
    """The file that the cases are about."""
    own: dict[str, UserKernel]
    """The user's kernels by their names among USERS."""
    client: WorkerClient
    found: list[reports.Report] = field(default_factory=list)

    def check(self, case: cases.CheckCase, detailed: bool) -> CheckResult:
        """Check a case, vary it as the arguments ask, and print what came of it."""
        own = self.own.get(case.kernel)
        version = own.version if own else ""
        job = self.client.submit(requests.CheckRequest(case, version), self.data, self.arguments.time_limit)
        job.wait()
        result = requests.checked_result(job, case, own.name if own else "", self.client.device)
        print(*reports.result_lines(result, detailed), sep="\n", flush=True)
        sensitivity = determinism = None
        if case.kernel != cases.UPLOADED and not (result.refused or result.stopped):
            if self.arguments.sensitivity:
                sensitivity = self._varied(requests.SensitivityRequest(case, version))
            if self.arguments.determinism:
                determinism = self._varied(requests.DeterminismRequest(case, version))
        report = reports.Report(result, sensitivity, determinism)
        for title, rows in reports.varied_tables(report).items():
            _print_indented(title, *reports.table_text(rows).splitlines())
        self.found.append(report)
        return result

    def _varied(self, request: requests.CaseRequest[Varied]) -> Varied | None:
        """What the variations gave. None if they failed: the verdict stands, and the failure is printed."""
        job = self.client.submit(request, self.data, self.arguments.time_limit)
        job.wait()
        try:
            varied = job.result()
        except FAILURES as error:
            _print_indented(f"{request.name} was not found out: {error}")
            return None
        _print_indented(*varied.notes)
        return varied

    def write(self, command: str) -> None:
        """The reports that were asked for, whatever happened to the cases."""
        if self.arguments.json:
            self.arguments.json.write_text(reports.to_json(self.found, command))
        if self.arguments.html:
            results = [report.result for report in self.found]
            worst = self.found[results.index(reports.worst_first(results)[0])]
            own, case = self.own.get(worst.result.case.kernel), worst.result.case
            again = options.shell_command(case, own.given if own else "", str(self.arguments.file or ""))
            self.arguments.html.write_text(to_html(worst, command=again, all_results=results))


def _print_indented(*lines: str) -> None:
    for line in reports.indented(*lines):
        print(line, flush=True)


def _print_summary(of_kernels: list[list[CheckResult]], grids: list[cases.Grid]) -> None:
    several = len(of_kernels) > 1
    for results, grid in zip(of_kernels, grids, strict=True):
        if len(results) > 1 or several:
            of_user = reports.last_words(results) if results[0].case.kernel in cases.USERS else []
            verdict = reports.SHELL_WORDS[reports.overall(results)]
            print(f"\n{verdict:11} {results[0].label}: {reports.summary(results)}")
            _print_indented(*reports.causes(results), *of_user)
        if grid.left_out:
            print(grid.words, file=sys.stderr)
    if several:
        print("\nLargest error over what is allowed; above 1 fails:")
        print(reports.table_text(reports.side_by_side(of_kernels)))
