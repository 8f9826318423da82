"""Trace -> what the player draws, as plain JSON values. Pure: no streamlit, no drawing.

Arrays travel as base64 of little-endian numbers. The entry of the algorithm travels as fields, so that the
script knows no kernel, phase or tensor by its name.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np

from kernels.algorithms import algorithm_of
from kernels.algorithms.standard.traffic import standard_requested
from kernels.device.gpus import REGISTERS, SHARED, Gpu
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm, ChipPart, Kernel, Phase
from kernels.trace.schedule import step_schedule
from kernels.traffic.modelled import modelled_ns
from viz.player.numbers import encode, figure_data, matrices_of
from viz.player.selection import Selection, is_large, select_steps, turns
from viz.player.source import KernelSource, Lines, kernel_source
from viz.player.tiles import attention_share, key_parts, key_ranges, row_mean, tile_kinds
from viz.shared import theme
from viz.shared.formats import format_kib, problem_words

MAX_ROW_VALUES = 9000
"""Most pairs of row and step whose state is sent. With more, every second, fourth, ... row of a tile is."""

ROW_VALUES = {"m": "row_max", "l": "row_sum", "alpha": "alpha", "weight": "weight"}
"""Names of row values in the script, and the fields of Trace that they are."""
SHARES = {"alpha": np.multiply, "weight": np.add}
"""Row values between 0 and 1, and what joins those of the steps that are drawn as one."""


def player_data(trace: Trace, provenance: str, gpu: Gpu) -> dict:
    """Everything the player needs.

    `provenance` says where the trace is from; `gpu` gives the limits of a program's memories on the
    chip, and the number of SMs.
    """
    problem, algorithm = trace.problem, algorithm_of(trace)
    selection = select_steps(trace, algorithm)
    tile_numbers = grid_tiles(trace, selection)
    names = zip(algorithm.kernels, trace.kernels, strict=True)
    share = sampled_share(trace) * selection.share
    data = {
        "title": title_of(trace),
        "provenance": provenance,
        "problem": _problem(trace, algorithm, tile_numbers),
        "notes": _notes(trace, algorithm) + list(selection.notes),
        "tensors": [
            {"name": name, "written": bool(trace.tensor_bytes_written[:, i].any()), "color": _color(name)}
            for i, name in enumerate(trace.tensors)
        ],
        "standard_bytes": round(share * standard_requested(problem, algorithm.direction)),
        "standard_words": "standard, same rows" if share < 1 else "standard, same tiles",
        "strips": _strips(algorithm),
        "key_parts": key_parts(trace, algorithm),
        "grid": algorithm.grid,
        "grid_words": algorithm.grid_words,
        "observed": algorithm.observed,
        "each_kernel_anew": algorithm.each_kernel_anew,
        "gpu": {"limits": gpu.program_limits, "name": gpu.name, "words": _gpu_words(gpu, algorithm, trace)},
        "kernels": [_kernel(kernel, name, trace) for kernel, name in names],
        "palettes": theme.palettes_for_player(),
        "kinds": encode(tile_kinds(problem, algorithm, tile_numbers or None).ravel(), "uint8"),
        "steps": _steps(trace, algorithm, selection, tile_numbers),
        "rows": _rows(trace, algorithm, selection),
        "matrices": matrices_of(trace, algorithm, selection),
        "matrix_row": trace.matrix_row,
        "clock": _clock(trace, algorithm, selection, gpu),
    }
    # The GPU's limits alone make no other run; its number of SMs does, since it changes the modelled clock.
    told_apart_by = [data[name] for name in ("title", "provenance", "steps", "rows", "matrices", "clock")]
    digest = hashlib.sha256(json.dumps(told_apart_by).encode())
    return data | {"id": digest.hexdigest()[:16]}


def _problem(trace: Trace, algorithm: Algorithm, tile_numbers: list[int]) -> dict:
    """The problem's fields and what follows from them; `tile_numbers` is as `grid_tiles` gives them."""
    problem, band = trace.problem, trace.problem.band
    return problem.as_dict() | {
        "q_tiles": len(tile_numbers) or int(trace.q_tile.max()) + 1,
        "tile_numbers": tile_numbers,
        "kv_tiles": problem.kv_tiles,
        "left": band.left,
        "right": band.right,
        "rows": algorithm.rows(problem),
        "packed": algorithm.packs_heads,
        "scale": problem.scale,
    }


def grid_tiles(trace: Trace, selection: Selection) -> list[int]:
    """The query tiles that have a row in a sample's grid or in a large one; empty if all have one."""
    if trace.sample and trace.sample.q_tiles:
        return list(trace.sample.q_tiles)
    drawn = np.unique(trace.q_tile[selection.first])
    return drawn[drawn >= 0].tolist() if is_large(trace.problem) else []


def _notes(trace: Trace, algorithm: Algorithm) -> list[str]:
    """What is to be known of the run beside its picture."""
    return sample_notes(trace) + _program_notes(algorithm) + _keyless_notes(trace) + observed_notes(trace)


def sample_notes(trace: Trace) -> list[str]:
    """What of the run was traced, in words; empty if all of it was."""
    return [f"sample: {trace.sample.words(trace.problem)}"] if trace.sample else []


def _program_notes(algorithm: Algorithm) -> list[str]:
    """What is called a program, if it is not one of the launch."""
    words = "program: here a query tile; a program of the launch may take several, one after the other"
    return [words] if algorithm.persistent else []


def _keyless_notes(trace: Trace) -> list[str]:
    """That there are queries without a key, and what they give; packed rows are not numbered as queries."""
    count = 0 if algorithm_of(trace).packs_heads else trace.problem.band.keyless_rows
    rows = "row 0 sees" if count == 1 else f"rows 0 to {count - 1:,} see"
    return [f"{rows} no key: O is 0 there, and lse is −∞"] * bool(count)


def observed_notes(trace: Trace) -> list[str]:
    """What of a user's kernel is seen and what is not, in words; empty for kernels that trace themselves."""
    words = "seen from outside: loads and stores, as rectangles of its tensors"
    return [words, *trace.observed.notes] if trace.observed else []


def sampled_share(trace: Trace) -> float:
    """Part of the queries of all heads that was traced."""
    if trace.sample is None:
        return 1.0
    rows = len(trace.sample.heads) * len(trace.sample.rows(trace.problem))
    return rows / (trace.problem.heads * trace.problem.q_len)


def _grid_rows(q_tile: np.ndarray, tile_numbers: list[int]) -> np.ndarray:
    """int (steps,): the row of the grid that each step is in; -1 for a step without a query tile."""
    return np.where(q_tile < 0, -1, np.searchsorted(tile_numbers, q_tile)) if tile_numbers else q_tile


def duel_data(first: tuple[Trace, str], second: tuple[Trace, str], gpu: Gpu) -> dict:
    """Two runs, each a trace and its provenance, and their common clock."""
    both = [player_data(trace, provenance, gpu) for trace, provenance in (first, second)]
    runs = [data | {"matrices": {}} for data in both]  # a duel opens no tile
    return {
        "id": runs[0]["id"] + runs[1]["id"],
        "title": f"{runs[0]['title']} against {runs[1]['title']}",
        "runs": runs,
    } | duel_clock(first[0], second[0], gpu)


def duel_clock(first: Trace, second: Trace, gpu: Gpu) -> dict:
    """The modelled time at which each drawn step of two runs ends, and what this clock is, in words."""
    costs = []
    words = [
        f"Modelled: each drawn step takes as long as its bytes at the bandwidth of the {gpu.name}, or as its "
        "FLOPs at its peak, whichever is longer. The model has no caches, no latency and no idle SM."
    ]
    for name, trace in zip("AB", (first, second), strict=True):
        algorithm = algorithm_of(trace)
        selection = select_steps(trace, algorithm)
        ends = np.append(0, np.cumsum(modelled_ns(trace, algorithm, gpu)))
        drawn = ends[selection.last + 1] - ends[selection.first]  # others count neither here nor in the bytes
        costs.append(encode(np.cumsum(drawn), "float64"))
        words += [f"{name} is a {note}." for note in sample_notes(trace)]
        if selection.share < 1:
            words.append(f"Only the drawn part of {name} is timed.")
    return {"costs": costs, "clock_words": " ".join(words)}


def title_of(trace: Trace) -> str:
    """Algorithm and problem of a run in words, as every picture of it says above or below."""
    return f"{algorithm_of(trace).label}, {problem_words(trace.problem)}"


def _color(name: str) -> str:
    return theme.tensor_entry(name)


def _strips(algorithm: Algorithm) -> list[dict]:
    """The strips around the grid: which tensor, on which side, and its place counted from the grid's edge."""
    sides = {"top": algorithm.top, "left": algorithm.left, "right": algorithm.right}
    parted = {name for kernel in algorithm.kernels if kernel.combines_parts for name in _loads(kernel)}
    return [
        {"name": name, "side": side, "place": place, "color": _color(name), "parted": name in parted}
        for side, names in sides.items()
        for place, name in enumerate(names)
    ]


def _loads(kernel: Kernel) -> set[str]:
    return {name for phase in kernel.step for name in phase.loads}


def _kernel(kernel: Kernel, name: str, trace: Trace) -> dict:
    return {
        "name": name,
        "each": kernel.each,
        "stays": kernel.stays,
        "series": kernel.series,
        "bars": kernel.bars,
        "cells": kernel.cells,
        "splits_keys": kernel.splits_keys,
        "parts": [_chip_part(part, trace) for part in kernel.parts if part.bytes_of(trace.problem)],
        "figure": figure_data(kernel.figure) if kernel.figure else None,
        "phases": [[_phase(phase) for phase in part] for part in (kernel.before, kernel.step, kernel.after)],
        "source": _source(kernel_source(kernel.source_for(trace.problem))),
    }


def _phase(phase: Phase) -> dict:
    return {
        "name": phase.name,
        "loads": phase.loads,
        "needs": phase.needs,
        "makes": phase.makes,
        "stores": phase.stores,
        "shows": phase.shows,
        "only_masked": phase.only_masked,
        "rescales": phase.rescales,
        "tells": phase.tells,
    }


def _gpu_words(gpu: Gpu, algorithm: Algorithm, trace: Trace) -> str:
    """What the bars of the chip are drawn against, and what the compiled kernels take."""
    shared, registers = (format_kib(gpu.program_limits[memory]) for memory in (SHARED, REGISTERS))
    taken = [
        f"{name} {format_kib(launch.shared_bytes)} (stages: {launch.num_stages})"
        for name, launch in zip(trace.kernels, trace.launches, strict=True)
        if launch.shared_bytes
    ]
    compiled = f" Shared memory of the compiled kernels: {', '.join(taken)}." if taken else ""
    return (
        f"What one program keeps on the chip, against what it can have on the {gpu.name}: {shared} of shared "
        f"memory (an SM has {format_kib(gpu.shared_bytes_per_sm)}; the system keeps the rest) and "
        f"{registers} of registers, all that an SM has. A program that needs more registers spills: its "
        "compiler keeps the rest in HBM, which is slow. One that needs more shared memory does not start: "
        "then choose smaller tiles. "
        f"{algorithm.chip_words}{compiled}"
    )


def _chip_part(part: ChipPart, trace: Trace) -> dict:
    bytes_held = part.bytes_of(trace.problem)
    color = _color(part.holds[0])
    return {
        "name": part.name,
        "holds": part.holds,
        "bytes": bytes_held,
        "color": color,
        "memory": part.memory,
    }


def _steps(trace: Trace, algorithm: Algorithm, selection: Selection, tile_numbers: list[int]) -> dict:
    first, last = selection.first, selection.last
    ends = last + 1
    moved = np.cumsum(np.hstack([trace.tensor_bytes_read, trace.tensor_bytes_written]), axis=0)
    requested = np.concatenate([np.zeros((1, moved.shape[1]), np.int64), moved])
    classes, index = np.unique(requested[ends] - requested[first], axis=0, return_inverse=True)
    mean = row_mean(trace, algorithm, attention_share(trace, algorithm))
    share = np.concatenate([[0.0], np.cumsum(mean)])
    kv, kv_end = key_ranges(trace, algorithm)
    return {
        "count": len(first),
        "kernel": encode(trace.kernel[first], "uint8"),
        "turn": encode(turns(trace, algorithm)[first], "uint32"),
        "head": encode(trace.batch_head[first], "uint32"),
        "q": encode(_grid_rows(trace.q_tile[first], tile_numbers), "int32"),
        "kv": encode(kv[first], "int32"),
        "kv_end": encode(kv_end[last], "int32"),
        "share": _encode_share(share[ends] - share[first]),
        "byte_class": encode(index.reshape(-1), "uint16"),
        "byte_classes": [
            {"read": moved[: len(trace.tensors)], "written": moved[len(trace.tensors) :]}
            for moved in classes.tolist()
        ],
    }


def _rows(trace: Trace, algorithm: Algorithm, selection: Selection) -> dict:
    """Row state after each drawn step, of every row or of evenly spaced ones; and of the step's tile."""
    last = selection.last
    arrays = {name: getattr(trace, field) for name, field in ROW_VALUES.items()}
    known = {name: array for name, array in arrays.items() if array is not None}
    stride, columns = 1, max(len(known) - 1, 1)
    rows = min(trace.problem.block_m, algorithm.rows(trace.problem))
    while len(last) * rows * columns // 2 // stride > MAX_ROW_VALUES and stride < trace.problem.block_m:
        stride *= 2
    picked = np.arange(0, rows, stride)
    values = {}
    for name, array in known.items():
        if name in SHARES:
            recorded = np.nan_to_num(array[:, picked], nan=1.0)  # 1 where it was not: nothing is rescaled
            values[name] = _row_values(selection.joined(recorded, SHARES[name]), "share")
        else:
            values[name] = _row_values(array[last][:, picked], "float")
    if trace.row_share is not None:
        values["share"] = _row_values(selection.joined(trace.row_share[:, picked], np.add), "share")
    if trace.output_distance is not None:
        values["distance"] = _row_values(trace.output_distance[last][:, picked], "log")
    if trace.gradient_distance is not None:
        for column, name in enumerate(("dQ", "dK", "dV")):
            distance = trace.gradient_distance[last, column]
            if not np.isnan(distance).all():  # else the run did not record this sum
                values[name] = _row_values(distance, "log", per_tile=True)
    return {"offsets": picked.tolist(), "values": values}


def _row_values(values: np.ndarray, scale: str, per_tile: bool = False) -> dict:
    """Values per row or per tile; `scale` says how they are encoded, by its name in model.js."""
    encoders = {"float": lambda array: encode(array, "float32"), "share": _encode_share, "log": _encode_log}
    return {"data": encoders[scale](values), "scale": scale, "per_tile": per_tile}


def _clock(trace: Trace, algorithm: Algorithm, selection: Selection, gpu: Gpu) -> dict:
    """When each drawn step starts and ends, and on which SM: by the GPU's timer, or as modelled."""
    schedule = step_schedule(trace, algorithm, gpu.sm_count)
    return {
        "start": encode(np.clip(schedule.start[selection.first], 0, 2**32 - 1), "uint32"),
        "end": encode(np.clip(schedule.end[selection.last], 0, 2**32 - 1), "uint32"),
        "sm": encode(schedule.sm[selection.first], "uint16"),
        "measured": schedule.measured,
    }


def _source(source: KernelSource) -> dict:
    def plain(lines: Lines) -> list[list]:
        return [[line.number, line.text, line.phase, line.file] for line in lines]

    parts = [plain(part) for part in (source.before, source.step, source.after)]
    return {"file": source.file, "further_files": source.further_files, "lines": parts}


def _encode_share(values: np.ndarray) -> str:
    """Numbers from 0 to 1 as 16 bits; NaN as 0."""
    return encode(np.round(65535 * np.clip(np.nan_to_num(values), 0, 1)), "uint16")


def _encode_log(values: np.ndarray) -> str:
    """Sizes from 1e-9 to 1e3 as 16 bits on a log scale; 0 stands for 1e-9 or less, and for NaN."""
    log = np.log10(np.clip(np.nan_to_num(values, nan=1e-9), 1e-9, 1e3))
    return encode(np.round(65535 * (log + 9) / 12), "uint16")
