"""Trace -> what the player draws, as plain JSON values. Pure: no streamlit, no drawing.

Arrays travel as base64 of little-endian numbers. The entry of the algorithm travels as fields, so that the
script knows no kernel, phase or tensor by its name.
"""

import base64
import functools
import hashlib
import json
import tomllib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from kernels.algorithms import algorithm_of
from kernels.algorithms.standard.traffic import (
    requested_ledger,
    standard_ledger,
    standard_requested,
)
from kernels.algorithms.tile_figures import slots_of
from kernels.device.gpus import REGISTERS, SHARED, Gpu
from kernels.measure import sweep
from kernels.problem import AttentionProblem
from kernels.problem.words import words_of
from kernels.recordings import recorded_document
from kernels.trace import Trace
from kernels.trace.algorithm import BLOCK_TABLE, Algorithm, Kernel
from kernels.traffic.modelled import stores_lse
from viz.player.drawn import ROW_VALUES, Drawn, drawn_of
from viz.player.source import KernelSource, kernel_source
from viz.player.tiles import attention_share, key_parts, row_mean
from viz.shared import theme
from viz.shared.formats import format_bytes, format_kib, problem_words
from viz.shared.provenance import looks_of

SHARES = {"alpha": np.multiply, "weight": np.add}
"""Row values between 0 and 1, and what joins those of the steps that are drawn as one."""
SENTENCES = tomllib.loads(Path(__file__).with_name("sentences.toml").read_text("utf-8"))
MOST_WORDS = 1024
"""The words of the rows and of the keys are sent if the inputs are a text of at most so many."""


@functools.cache
def film() -> list[dict[str, Any]]:
    """The acts of film.toml. Those with "under" tell modelled bytes and recorded times of a longer text."""
    acts = tomllib.loads(Path(__file__).with_name("film.toml").read_text("utf-8"))["acts"]
    problem = sweep.problem_for(sweep.TOKENS, 128, "causal", "float16")
    measured = [each for each in recorded_document("energy").measurements if each.problem == problem]
    forward = [each for run in measured for each in run.results if each.direction == "forward"]
    ms = {each.peer: each.sustained.ms for each in forward if each.sustained}
    if not {"naive", "ours"} <= ms.keys():  # a recording may leave them out
        return [act for act in acts if "under" not in act]
    ledger = standard_ledger(problem)
    kept = sum(size for name, size in ledger.items() if name not in "SP")
    shown = {
        "heads": problem.heads,
        "words": problem.q_len,
        "each": format_bytes(ledger["S"] / 2 / problem.heads),
        "parts": [
            {"name": name, "bytes": size, "color": theme.TENSOR_COLORS[name]} for name, size in ledger.items()
        ],
        "ms": [ms["naive"], ms["ours"]],
        "faster": round(ms["naive"] / ms["ours"]),
        "less": round(sum(ledger.values()) / kept),
    }
    for act in (act for act in acts if "under" in act):
        act |= {name: act[name].format(run=measured[-1], **shown) for name in ("title", "says", "under")}
        act |= {"took": shown}
    return acts


def encode(values: np.ndarray, dtype: str) -> str:
    """Little-endian numbers in base64."""
    little_endian = np.ascontiguousarray(values, np.dtype(dtype).newbyteorder("<"))
    return base64.b64encode(little_endian.tobytes()).decode()


def encode_share(values: np.ndarray) -> str:
    """Numbers from 0 to 1 as 16 bits; NaN as 0."""
    return encode(np.round(65535 * np.clip(np.nan_to_num(values), 0, 1)), "uint16")


def player_data(trace: Trace, provenance: str, gpu: Gpu) -> dict:
    """Everything the player needs; `gpu` gives the limits of memories on the chip, and the number of SMs."""
    drawn = drawn_of(trace, gpu)
    problem, algorithm = trace.problem, drawn.algorithm
    names = zip(algorithm.kernels, trace.kernels, strict=True)
    share = sampled_share(trace) * drawn.selection.share
    ledger = {} if algorithm.name == "standard" else requested_ledger(problem, algorithm.direction)
    is_read = problem.inputs == "text" and problem.q_len + problem.kv_len <= MOST_WORDS
    data = {
        "label": algorithm.label,
        "title": title_of(trace),
        "idea": f"{algorithm.label}: {algorithm.idea}.",
        "provenance": provenance,
        "problem": _problem(drawn),
        "words": list(words_of(problem)) if is_read else None,
        "notes": _notes(drawn),
        "tensors": [
            {"name": name, "written": bool(written), "color": theme.tensor_entry(name)}
            for name, written in zip(trace.tensors, trace.tensor_bytes_written.sum(axis=0), strict=True)
        ],
        "standard_bytes": round(share * standard_requested(problem, algorithm.direction)),
        "standard_parts": [
            {"name": name, "bytes": share * size, "color": theme.tensor_entry(name)}
            for name, size in sorted(ledger.items(), key=lambda each: each[0] not in trace.tensors)
        ],
        "standard_words": "Standard, same rows" if share < 1 else "Standard attention",
        "strips": _strips(algorithm),
        "key_parts": key_parts(trace, algorithm),
        "pages": _pages(drawn),
        "grid": algorithm.grid,
        "observed": algorithm.observed,
        "each_kernel_anew": algorithm.each_kernel_anew,
        "gpu": {
            "limits": gpu.program_limits,
            "hbm": gpu.hbm_bytes,
            "name": gpu.name,
            "words": _gpu_words(gpu, algorithm, trace),
        },
        "sms": gpu.sm_count if share == 1 else 0,  # of a sample it is not known which of them work
        "kernels": [_kernel(kernel, name, trace) for kernel, name in names],
        "palettes": theme.palettes_for_player(),
        "kinds": encode(drawn.kinds.ravel(), "uint8"),
        "steps": _steps(drawn),
        "rows": _rows(drawn),
        "matrices": {
            name: {"rows": values.shape[1], "columns": values.shape[2], "data": encode(values, "float32")}
            for name, values in drawn.matrices.items()
        },
        "matrix_row": trace.matrix_row,
        "clock": {
            "start": encode(drawn.start, "uint32"),
            "end": encode(np.clip(drawn.schedule.end[drawn.selection.last], 0, 2**32 - 1), "uint32"),
            "sm": encode(drawn.schedule.sm[drawn.selection.first], "uint8"),
            "measured": drawn.schedule.measured,
        },
    }
    # The GPU's limits alone make no other run; its speed does, since it changes the modelled clock.
    told_apart_by = [data[name] for name in ("title", "provenance", "steps", "rows", "matrices", "clock")]
    digest = hashlib.sha256(json.dumps(told_apart_by).encode())
    return data | {"id": digest.hexdigest()[:16]}


def _problem(drawn: Drawn) -> dict:
    problem = drawn.trace.problem
    return (
        problem.as_dict()
        | {
            "q_tiles": drawn.q_tiles,
            "tile_numbers": drawn.tile_numbers,
            "kv_tiles": problem.kv_tiles,
            "left": problem.band.left,
            "right": problem.band.right,
            "rows": drawn.algorithm.rows(problem),
            "packed": drawn.algorithm.packs_heads,
            "scale": problem.scale,
        }
        | _pattern(problem)
    )


LARGEST_SQUARE = 1 << 24
"""Pairs of a query and a key that are looked at for the ranges of keys."""
MOST_RANGES = 100_000
"""Ranges of keys of all rows that a page gets; with more, a tile that a pattern cuts is drawn whole."""


def _pattern(problem: AttentionProblem) -> dict:
    """Of a mask that is not a band, the ranges of keys that each row sees; sinks and borders of documents."""
    pattern = problem.pattern
    if pattern is None:
        return {}
    found: dict[str, Any] = {"sinks": pattern.sinks} if pattern.sinks else {}
    if pattern.documents:
        found["borders"] = [0, *np.cumsum(pattern.documents).tolist()]
        found["borders"] += [pattern.kv_len] if found["borders"][-1] < pattern.kv_len else []
    if pattern.mask and problem.q_len * problem.kv_len <= LARGEST_SQUARE:
        heads = range(problem.heads if pattern.by_head else 1)
        seen = [[_ranges(row) for row in pattern.visible(head=head)] for head in heads]
        if sum(len(row) for rows in seen for row in rows) <= MOST_RANGES:
            found["seen"] = seen
    return found


def _ranges(visible: np.ndarray) -> list[list[int]]:
    """Half-open ranges of the indices at which a bool array is true."""
    edges = np.flatnonzero(np.diff(visible, prepend=False, append=False))
    return edges.reshape(-1, 2).tolist()


def _pages(drawn: Drawn) -> dict | None:
    """How many pages the pools of K and V have, and the page of each drawn step, of several tiles the first.

    None if K and V lie whole.
    """
    trace, pool_pages = drawn.trace, drawn.algorithm.pool_pages
    if pool_pages is None or trace.page is None:
        return None
    return {"count": pool_pages(trace.ran), "of_step": encode(trace.page[drawn.selection.first], "int32")}


def _notes(drawn: Drawn) -> list[str]:
    trace, algorithm = drawn.trace, drawn.algorithm
    notes = [f"sample: {trace.sample.words(trace.problem)}"] if trace.sample else []
    if trace.problem.inputs == "text":
        notes.append("the words have random vectors: no trained model is in it")
    if algorithm.persistent:
        notes.append("program: here a query tile; a program of the launch may take several in turn")
    if algorithm.pool_pages:
        notes.append("pale pages of K and V: of another sequence, or of none")
    blind = 0 if algorithm.packs_heads else trace.problem.band.keyless_rows  # packed rows are not queries
    if blind:
        rows = "row 0 sees" if blind == 1 else f"rows 0 to {blind - 1:,} see"
        notes.append(f"{rows} no key: O is 0 there{', and lse is −∞' if stores_lse(algorithm) else ''}")
    if trace.observed:
        notes += ["seen from outside: loads and stores, as rectangles of its tensors", *trace.observed.notes]
    return [*notes, *drawn.selection.notes]


def sampled_share(trace: Trace) -> float:
    """Part of the queries of all heads that was traced."""
    if trace.sample is None:
        return 1.0
    rows = len(trace.sample.heads) * len(trace.sample.rows(trace.problem))
    return rows / (trace.problem.heads * trace.problem.q_len)


def duel_data(first: tuple[Trace, str], second: tuple[Trace, str], gpu: Gpu) -> dict:
    """Two runs, each a trace and its provenance."""
    both = [player_data(trace, provenance, gpu) for trace, provenance in (first, second)]
    return {
        "id": both[0]["id"] + both[1]["id"],
        "title": f"{both[0]['title']} against {both[1]['title']}",
        "runs": both,
    }


def title_of(trace: Trace) -> str:
    """Algorithm and problem of a run in words, as every picture of it says above or below."""
    return f"{algorithm_of(trace).label}, {problem_words(trace.problem)}"


def _strips(algorithm: Algorithm) -> list[dict]:
    """The strips around the grid: which tensor, on which side, and its place counted from the grid's edge."""
    sides = {"top": algorithm.top, "left": algorithm.left}
    combining = [phase for kernel in algorithm.kernels if kernel.combines_parts for phase in kernel.step]
    parted = {name for phase in combining for name in phase.loads}
    places = [(side, place, name) for side, names in sides.items() for place, name in enumerate(names)]
    return [
        {"name": name, "side": side, "place": place, "parted": name in parted}
        | {"paged": algorithm.pool_pages is not None and name in ("K", "V"), "lists": name == BLOCK_TABLE}
        | {"color": theme.tensor_entry(name)}
        for side, place, name in places
    ]


KERNEL_FACTS = ("each", "stays", "series", "bars", "cells", "splits_keys")
"""Fields of Kernel that are sent as they are."""


def _kernel(kernel: Kernel, name: str, trace: Trace) -> dict:
    held = [(part, part.bytes_of(trace.problem)) for part in kernel.parts]
    phases = [[asdict(phase) for phase in part] for part in (kernel.before, kernel.step, kernel.after)]
    figure = asdict(kernel.figure) if kernel.figure else None
    for matrix in figure["matrices"] if figure else ():
        matrix["label"] = matrix["label"] or matrix["name"]
    return {
        "name": name,
        **{fact: getattr(kernel, fact) for fact in KERNEL_FACTS},
        "parts": [
            {"name": part.name, "holds": part.holds, "bytes": size, "memory": part.memory}
            | {"color": theme.tensor_entry(part.holds[0])}
            for part, size in held
            if size
        ],
        "figure": figure,
        "slots": [asdict(slot) | {"color": theme.tensor_entry(slot.name)} for slot in slots_of(kernel)],
        "phases": [[_said(**phase) for phase in part] for part in phases],
        "source": _source(
            kernel_source(kernel, kernel.source_for(trace.problem), trace.problem.pattern is not None)
        ),
    }


def _said(sentence_key: str, **phase: Any) -> dict:
    return phase | {"tells": sentence_key, "says": SENTENCES.get(sentence_key, [])}


def _source(source: KernelSource) -> dict:
    parts = (source.before, source.step, source.after)
    lines = [[[line.number, line.text, line.phase, line.file] for line in part] for part in parts]
    return {"file": source.file, "further_files": source.further_files, "lines": lines}


def _gpu_words(gpu: Gpu, algorithm: Algorithm, trace: Trace) -> str:
    """What the bars of the chip are drawn against, and what the compiled kernels take."""
    shared, registers = (format_kib(gpu.program_limits[memory]) for memory in (SHARED, REGISTERS))
    launches = zip(trace.kernels, trace.launches, strict=True)
    taken = ", ".join(
        f"{name} {format_kib(launch.shared_bytes)} (stages: {launch.num_stages})"
        for name, launch in launches
        if launch.shared_bytes
    )
    compiled = f" Shared memory of the compiled kernels: {taken}." if taken else ""
    return (
        "In a frame what one program takes of the chip, filled as far as it is in use now, against "
        f"what it can have on the {gpu.name}: {shared} of shared "
        f"memory (an SM has {format_kib(gpu.shared_bytes_per_sm)}; the system keeps the rest) and "
        f"{registers} of registers, all that an SM has. With too many registers the compiler keeps the rest "
        "in HBM, which is slow. With too much shared memory a program does not start: choose smaller tiles. "
        f"{looks_of(algorithm).chip_words}{compiled}"
    )


STEP_ARRAYS = {
    "turn": "uint32",
    "head": "uint32",
    "q": "int32",
    "kv": "int32",
    "kv_end": "int32",
    "phase_class": "uint8",
}
"""Arrays of Drawn that are sent as they are, and their types."""


def _steps(drawn: Drawn) -> dict:
    trace = drawn.trace
    first, ends = drawn.selection.first, drawn.selection.last + 1
    moved = np.cumsum(np.hstack([trace.tensor_bytes_read, trace.tensor_bytes_written]), axis=0)
    requested = np.concatenate([np.zeros((1, moved.shape[1]), np.int64), moved])
    classes, index = np.unique(requested[ends] - requested[first], axis=0, return_inverse=True)
    mean = row_mean(trace, drawn.algorithm, attention_share(trace, drawn.algorithm))
    share = np.append(0, np.cumsum(mean))
    tensors = len(trace.tensors)
    return {
        "count": drawn.count,
        "kernel": encode(trace.kernel[first], "uint8"),
        **{name: encode(getattr(drawn, name), dtype) for name, dtype in STEP_ARRAYS.items()},
        "phase_classes": drawn.phase_classes,
        "share": encode_share(share[ends] - share[first]),
        "byte_class": encode(index.reshape(-1), "uint16"),
        "byte_classes": [{"read": own[:tensors], "written": own[tensors:]} for own in classes.tolist()],
    }


def _rows(drawn: Drawn) -> dict:
    """Row state after each drawn step, of every row or of evenly spaced ones."""
    trace, selection, picked = drawn.trace, drawn.selection, drawn.offsets
    values = {}
    for name, field in ROW_VALUES.items():
        array = getattr(trace, field)
        if array is not None and name in SHARES:
            recorded = np.nan_to_num(array[:, picked], nan=1.0)  # 1 where it was not: nothing is rescaled
            values[name] = _row_values(selection.joined(recorded, SHARES[name]), "share")
        elif array is not None:
            values[name] = _row_values(array[selection.last][:, picked], "float")
    if trace.row_share is not None:
        values["share"] = _row_values(selection.joined(trace.row_share[:, picked], np.add), "share")
    return {"offsets": picked.tolist(), "values": values}


ENCODERS: dict[str, Callable[[np.ndarray], str]] = {
    "float": functools.partial(encode, dtype="float32"),
    "share": encode_share,
}
"""By the name of a scale in model.js."""


def _row_values(values: np.ndarray, scale: str) -> dict:
    return {"data": ENCODERS[scale](values), "scale": scale}
