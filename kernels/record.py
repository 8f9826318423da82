"""Records on this machine's GPU what the app shows on machines without one: `python -m kernels.record`.

Each of PARTS can be recorded alone. The files name what could not be measured.
"""

import argparse
import itertools
import json
import sys
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kernels.algorithms import ALGORITHMS, FIRST, kernels_with_lanes, run_lanes, run_traced
from kernels.device.backend import compute_capability
from kernels.file_format import write
from kernels.measure import counters, sweep
from kernels.measure.document import FORMAT_VERSION, RECORDINGS_FORMAT, Document, read_document
from kernels.measure.measure import measure
from kernels.measure.measurement import DIRECTIONS
from kernels.measure.nearest import NAIVE
from kernels.measure.peers import PEERS
from kernels.measure.roofline import measure_ceilings
from kernels.measure.sweep import SweepPoint
from kernels.models import LENGTHS, MODELS, model_heads
from kernels.models.cost import OURS
from kernels.models.model import PHASES
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.presets import LANE_PROBLEMS, PRESETS
from kernels.recordings import FILES, FOLDER, INDEX, LANES_PREFIX
from kernels.tool_arguments import some_of
from kernels.trace.algorithm import Algorithm
from kernels.trace.lanes import LaneKernel
from kernels.trace.sample import AT_ONCE_S, Sample, choose_sample
from kernels.traffic.modelled import forward_flops

KEPT_RESULT_BYTES = 1 << 20
"""Output and gradients of a whole run stay in a recording up to this size, so that its error can be computed
again."""
HEAD_STEPS = 600
"""About as many tile steps of a model's head are recorded, so that the file stays below a megabyte; only the
last query tile of a long one may have more."""
ENERGY_PEERS = ("naive", "ours", "sdpa_flash", "sdpa_cudnn", "fa4")
MODEL_PEERS = ("naive", "ours", "sdpa_flash", "sdpa_efficient", "sdpa_cudnn")
_FILE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
MASK_PROBLEMS = [
    AttentionProblem(
        q_heads=2048 // head_dim,
        kv_heads=2048 // head_dim,
        q_len=8192,
        kv_len=8192,
        head_dim=head_dim,
        dtype="bfloat16",
        **fields,
    )
    for head_dim in (64, 128)
    for fields in _FILE["masks"]
]
"""Masks and scores beyond a band, on which FlexAttention is timed beside ours, in the same run."""


@dataclass(frozen=True)
class RecordOrder:
    """Where to write, how long each part may time, the command that asked for it, and of what."""

    folder: Path
    command: str
    minutes: float
    algorithms: tuple[str, ...] = ()
    """Names of those whose traces and lanes are recorded again; () for all. Those of others stay."""
    presets: tuple[str, ...] = ()
    """Names of those of which traces and lanes are recorded again; () for all."""


def record_traces(order: RecordOrder) -> None:
    """Traces of the presets with their error, and time and memory of the peers on the problems of the traces.

    About a minute on an H200. Each algorithm runs a preset with its own tiles, if it has such. One that
    cannot run on this GPU is left out, and what was recorded of it before stays.
    """
    wanted = order.algorithms or tuple(ALGORITHMS)
    here = [entry for entry in ALGORITHMS.values() if entry.name in wanted and _runs_here(entry)]
    presets = {name: preset for name, preset in PRESETS.items() if name in (order.presets or PRESETS)}
    runs, problems = [], [] if order.algorithms else [preset.problem for preset in presets.values()]
    for name, preset in presets.items():
        for entry in (entry for entry in here if name in entry.recorded):
            problems.append(entry.with_own_tiles(preset.problem))
            runs.append(_record_trace(order.folder, name, entry, problems[-1]))
    measurements = [asdict(measure(each, directions=DIRECTIONS)) for each in dict.fromkeys(problems)]
    _write_index(order, runs, measurements)


def record_heads(order: RecordOrder) -> None:
    """One head of each model at its lengths by FlashAttention-2, of a long one a sample. About a minute."""
    entry, runs = ALGORITHMS[FIRST], []
    for name, problem in model_heads().items():
        sample = None
        if entry.steps(problem) > HEAD_STEPS:
            sample = choose_sample(problem, entry, lambda steps: AT_ONCE_S * steps / HEAD_STEPS)
        runs.append(_record_trace(order.folder, name, entry, problem, sample))
    _write_index(order, runs, [])


def _runs_here(entry: Algorithm | LaneKernel) -> bool:
    from kernels.device.runtime import BACKEND

    missing = entry.missing(compute_capability(BACKEND))
    if missing:
        _say(f"{entry.label} is left out: {missing}")
    return missing is None


def _write_index(order: RecordOrder, runs: list[dict], measurements: list[dict]) -> None:
    """Write the index. What an earlier one has of other files and problems stays."""
    path = order.folder / INDEX
    old = json.loads(path.read_text()) if path.exists() else {"runs": [], "measurements": []}
    files = {run["file"] for run in runs}
    problems = [measurement["problem"] for measurement in measurements]
    index = {
        "format": RECORDINGS_FORMAT,
        "version": FORMAT_VERSION,
        "command": "; ".join(dict.fromkeys(filter(None, (old.get("command"), order.command)))),
        "runs": [run for run in old["runs"] if run["file"] not in files] + runs,
        "measurements": [each for each in old["measurements"] if each["problem"] not in problems]
        + measurements,
    }
    write(path, json.dumps(index) + "\n")


def _record_trace(
    folder: Path, name: str, entry: Algorithm, problem: AttentionProblem, sample: Sample | None = None
) -> dict:
    """Write the trace of a problem or of a sample of it; returns what the index says of it."""
    from kernels.oracle.rule import judge_trace

    algorithm = entry.name
    run_traced(problem, algorithm, sample)  # compiles, so that the recorded clock shows a warm launch
    trace = run_traced(problem, algorithm, sample)
    report = judge_trace(trace)
    file = f"{name}.{algorithm}.npz"
    kept = trace.without_acc()
    if sample or kept.result_bytes > KEPT_RESULT_BYTES:
        kept = kept.without_results()
    kept.save(folder / file)
    _say(f"{file}: {trace.steps} steps, largest error {report.max_error:.2e} of {report.tolerance:.2e}")
    return {"problem": problem.as_dict(), "algorithm": algorithm, "file": file, "report": asdict(report)}


def record_lanes(order: RecordOrder) -> None:
    """Lanes of the kernels that set marks. About two minutes on an H200."""
    for entry in ALGORITHMS.values():
        kernel = entry.lanes
        if kernel is None or entry.name not in (order.algorithms or ALGORITHMS) or not _runs_here(kernel):
            continue
        for name, problem in lane_problems(entry, kernel).items():
            if order.presets and name not in order.presets:
                continue
            try:
                lanes = run_lanes(problem, kernel.name)
            except InvalidProblem as refused:
                _say(f"lanes of {name}, {kernel.name} are left out: {refused}")
                continue
            lanes.save(order.folder / f"{LANES_PREFIX}{name}.{kernel.name}.npz")
            product = f"a product under way {lanes.product_share:.0%} of the time"
            _say(f"{name}, {kernel.name}: {product}, marks change its time by {lanes.overhead:+.1%}")


def lane_problems(entry: Algorithm, kernel: LaneKernel) -> dict[str, AttentionProblem]:
    """What its lanes are recorded of, with tiles that a page shows.

    Kernels whose lanes stand beside each other have the same tiles: those that the one with tiles of its own
    has. Of a kernel that is recorded `as_played` the presets are those of the algorithm's recorded runs, with
    the presets' own tiles.
    """
    presets = {name: preset.problem for name, preset in PRESETS.items()}
    played = {name: presets[name] for name in entry.recorded}
    owner = next((each for each in kernels_with_lanes(entry.direction) if each.own_tiles), kernel)
    beside = LANE_PROBLEMS if kernel.as_played else presets | LANE_PROBLEMS
    found = {name: owner.with_own_tiles(problem) for name, problem in beside.items()}
    found = {name: problem for name, problem in found.items() if owner.refusal(problem) is None}
    return found | played if kernel.as_played else found


def record_ceilings(order: RecordOrder) -> None:
    """Copy bandwidth and matrix products. About 10 s."""
    ceilings = measure_ceilings()
    for ceiling in ceilings:
        _say(f"{ceiling.kind} {ceiling.dtype}: {ceiling.per_second / 1e12:,.2f} T/s of bytes or FLOPs")
    write(order.folder / FILES["ceilings"], Document(order.command, ceilings=ceilings).to_json())


def record_counters(order: RecordOrder) -> None:
    """DRAM and L2 bytes and tensor-core use of naive, fused and our kernels. About a minute."""
    found: list[counters.CounterRun] = []
    left_out, path = [], order.folder / FILES["counters"]
    for problem in counters.COUNTED_PROBLEMS:
        shape = f"head_dim {problem.head_dim} {problem.mask}"
        try:
            runs = counters.read_counters(problem, list(counters.COUNTED_CALLS))
        except (counters.CountersUnavailable, OSError, RuntimeError) as error:
            _say(f"counters are skipped: {error}")
            left_out.append(f"counters of {shape}: {error}")
            continue
        found += runs
        for run in runs:
            traffic = f"DRAM {run.dram_bytes / 1e9:.3f} GB, L2 {run.l2_bytes / 1e9:.3f} GB"
            _say(f"{run.peer} {run.direction} {shape}: {len(run.kernels)} kernels, {traffic}")
    if found or not path.exists():
        document = Document(order.command, counters=tuple(found), left_out=tuple(left_out))
        write(path, document.to_json())


def record_masks(order: RecordOrder) -> None:
    """Ours and FlexAttention on masks and scores beyond a band, forward and backward. About two minutes."""
    points = [SweepPoint(problem, ("ours", "flex")) for problem in MASK_PROBLEMS]
    _time(order, "masks", points, goes_on=False, budget_s=0.3)


def record_energy(order: RecordOrder) -> None:
    """Energy and sustained speed of the peers, by length and of all shapes at 4k and 16k. Nine minutes."""
    shapes = [(length, 128, "causal") for length in sorted(sweep.LENGTHS)]
    shapes += itertools.product((4096, 16384), (64, 128, 256), ("full", "causal"))
    peers = tuple(name for name in ENERGY_PEERS if PEERS[name].is_installed)
    problems = [sweep.problem_for(*shape, "float16") for shape in dict.fromkeys(shapes)]
    _time(order, "energy", [SweepPoint(each, peers) for each in problems], budget_s=0.1, energy=True)


def record_model_energy(order: RecordOrder) -> None:
    """Energy of standard attention and ours on layers of models, forward. Nine minutes."""
    points = [SweepPoint(layer, (NAIVE, OURS), DIRECTIONS[:1]) for layer in _model_layers()]
    _time(order, "model_energy", points, budget_s=0.1, energy=True)


def record_models(order: RecordOrder) -> None:
    """Layers of models at their lengths; of a decoding step only the forward pass."""
    ways = [DIRECTIONS if layer.q_len > 1 else DIRECTIONS[:1] for layer in _model_layers()]
    layers = zip(_model_layers(), ways, strict=True)
    _time(order, "models", [SweepPoint(layer, MODEL_PEERS, way) for layer, way in layers], budget_s=0.1)


def _model_layers() -> list[AttentionProblem]:
    """A layer of each kind of each model at its lengths, prefill and decoding step, the least work first."""
    layers = {
        model.problem(length, phase, kind)
        for model in MODELS.values()
        for kind in model.kinds
        for phase in PHASES
        for length in LENGTHS
    }
    return sorted(layers, key=forward_flops)


def record_sweeps(order: RecordOrder) -> None:
    """All peers over the lengths."""
    points = sweep.sweep_points()
    sweep.compile_kernels(points, _say)
    _time(order, "sweeps", points, goes_on=False, budget_s=sweep.BUDGET_S)


def _time(
    order: RecordOrder, part: str, points: list[SweepPoint], goes_on: bool = True, **options: Any
) -> None:
    """Measure for at most `minutes`. The file is written after each point, and names those left out.

    If it `goes_on`, what the file already has stays.
    """
    path = order.folder / FILES[part]
    known = read_document(path.read_bytes()).measurements if goes_on and path.exists() else ()
    problems = {each.problem for each in known}

    def save(document: Document) -> None:
        write(path, replace(document, command=order.command).to_json())

    points = [point for point in points if point.problem not in problems]
    sweep.run_sweep(points, order.minutes, save, _say, known, **options)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


PARTS: dict[str, Callable[[RecordOrder], None]] = {
    "traces": record_traces,
    "heads": record_heads,
    "lanes": record_lanes,
    "ceilings": record_ceilings,
    "counters": record_counters,
    "energy": record_energy,
    "masks": record_masks,
    "model_energy": record_model_energy,
    "models": record_models,
    "sweeps": record_sweeps,
}
"""In the order in which they are recorded."""


def _argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kernels.record",
        description="Record on this machine's GPU what the app shows on machines without one.",
    )

    def add_names(option: str, known: Iterable[str], about: str) -> None:
        help_words = about.format(f"some of {','.join(known)} (default: all)")
        parser.add_argument(option, type=some_of(known), default=[], help=help_words)

    limit = "time limit of each part that times (default 7); its file names what is left out"
    out = "folder to write to (default: the shipped recordings)"
    parser.add_argument("--out", type=Path, default=FOLDER, help=out)
    add_names("--parts", PARTS, "{}")
    parser.add_argument("--minutes", type=float, default=7.0, help=limit)
    add_names("--algorithms", ALGORITHMS, "parts traces and lanes: {}; others stay")
    add_names("--presets", PRESETS, "parts traces and lanes: of {}; others stay")
    return parser


def main(argv: list[str] | None = None) -> int:
    """The command line. Returns 0, or 2 if recordings of a GPU would be overwritten without one."""
    arguments = _argument_parser().parse_args(argv)
    from kernels.device.runtime import INTERPRETED

    if INTERPRETED and arguments.out.resolve() == FOLDER.resolve():
        wanted = "expected a GPU, since the shipped recordings are of one"
        print(f"error: --out {arguments.out} is not accepted: {wanted}. Give another --out.", file=sys.stderr)
        return 2
    chosen = {name: tuple(getattr(arguments, name)) for name in ("parts", "algorithms", "presets")}
    options = "".join(f" --{name} {','.join(names)}" for name, names in chosen.items() if names)
    command = f"python -m kernels.record{options} --minutes {arguments.minutes:g}"
    parts = chosen.pop("parts") or tuple(PARTS)
    order = RecordOrder(arguments.out, command, arguments.minutes, **chosen)
    order.folder.mkdir(parents=True, exist_ok=True)
    for part, record in PARTS.items():
        if part in parts:
            record(order)
    return 0


if __name__ == "__main__":
    sys.exit(main())
