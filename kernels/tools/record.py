"""Records on this machine's GPU what the app shows on machines without one: `python -m kernels.record`.

Four parts can be recorded, each alone: traces of the presets with their error, time and memory; the ceilings
of the device; hardware counters per kernel; the sweep of all peers over lengths. The files name what could
not be measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.measure import ncu, sweep
from kernels.measure.ceilings import COPY, measure_ceilings
from kernels.measure.document import FORMAT_VERSION, RECORDINGS_FORMAT, Document
from kernels.measure.measure import measure
from kernels.measure.measurement import DIRECTIONS
from kernels.problem.presets import PRESETS
from kernels.recordings import FILES, FOLDER, INDEX

KEPT_RESULT_BYTES = 1 << 20
"""Output and gradients stay in a recording up to this size, so that its error can be computed anew."""


@dataclass(frozen=True)
class RecordOrder:
    """Where to write, how long the sweep may take, and the command that asked for it."""

    folder: Path
    command: str
    minutes: float


def record_traces(order: RecordOrder) -> None:
    """Traces of every preset with their error, and time and memory of the peers.

    About a minute on an H200.
    """
    runs, measurements = [], []
    for name, preset in PRESETS.items():
        algorithms = [entry.name for entry in ALGORITHMS.values() if name in entry.recorded]
        runs += [_record_trace(order.folder, name, algorithm) for algorithm in algorithms]
        measurements.append(measure(preset.problem, directions=DIRECTIONS).as_dict())
    index = {
        "format": RECORDINGS_FORMAT,
        "version": FORMAT_VERSION,
        "command": order.command,
        "runs": runs,
        "measurements": measurements,
    }
    (order.folder / INDEX).write_text(json.dumps(index, indent=1) + "\n")


def _record_trace(folder: Path, preset: str, algorithm: str) -> dict:
    """Write the trace of a preset; returns its entry in the index."""
    from kernels.oracle.rule import judge_trace

    problem = PRESETS[preset].problem
    run_traced(problem, algorithm)  # compiles, so that the recorded clock shows a warm launch
    trace = run_traced(problem, algorithm)
    report = judge_trace(trace)
    file = f"{preset}.{algorithm}.npz"
    kept = trace.without_acc()
    if kept.result_bytes > KEPT_RESULT_BYTES:
        kept = kept.without_results()
    kept.save(folder / file)
    _say(f"{file}: {trace.steps} steps, largest error {report.max_error:.2e} of {report.tolerance:.2e}")
    return {"problem": problem.as_dict(), "algorithm": algorithm, "file": file, "report": asdict(report)}


def record_ceilings(order: RecordOrder) -> None:
    """Copy bandwidth and matrix products. About 10 s."""
    ceilings = measure_ceilings()
    for ceiling in ceilings:
        unit = "TB/s" if ceiling.kind == COPY else "TFLOP/s"
        _say(f"{ceiling.kind} {ceiling.dtype}: {ceiling.per_second / 1e12:,.2f} {unit}")
    write_document(order.folder / FILES["ceilings"], Document(command=order.command, ceilings=ceilings))


def record_counters(order: RecordOrder) -> None:
    """DRAM and L2 bytes and tensor-core use of naive, fused and our kernels. About a minute."""
    document, path = Document(command=order.command), order.folder / FILES["counters"]
    for problem in ncu.COUNTED_PROBLEMS:
        shape = f"head_dim {problem.head_dim} {problem.mask}"
        try:
            runs = ncu.read_counters(problem, list(ncu.COUNTED_CALLS))
        except (ncu.CountersUnavailable, OSError, RuntimeError) as error:
            _say(f"counters are skipped: {error}")
            document = replace(document, left_out=(*document.left_out, f"counters of {shape}: {error}"))
        else:
            document = replace(document, counters=(*document.counters, *runs))
            for run in runs:
                traffic = f"DRAM {run.dram_bytes / 1e9:.3f} GB, L2 {run.l2_bytes / 1e9:.3f} GB"
                _say(f"{run.peer} {run.direction} {shape}: {len(run.kernels)} kernels, {traffic}")
        if document.counters or not path.exists():
            write_document(path, document)


def record_sweeps(order: RecordOrder) -> None:
    """All peers over the lengths, for at most `minutes`; the file names what it leaves out."""

    def save(document: Document) -> None:
        write_document(order.folder / FILES["sweeps"], replace(document, command=order.command))

    sweep.run_sweep(sweep.sweep_points(), order.minutes, save, _say)


def write_document(path: Path, document: Document) -> None:
    """Write the whole file or nothing: if the run is interrupted, the old file stays."""
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(document.to_json())
    unfinished.replace(path)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


PARTS: dict[str, Callable[[RecordOrder], None]] = {
    "traces": record_traces,
    "ceilings": record_ceilings,
    "counters": record_counters,
    "sweeps": record_sweeps,
}
"""In the order in which they are recorded. The longest is last: a time limit shortens only that one."""


def _argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kernels.record",
        description="Record on this machine's GPU what the app shows on machines without one.",
    )
    add = parser.add_argument
    add("--out", type=Path, default=FOLDER, help="folder to write to (default: the shipped recordings)")
    add(
        "--parts",
        type=lambda text: text.split(","),
        default=list(PARTS),
        help=f"some of {','.join(PARTS)} (default: all)",
    )
    add(
        "--minutes",
        type=float,
        default=7.0,
        help="time limit of the sweeps (default 7); the file names what is left out",
    )
    return parser


def main(argv: list[str] | None = None) -> int:
    """The command line. Returns 0, or 2 for an unknown part."""
    arguments = _argument_parser().parse_args(argv)
    if unknown := [part for part in arguments.parts if part not in PARTS]:
        given, accepted = ",".join(unknown), ",".join(PARTS)
        print(f"error: --parts {given} is not accepted: expected some of {accepted}", file=sys.stderr)
        return 2
    parts = "" if arguments.parts == list(PARTS) else f" --parts {','.join(arguments.parts)}"
    command = f"python -m kernels.record{parts} --minutes {arguments.minutes:g}"
    order = RecordOrder(arguments.out, command, arguments.minutes)
    order.folder.mkdir(parents=True, exist_ok=True)
    for part, record in PARTS.items():
        if part in arguments.parts:
            record(order)
    return 0
