"""Runs and measurements recorded on real GPUs and shipped with the project."""

import functools
import itertools
import json
from dataclasses import dataclass
from pathlib import Path

from kernels.algorithms import ALGORITHMS
from kernels.measure.document import Document, read_document
from kernels.measure.measurement import Measurement
from kernels.oracle.report import ErrorReport
from kernels.problem import AttentionProblem
from kernels.trace import LaunchInfo, Trace
from kernels.trace.lanes import Lanes
from kernels.trace.ranks import RanksTrace

FOLDER = Path(__file__).parent
INDEX = "index.json"
RANKS_PREFIX = "ranks."
"""Starts the names of files of runs on several GPUs: ranks.<name>.npz."""
LANES_PREFIX = "lanes."
"""Starts the names of files of lanes: lanes.<preset>.<kernel>.npz."""
FILES = {
    name: f"{name}.json"
    for name in ("ceilings", "counters", "energy", "masks", "model_energy", "models", "ranks", "sweeps")
}
"""Files of other measurements than those of the presets, in the format of kernels.measure.document."""


@dataclass(frozen=True)
class Recording:
    """One recorded run: its trace, and how far its output was from float64."""

    trace: Trace
    report: ErrorReport


@functools.cache
def _index() -> dict:
    return json.loads((FOLDER / INDEX).read_text())


@functools.cache
def recorded_run(problem: AttentionProblem, algorithm: str) -> Recording | None:
    """The recorded run of exactly this problem, or None."""
    for run in _index()["runs"]:
        if run["algorithm"] == algorithm and AttentionProblem(**run["problem"]) == problem:
            return Recording(Trace.load(FOLDER / run["file"]), ErrorReport(**run["report"]))
    return None


@functools.cache
def recorded_problems(algorithm: str) -> tuple[AttentionProblem, ...]:
    runs = (run for run in _index()["runs"] if run["algorithm"] == algorithm)
    return tuple(AttentionProblem(**run["problem"]) for run in runs)


@functools.cache
def recorded_lanes(problem: AttentionProblem, kernel: str) -> Lanes | None:
    """The recorded lanes of exactly this problem by the LaneKernel of that name, or None."""
    file = _lane_files().get((problem, kernel))
    return Lanes.load(file) if file else None


@functools.cache
def _lane_files() -> dict[tuple[AttentionProblem, str], Path]:
    """The files of lanes, by what they say of themselves."""
    files = sorted(FOLDER.glob(f"{LANES_PREFIX}*.npz"))
    headers = ((file, Lanes.header_of(file)) for file in files)
    return {(AttentionProblem(**header["problem"]), header["kernel"]): file for file, header in headers}


@functools.cache
def recorded_measurement(problem: AttentionProblem) -> Measurement | None:
    """Recorded time and memory of exactly this problem, or None."""
    return next((each for each in _preset_measurements() if each.problem == problem), None)


@functools.cache
def _preset_measurements() -> tuple[Measurement, ...]:
    return read_document((FOLDER / INDEX).read_bytes()).measurements


def recorded_measurements() -> tuple[Measurement, ...]:
    """All recorded times, memories and energies: those of the presets first."""
    others = (recorded_document(part).measurements for part in ("sweeps", "models", "model_energy"))
    return _preset_measurements() + tuple(itertools.chain(*others))


@functools.cache
def recorded_document(part: str) -> Document:
    """The recorded document of a name in FILES; empty if it was not recorded."""
    path = FOLDER / FILES[part]
    return read_document(path.read_bytes()) if path.exists() else Document()


@functools.cache
def recorded_ranks() -> dict[str, RanksTrace]:
    files = sorted(FOLDER.glob(f"{RANKS_PREFIX}*.npz"))
    return {file.stem.removeprefix(RANKS_PREFIX): RanksTrace.load(file) for file in files}


@dataclass(frozen=True)
class RecordedLaunch:
    """One compiled kernel of a recorded run, with its registers and shared memory."""

    problem: AttentionProblem
    kernel: str
    has_product: bool
    """Whether it multiplies tiles of queries and keys."""
    info: LaunchInfo
    device: str


@functools.cache
def recorded_launches() -> tuple[RecordedLaunch, ...]:
    """Every kernel of ours in every recorded run, read from the headers alone."""
    launches = []
    for run in _index()["runs"]:
        header = Trace.header_of(FOLDER / run["file"])
        problem, device = AttentionProblem(**header["problem"]), header["device"]["name"]
        entry = ALGORITHMS[header["algorithm"]]
        for kernel, launch in zip(header["kernels"], header["launches"], strict=True):
            if launch["num_warps"]:  # 0 if torch ran it tile by tile
                has_product = entry.kernel(kernel).products > 0
                launches.append(RecordedLaunch(problem, kernel, has_product, LaunchInfo(**launch), device))
    return tuple(launches)
