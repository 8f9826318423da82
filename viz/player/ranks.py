"""Runs on several ranks -> what the player draws of them, as plain JSON values."""

import hashlib
from collections.abc import Sequence

import numpy as np

from kernels.file_format import strict
from kernels.problem.ranks import Run, runs_of
from kernels.trace.ranks import KINDS, RanksTrace
from viz.shared import theme
from viz.shared.formats import format_count, format_length, problem_words
from viz.shared.provenance import library_versions

SPAN_FIELDS = {name: name for name in ("rank", "step", "owner", "bytes", "places", "bounds")}
SPAN_FIELDS |= {"begin": "begin_ns", "end": "end_ns"}
"""What the script gets of a span, each by its field of RanksTrace."""
LABELS = {"ring": "Ring", "all_gather": "All-gather", "all_to_all": "All-to-all"}


def ranks_data(traces: Sequence[RanksTrace], recorded: bool) -> dict:
    """One run, or two that race, on one clock."""
    digest = hashlib.sha256(b"".join(trace.to_bytes() for trace in traces)).hexdigest()
    names = "AB" if len(traces) > 1 else [""]
    runs = [_run(trace, name) for name, trace in zip(names, traces, strict=True)]
    return {
        "kind": "ranks",
        "id": digest[:16],
        "title": " against ".join(run["title"] for run in runs),
        "runs": runs,
        "notes": notes_of(traces[0], recorded),
        "palettes": theme.palettes_for_player(),
    }


def title_of(trace: RanksTrace) -> str:
    """Method and layout in words."""
    layout = "" if trace.method == "all_to_all" else f", {trace.layout}"
    backward = ", backward" if trace.direction == "backward" else ""
    return f"{LABELS[trace.method]}{layout}{backward}"


def notes_of(trace: RanksTrace, recorded: bool) -> str:
    """What was run, on what, when, and how exact the common clock is."""
    how = "Recorded" if recorded else "Run"
    clock = f", whose clocks are within {trace.clock_error_ns / 1e3:.0f} µs" if trace.clock_error_ns else ""
    shares = " In the interpreter all ranks share this machine's cores: its times say nothing about GPUs."
    slow = "" if trace.device.backend == "cuda" else shares
    ranks = format_count(trace.ranks, "rank")
    where = f"{ranks} on {trace.device.name} ({library_versions(trace.device)}), "
    where += f"torch.distributed with {trace.transport}{clock}"
    return f"{problem_words(trace.problem)}. {how} {trace.recorded_at[:10]}: {where}.{slow}"


def _run(trace: RanksTrace, name: str) -> dict:
    problem, world = trace.problem, trace.ranks
    columns = {name: getattr(trace, f"span_{field}").tolist() for name, field in SPAN_FIELDS.items()}
    spans = [
        {"kind": KINDS[trace.span_kind[i]]} | {name: values[i] for name, values in columns.items()}
        for i in np.argsort(trace.span_begin_ns, kind="stable")
    ]
    rows = most_shared_rows(trace)
    parts = [runs_of(rank, world, problem.q_len, trace.layout) for rank in range(world)]
    return {
        "name": name,
        "title": title_of(trace),
        "ranks": world,
        "ns": trace.ns,
        "rows": problem.q_len // world,
        "keys": problem.kv_len // world,
        "heads": f"1/{world}" if trace.method == "all_to_all" else "all",
        "spans": spans,
        "held": [held_by(trace, rank) for rank in range(world)],
        "parts": [[[part.first, part.length, part.step] for part in own] for own in parts],
        "part_words": [_part_words(trace, rank, own) for rank, own in enumerate(parts)],
        "row_words": [f"row {trace.positions[rank, row]:,}" for rank, row in enumerate(rows)],
        "lse": [_sums(trace, rank, row) for rank, row in enumerate(rows)],
    }


def _part_words(trace: RanksTrace, rank: int, runs: Sequence[Run]) -> str:
    """The positions of a rank: "0-4k, 28-32k"."""
    if trace.layout == "striped":
        return f"{rank}, {rank + trace.ranks}, …"
    ends = ((format_length(run.first), format_length(run.first + run.length)) for run in runs)
    return ", ".join(f"{first}–{end}" for first, end in ends)


def held_by(trace: RanksTrace, rank: int) -> list[dict]:
    """Whose chunks a rank holds from which time on."""
    found, gathered = [{"from": 0, "owners": [rank]}], trace.of("transfer", rank) & (trace.span_owner == -1)
    if trace.method == "all_gather" and gathered.any():
        end = int(trace.span_end_ns[gathered].min())
        found.append({"from": end, "owners": list(range(trace.ranks))})
    for step in range(trace.ranks - 1 if trace.method == "ring" else 0):
        of_step = trace.span_step == step
        arrived = int(trace.span_end_ns[trace.of("transfer", rank) & of_step].min())
        used = int(trace.span_end_ns[trace.of("attend", rank) & of_step].max(initial=arrived))
        old, new = (rank - step) % trace.ranks, (rank - step - 1) % trace.ranks
        found += [{"from": arrived, "owners": [old, new]}, {"from": max(arrived, used), "owners": [new]}]
    return found


def most_shared_rows(trace: RanksTrace) -> list[int]:
    """Which of the noted rows of each rank is shown: the one that no chunk has nearly all of.

    Empty if no row is noted.
    """
    if not trace.lse.size:
        return []
    sums = np.exp(trace.lse - trace.lse[:, -1:])
    largest = np.diff(sums, axis=1, prepend=0).max(axis=1)  # (ranks, rows)
    last_of_equals = np.nan_to_num(largest, nan=1.0).round(3)[:, ::-1].argmin(axis=1)
    return (largest.shape[1] - 1 - last_of_equals).tolist()


def _sums(trace: RanksTrace, rank: int, row: int) -> list[dict]:
    """lse of a row after each step of a rank, and when its last call of the step ended."""
    found = []
    for step, lse in enumerate(trace.lse[rank, :, row].tolist()):
        of_step = trace.of("attend", rank) & (trace.span_step == step)
        owner = (rank - step) % trace.ranks
        if of_step.any():
            end = int(trace.span_end_ns[of_step].max())
            found.append({"owner": owner, "end": end, "lse": strict(lse)})
    return found
