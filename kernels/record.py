"""Record on this machine's GPU what the app shows where there is none: `python -m kernels.record`.

Writes, for every preset, the trace of the real kernel, its error against float64, and time and memory of all peers.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from kernels.presets import PRESETS
from kernels.recordings import FOLDER, FORMAT, FORMAT_VERSION, INDEX


def record(folder: Path, command: str) -> None:
    """Record every preset into `folder`. Imports torch and triton; takes about a minute on an H200."""
    import torch

    from kernels.inputs import make_inputs
    from kernels.measure import measure
    from kernels.recorder import DEVICE
    from kernels.reference import judge
    from kernels.trace import ALGORITHMS, run_traced

    folder.mkdir(parents=True, exist_ok=True)
    runs, measurements = [], []
    for name, preset in PRESETS.items():
        for algorithm in ALGORITHMS:
            run_traced(preset.problem, algorithm)  # once to compile, so that the recorded clock shows a warm launch
            trace = run_traced(preset.problem, algorithm)
            report = judge(preset.problem, torch.from_numpy(trace.output), make_inputs(preset.problem, DEVICE))
            file = f"{name}.{algorithm}.npz"
            trace.without_acc().save(folder / file)
            runs.append({"problem": preset.problem.as_dict(), "algorithm": algorithm, "file": file, "report": asdict(report)})
            print(f"{file}: {trace.steps} steps, largest error {report.max_error:.2e} of {report.tolerance:.2e}", file=sys.stderr)
        measurements.append(measure(preset.problem).as_dict())
    index = {"format": FORMAT, "version": FORMAT_VERSION, "command": command, "runs": runs, "measurements": measurements}
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kernels.record", description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder to write to (default: the shipped recordings)")
    arguments = parser.parse_args(argv)
    record(arguments.out, " ".join(["python -m kernels.record", *(argv if argv is not None else sys.argv[1:])]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
