"""Record on this machine's GPU what the app shows where there is none: `python -m kernels.record`.

Four parts, each of which can be recorded alone: traces of the presets with their error, time and memory; the sweep of all peers over
lengths; the ceilings of the device; hardware counters kernel by kernel. What one part could not do is said and recorded, and costs
the others nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from kernels.measure.document import FORMAT_VERSION, RECORDINGS_FORMAT, Document
from kernels.problem.presets import PRESETS
from kernels.recordings import FILES, FOLDER, INDEX


def record(folder: Path, command: str) -> None:
    """Record every preset into `folder`. Imports torch and triton; takes about a minute on an H200."""
    from kernels.algorithms import ALGORITHMS, run_traced
    from kernels.measure.measure import measure
    from kernels.measure.measurement import DIRECTIONS
    from kernels.oracle.rule import judge_trace

    runs, measurements = [], []
    for name, preset in PRESETS.items():
        for algorithm in [entry.name for entry in ALGORITHMS.values() if name in entry.recorded]:
            run_traced(
                preset.problem, algorithm
            )  # once to compile, so that the recorded clock shows a warm launch
            trace = run_traced(preset.problem, algorithm)
            report = judge_trace(trace)
            file = f"{name}.{algorithm}.npz"
            trace.without_acc().without_results().save(folder / file)
            runs.append(
                {
                    "problem": preset.problem.as_dict(),
                    "algorithm": algorithm,
                    "file": file,
                    "report": asdict(report),
                }
            )
            _say(
                f"{file}: {trace.steps} steps, largest error {report.max_error:.2e} of {report.tolerance:.2e}"
            )
        measurements.append(measure(preset.problem, directions=DIRECTIONS).as_dict())
    index = {
        "format": RECORDINGS_FORMAT,
        "version": FORMAT_VERSION,
        "command": command,
        "runs": runs,
        "measurements": measurements,
    }
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n")


def record_ceilings(folder: Path, command: str, minutes: float) -> None:
    """Copy bandwidth and matrix products. About 10 s."""
    from kernels.measure.ceilings import measure_ceilings

    found = measure_ceilings()
    for ceiling in found:
        _say(
            f"{ceiling.kind} {ceiling.dtype}: {ceiling.per_second / 1e12:,.2f} T{'B' if ceiling.kind == 'copy' else 'FLOP'}/s"
        )
    write_document(folder / FILES["ceilings"], Document(command=command, ceilings=found))


def record_counters(folder: Path, command: str, minutes: float) -> None:
    """DRAM and L2 bytes and tensor-core use of naive, fused and our kernels. About a minute."""
    from kernels.measure.ncu import COUNTED_CALLS, COUNTED_PROBLEMS, CountersUnavailable, read_counters

    document = Document(command=command)
    for problem in COUNTED_PROBLEMS:
        try:
            runs = read_counters(problem, list(COUNTED_CALLS))
        except (CountersUnavailable, OSError, RuntimeError) as error:
            _say(f"counters are skipped: {error}")
            document = document.with_(
                left_out=(
                    *document.left_out,
                    f"counters of head_dim {problem.head_dim} {problem.mask}: {error}",
                )
            )
        else:
            document = document.with_(counters=(*document.counters, *runs))
            for run in runs:
                words = f"{len(run.kernels)} kernels, DRAM {run.dram_bytes / 1e9:.3f} GB, L2 {run.l2_bytes / 1e9:.3f} GB"
                _say(f"{run.peer} {run.direction} d {problem.head_dim} {problem.mask}: {words}")
        if document.counters or not (folder / FILES["counters"]).exists():
            write_document(folder / FILES["counters"], document)


def record_sweeps(folder: Path, command: str, minutes: float) -> None:
    """All peers over the lengths, at most `minutes`; what there was no time for is named in the file."""
    from kernels.measure.sweep import run_sweep, sweep_cells

    def save(document: Document) -> None:
        write_document(folder / FILES["sweeps"], document.with_(command=command))

    run_sweep(sweep_cells(), minutes, save, _say)


def write_document(path: Path, document: Document) -> None:
    """Write the file whole or not at all: a run that is cut short leaves the last one."""
    beside = path.with_suffix(".tmp")
    beside.write_text(document.to_json())
    beside.replace(path)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


PARTS = {
    "traces": lambda folder, command, minutes: record(folder, command),
    "ceilings": record_ceilings,
    "counters": record_counters,
    "sweeps": record_sweeps,
}
"""In the order in which they are recorded: the longest last, so that a time limit cuts that one short."""


def main(argv: list[str] | None = None) -> int:
    """The command line. Returns 0, or 2 for a part that there is not."""
    parser = argparse.ArgumentParser(prog="python -m kernels.record", description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--out", type=Path, default=FOLDER, help="folder to write to (default: the shipped recordings)"
    )
    parser.add_argument(
        "--parts",
        type=lambda text: text.split(","),
        default=list(PARTS),
        help=f"some of {','.join(PARTS)} (default: all)",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=7.0,
        help="most minutes of the sweeps (default 7); the rest is left out, and named",
    )
    arguments = parser.parse_args(argv)
    if unknown := [part for part in arguments.parts if part not in PARTS]:
        print(
            f"error: --parts {','.join(unknown)} is not accepted: expected some of {','.join(PARTS)}",
            file=sys.stderr,
        )
        return 2
    parts = "" if arguments.parts == list(PARTS) else f" --parts {','.join(arguments.parts)}"
    command = f"python -m kernels.record{parts} --minutes {arguments.minutes:g}"
    arguments.out.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        if part in arguments.parts:
            PARTS[part](arguments.out, command, arguments.minutes)
    return 0
