"""Trace -> what the player draws, as plain JSON values. Pure: no streamlit, no drawing.

Arrays travel as base64 of little-endian numbers. At most MAX_STEPS steps are drawn; beyond that heads, tiles and
at last consecutive steps are left out or grouped, and `notes` says so.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import asdict, dataclass

import numpy as np

from kernels.device.gpus import Gpu
from kernels.problem.tiles import TileKind, band, visited_tiles
from kernels.trace.schedule import step_schedule
from kernels.trace.trace import ALGORITHMS, Trace
from kernels.traffic.modelled import backward_standard_bytes, sram_parts, standard_bytes, step_flops
from viz.player.source import KernelSource, SourceLine, kernel_source
from viz.player.views import VIEWS, KernelView
from viz.shared import theme

MAX_STEPS = 4096
MAX_ROW_VALUES = 9000
"""Rows times steps whose state is sent; with more, every second, fourth, ... row of a tile is."""

KIND_CODES = {TileKind.SKIPPED: 0, TileKind.PARTIAL: 1, TileKind.FULL: 2}


@dataclass(frozen=True)
class Selection:
    """Which steps of a trace are drawn. `last` holds, for each drawn step, the index of its last step in the trace."""

    first: np.ndarray
    last: np.ndarray
    notes: tuple[str, ...]


def turns(trace: Trace) -> np.ndarray:
    """int (steps,): number of the turn of the outer loop that each step belongs to: consecutive steps with the same tile staying on the chip."""
    stays = np.array([view.stays == "kv_tile" for view in VIEWS[trace.algorithm].kernels])[trace.kernel]
    tile = np.where(stays, trace.kv_tile, trace.q_tile)
    head = np.where(
        stays, 0, trace.batch_head
    )  # query heads that share a key head take turns under one key tile
    key = np.stack([trace.kernel, trace.program, tile, head])
    return np.cumsum(np.append(True, (key[:, 1:] != key[:, :-1]).any(axis=0))) - 1


def select_steps(trace: Trace, limit: int = MAX_STEPS) -> Selection:
    """All steps where they fit the limit, else evenly spaced heads, then query or key tiles, then groups of consecutive steps."""
    kept = np.arange(trace.steps)
    notes = []
    heads = np.unique(trace.batch_head)
    if len(kept) > limit and len(heads) > 1:
        chosen = heads[_evenly(len(heads), max(1, limit * len(heads) // len(kept)))]
        kept = kept[np.isin(trace.batch_head[kept], chosen)]
        notes.append(f"{len(chosen)} of {len(heads)} heads are drawn")
    tiles = np.unique(trace.q_tile[kept])
    tiles = tiles[tiles >= 0]
    if len(kept) > limit and len(tiles) > 1:
        chosen = tiles[_evenly(len(tiles), max(1, limit * len(tiles) // len(kept)))]
        kept = kept[np.isin(trace.q_tile[kept], chosen)]
        notes.append(f"{len(chosen)} of {len(tiles)} query tiles are drawn")
    size = -(-len(kept) // limit)
    if size > 1:
        notes.append(f"{size} consecutive key tiles are drawn as one step")
    turn = turns(trace)[kept]
    place = np.arange(len(kept)) - np.maximum.accumulate(
        np.where(np.diff(turn, prepend=-1) != 0, np.arange(len(kept)), 0)
    )
    is_first = place % size == 0
    is_last = np.append(is_first[1:], True)
    return Selection(kept[is_first], kept[is_last], tuple(notes))


def _evenly(count: int, wanted: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(wanted, count)).round().astype(int))


def attention_share(trace: Trace) -> np.ndarray:
    """float32 (steps, block_m): the part of each row's attention that a step's tile holds; a row's tiles add up to 1.

    Where the kernel has P at hand (backward, standard, row-wise, the weights of a combine) its row sums; elsewhere from the recorded
    online state: the tile added row_sum - alpha * (row_sum before) at the scale of its row max.
    """
    share = np.full((trace.steps, trace.problem.block_m), np.nan, np.float32)
    if trace.row_sum is not None and trace.alpha is not None:
        share = _share_of_online_state(trace)
    for known in (trace.row_share, trace.weight):
        if known is not None:
            share = np.where(np.isfinite(known), known, share)
    return np.clip(np.nan_to_num(share, nan=0.0, posinf=0.0, neginf=0.0), 0, 1)


def _share_of_online_state(trace: Trace) -> np.ndarray:
    online = np.flatnonzero(np.isfinite(trace.row_sum).any(axis=1) & (trace.q_tile >= 0))
    whole_rows = trace.algorithm != "split_kv"  # there, every program begins with an empty state
    state = (
        trace.batch_head.astype(np.int64) * trace.problem.q_tiles + trace.q_tile
        if whole_rows
        else trace.program
    )
    tile = trace.batch_head.astype(np.int64) * (trace.q_tile.max() + 1) + trace.q_tile
    order = online[np.argsort(state[online], kind="stable")]
    fresh = np.diff(state[order], prepend=-1) != 0
    share = np.full(trace.row_sum.shape, np.nan, np.float32)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        before = np.where(fresh[:, None], 0, np.roll(trace.row_sum[order], 1, axis=0))
        added = trace.row_sum[order] - trace.alpha[order] * before
        ends = order[np.append(np.flatnonzero(fresh)[1:], len(order)) - 1]
        log_sums = np.nan_to_num(trace.row_max[ends] + np.log(trace.row_sum[ends]), nan=-np.inf)
        lse = np.full((tile.max() + 1, trace.row_max.shape[1]), -np.inf)
        np.logaddexp.at(lse, tile[ends], log_sums)
        share[order] = added * np.exp(trace.row_max[order] - lse[tile[order]])
    return share


def player_data(trace: Trace, provenance: str, gpu: Gpu) -> dict:
    """Everything the player needs. `provenance` says where the trace is from; `gpu` gives the SRAM capacity and the SMs."""
    problem, view = trace.problem, VIEWS[trace.algorithm]
    selection = select_steps(trace)
    left, right = band(problem)
    first, last = selection.first, selection.last
    shape = {
        "q_tiles": int(trace.q_tile.max()) + 1,
        "kv_tiles": problem.kv_tiles,
        "left": left,
        "right": right,
        "rows": _rows_in_all(trace),
    }
    backward = trace.d_query is not None or trace.algorithm.startswith("backward")
    data = {
        "title": _title(trace),
        "provenance": provenance,
        "problem": problem.as_dict() | shape,
        "notes": list(selection.notes),
        "tensors": [
            {"name": name, "written": bool(trace.tensor_bytes_written[:, i].any())}
            for i, name in enumerate(trace.tensors)
        ],
        "standard_bytes": backward_standard_bytes(problem) if backward else standard_bytes(problem),
        "strips": {"top": view.top, "left": view.left, "right": view.right},
        "parts": _parts(trace),
        "unvisited": view.unvisited,
        "fresh": view.fresh,
        "gpu": {"capacity": gpu.shared_bytes_per_sm, "name": gpu.name},
        "kernels": [
            _kernel(kernel, name, trace) for kernel, name in zip(view.kernels, trace.kernels, strict=True)
        ],
        "palettes": theme.palettes_for_player(),
        "kinds": _encode(_tile_kinds(trace), "uint8"),
        "steps": _steps(trace, first, last),
        "rows": _rows(trace, last),
        "clock": _clock(trace, first, last, gpu),
    }
    digest = hashlib.sha256(
        repr([data["title"], provenance, data["steps"], data["rows"]]).encode()
    )  # another GPU's SRAM is no other run
    return data | {"id": digest.hexdigest()[:16]}


def duel_data(first: tuple[Trace, str], second: tuple[Trace, str], gpu: Gpu) -> dict:
    """Two runs, each a trace and its provenance, and the modelled time at which each drawn step of them ends."""
    runs = [player_data(trace, provenance, gpu) for trace, provenance in (first, second)]
    costs = []
    for trace, _ in (first, second):
        ends = np.cumsum(modelled_ns(trace, gpu))
        costs.append(_encode(ends[select_steps(trace).last], "float64"))
    words = (
        f"Modelled: every step takes as long as its bytes at the {gpu.name}'s bandwidth or its FLOPs at its peak, whichever is longer; "
        "no caches, no latency, no idle SM."
    )
    title = f"{runs[0]['title']} against {runs[1]['title']}"
    return {
        "id": runs[0]["id"] + runs[1]["id"],
        "title": title,
        "runs": runs,
        "costs": costs,
        "clock_words": words,
    }


def modelled_ns(trace: Trace, gpu: Gpu) -> np.ndarray:
    """float64 (steps,): the longer of a step's counted bytes at the GPU's bandwidth and its modelled FLOPs at its peak (a roofline)."""
    return 1e9 * np.maximum(
        (trace.bytes_read + trace.bytes_written) / gpu.hbm_bandwidth, step_flops(trace) / gpu.fp16_flops
    )


def _title(trace: Trace) -> str:
    problem = trace.problem
    shape = f"{problem.q_len} × {problem.kv_len}, head_dim {problem.head_dim}"
    return f"{ALGORITHMS[trace.algorithm].label}, {shape}, {problem.dtype}, {problem.mask}"


def _rows_in_all(trace: Trace) -> int:
    """Rows that the query tiles cut: the queries; for split-KV those of all heads that share a key head."""
    problem = trace.problem
    return (
        problem.q_len * (problem.q_heads // problem.kv_heads)
        if trace.algorithm == "split_kv"
        else problem.q_len
    )


def _kernel(view: KernelView, name: str, trace: Trace) -> dict:
    return {
        "name": name,
        "each": view.each,
        "stays": view.stays,
        "series": view.series,
        "bars": view.bars,
        "cells": view.cells,
        "sram": [asdict(part) for part in sram_parts(trace.problem, name)],
        "source": _source(kernel_source(*view.source)),
    }


def _steps(trace: Trace, first: np.ndarray, last: np.ndarray) -> dict:
    ends = last + 1
    requested = np.concatenate(
        [
            np.zeros((1, len(trace.tensors)), np.int64),
            np.cumsum(trace.tensor_bytes_read + trace.tensor_bytes_written, axis=0),
        ]
    )
    per_step = requested[ends] - requested[first]
    classes, index = np.unique(per_step, axis=0, return_inverse=True)
    mean_share = np.concatenate([[0.0], np.cumsum(_row_mean(attention_share(trace), trace))])
    kv, kv_end = _key_tiles(trace)
    return {
        "count": len(first),
        "kernel": _encode(trace.kernel[first], "uint8"),
        "turn": _encode(turns(trace)[first], "uint32"),
        "head": _encode(trace.batch_head[first], "uint32"),
        "q": _encode(trace.q_tile[first], "int32"),
        "kv": _encode(kv[first], "int32"),
        "kv_end": _encode(kv_end[last], "int32"),
        "share": _encode(np.round(65535 * np.clip(mean_share[ends] - mean_share[first], 0, 1)), "uint16"),
        "byte_class": _encode(index.reshape(-1), "uint16"),
        "byte_classes": classes.tolist(),
    }


def _parts(trace: Trace) -> list[int]:
    """First key tile of each part of the keys, and one past the last; empty where the keys are not split."""
    if trace.algorithm != "split_kv":
        return []
    kv, kv_end = _key_tiles(trace)
    combines = trace.kernel == 1
    return [*np.unique(kv[combines]).tolist(), int(kv_end[combines].max())]


def _key_tiles(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """First and one past the last key tile of each step; a step that combines a part of the keys is about all tiles of that part."""
    kv, kv_end = trace.kv_tile.copy(), trace.kv_tile + 1
    if trace.algorithm == "split_kv":
        splits = np.flatnonzero(trace.kernel == 0)
        combines = np.flatnonzero(trace.kernel == 1)
        programs = len(np.unique(trace.program[combines]))
        parts = len(combines) // programs
        part = np.arange(len(combines)) % parts
        tiles = trace.kv_tile[splits]
        for at in range(parts):
            own = tiles[trace.program[splits] % parts == at]
            kv[combines[part == at]], kv_end[combines[part == at]] = own.min(), own.max() + 1
    return kv, kv_end


def _row_mean(values: np.ndarray, trace: Trace) -> np.ndarray:
    """Mean over the rows of each step that exist."""
    rows = np.minimum(
        _rows_in_all(trace) - np.maximum(trace.q_tile, 0) * trace.problem.block_m, trace.problem.block_m
    )
    return np.nansum(np.where(np.arange(values.shape[1]) < rows[:, None], values, 0), axis=1) / rows


def _rows(trace: Trace, last: np.ndarray) -> dict:
    """Row state after each drawn step, of every row or of evenly spaced ones; and of the step's tile as a whole."""
    known = {"m": trace.row_max, "l": trace.row_sum, "alpha": trace.alpha, "weight": trace.weight}
    known = {name: array for name, array in known.items() if array is not None}
    stride, columns = 1, max(len(known) - 1, 1)
    rows = min(trace.problem.block_m, _rows_in_all(trace))
    while len(last) * rows * columns // 2 // stride > MAX_ROW_VALUES and stride < trace.problem.block_m:
        stride *= 2
    picked = np.arange(0, rows, stride)
    encoded = {}
    for name, array in known.items():
        values = array[last][:, picked]
        unit = name in ("alpha", "weight")
        encoded[name] = (
            _encode(np.round(65535 * np.clip(np.nan_to_num(values, nan=1.0), 0, 1)), "uint16")
            if unit
            else _encode(values, "float32")
        )
    if trace.row_share is not None:
        encoded["share"] = _encode(
            np.round(65535 * np.clip(np.nan_to_num(trace.row_share[last][:, picked]), 0, 1)), "uint16"
        )
    if trace.output_distance is not None:
        encoded["distance"] = _encode_log(trace.output_distance[last][:, picked])
    if trace.gradient_distance is not None:
        encoded |= {
            name: _encode_log(trace.gradient_distance[last, column])
            for column, name in enumerate(("dQ", "dK", "dV"))
        }
    return {"offsets": picked.tolist(), "values": encoded}


def _encode_log(values: np.ndarray) -> str:
    """Sizes from 1e-9 to 1e3 as 16 bits on a log scale; 0 is 1e-9 or less, and NaN."""
    with np.errstate(divide="ignore"):
        log = np.log10(np.nan_to_num(values, nan=1e-9, posinf=1e3))
    return _encode(np.round(65535 * (np.clip(log, -9, 3) + 9) / 12), "uint16")


def _clock(trace: Trace, first: np.ndarray, last: np.ndarray, gpu: Gpu) -> dict:
    """When each drawn step starts and ends, and on which SM: by the GPU's timer, or as modelled."""
    schedule = step_schedule(trace, gpu.sm_count)
    return {
        "start": _encode(np.clip(schedule.start[first], 0, 2**32 - 1), "uint32"),
        "end": _encode(np.clip(schedule.end[last], 0, 2**32 - 1), "uint32"),
        "sm": _encode(schedule.sm[first], "uint16"),
        "measured": schedule.measured,
    }


def _tile_kinds(trace: Trace) -> np.ndarray:
    """KIND_CODES of (query tile, key tile); where several heads are packed into a tile, of the union of their rows."""
    problem = trace.problem
    q_tiles = int(trace.q_tile.max()) + 1
    kinds = np.zeros((q_tiles, problem.kv_tiles), np.uint8)
    if trace.algorithm == "split_kv":
        visited = np.unique(trace.kv_tile[trace.kv_tile >= 0])
        kinds[:, visited] = KIND_CODES[TileKind.FULL]
        return kinds.ravel()
    for q_tile in range(q_tiles):
        tiles = visited_tiles(problem, q_tile)
        kinds[q_tile, tiles.first : tiles.end] = KIND_CODES[TileKind.PARTIAL]
        kinds[q_tile, tiles.first_full : tiles.end_full] = KIND_CODES[TileKind.FULL]
    return kinds.ravel()


def _source(source: KernelSource) -> dict:
    def plain(lines: tuple[SourceLine, ...]) -> list[list]:
        return [[line.number, line.text, line.phase] for line in lines]

    return {
        "file": source.file,
        "lines": [plain(source.prologue), plain(source.loop), plain(source.epilogue)],
        "phases": [list(source.phases(lines)) for lines in (source.prologue, source.loop, source.epilogue)],
    }


def _encode(values: np.ndarray, dtype: str) -> str:
    return base64.b64encode(
        np.ascontiguousarray(values, np.dtype(dtype).newbyteorder("<")).tobytes()
    ).decode()
