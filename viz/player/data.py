"""Trace -> what the player draws, as plain JSON values. Pure: no streamlit, no drawing.

Arrays travel as base64 of little-endian numbers. At most MAX_STEPS steps are drawn; beyond that heads, query tiles and
at last consecutive steps are left out or grouped, and `notes` says so.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import asdict, dataclass

import numpy as np

from kernels.hardware import Gpu
from kernels.tiles import TileKind, band, visited_tiles
from kernels.trace import ALGORITHMS, Trace
from kernels.traffic import sram_parts, standard_bytes
from viz import theme
from viz.player.source import KernelSource, SourceLine, kernel_source

MAX_STEPS = 4096
MAX_ROW_VALUES = 9000
"""Rows times steps whose state is sent; with more, every second, fourth, ... row of a tile is."""

KIND_CODES = {TileKind.SKIPPED: 0, TileKind.PARTIAL: 1, TileKind.FULL: 2}
SOURCES = {"flash2": ("kernels/forward.py", "_attn_fwd", "_attn_fwd_inner")}


@dataclass(frozen=True)
class Selection:
    """Which steps of a trace are drawn. `last` holds, for each drawn step, the index of its last step in the trace."""

    first: np.ndarray
    last: np.ndarray
    notes: tuple[str, ...]


def select_steps(trace: Trace, limit: int = MAX_STEPS) -> Selection:
    """All steps where they fit the limit, else evenly spaced heads, then query tiles, then groups of consecutive steps."""
    kept = np.arange(trace.steps)
    notes = []
    heads = np.unique(trace.batch_head)
    if len(kept) > limit and len(heads) > 1:
        chosen = heads[_evenly(len(heads), max(1, limit * len(heads) // len(kept)))]
        kept = kept[np.isin(trace.batch_head[kept], chosen)]
        notes.append(f"{len(chosen)} of {len(heads)} heads are drawn")
    tiles = np.unique(trace.q_tile[kept])
    if len(kept) > limit and len(tiles) > 1:
        chosen = tiles[_evenly(len(tiles), max(1, limit * len(tiles) // len(kept)))]
        kept = kept[np.isin(trace.q_tile[kept], chosen)]
        notes.append(f"{len(chosen)} of {len(tiles)} query tiles are drawn")
    size = -(-len(kept) // limit)
    if size > 1:
        notes.append(f"{size} consecutive key tiles are drawn as one step")
    program = trace.program[kept]
    place = np.arange(len(kept)) - np.maximum.accumulate(np.where(np.diff(program, prepend=-1) != 0, np.arange(len(kept)), 0))
    is_first = place % size == 0
    is_last = np.append(is_first[1:], True)
    return Selection(kept[is_first], kept[is_last], tuple(notes))


def _evenly(count: int, wanted: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(wanted, count)).round().astype(int))


def attention_share(trace: Trace) -> np.ndarray:
    """float32 (steps, block_m): the part of each row's attention that a step's tile holds; a row's steps add up to 1.

    From the recorded state alone: the tile added row_sum - alpha * (row_sum before) at the scale of its row max.
    """
    fresh = np.diff(trace.program, prepend=-1) != 0
    before = np.where(fresh[:, None], 0, np.roll(trace.row_sum, 1, axis=0))
    last = np.append(np.flatnonzero(fresh)[1:], trace.steps) - 1
    of_program = last[np.cumsum(fresh) - 1]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        added = trace.row_sum - trace.alpha * before
        share = added * np.exp(trace.row_max - trace.row_max[of_program]) / trace.row_sum[of_program]
    return np.clip(np.nan_to_num(share, nan=0.0, posinf=0.0, neginf=0.0), 0, 1)


def player_data(trace: Trace, provenance: str, gpu: Gpu) -> dict:
    """Everything the player needs. `provenance` says where the trace is from; `gpu` gives the SRAM capacity."""
    problem = trace.problem
    selection = select_steps(trace)
    left, right = band(problem)
    first, last = selection.first, selection.last
    data = {
        "title": _title(trace),
        "provenance": provenance,
        "problem": problem.as_dict() | {"q_tiles": problem.q_tiles, "kv_tiles": problem.kv_tiles, "left": left, "right": right},
        "notes": list(selection.notes),
        "tensors": [{"name": name, "written": bool(trace.tensor_bytes_written[:, i].any())} for i, name in enumerate(trace.tensors)],
        "standard_bytes": standard_bytes(problem),
        "sram": {"parts": [asdict(part) for part in sram_parts(problem)], "capacity": gpu.shared_bytes_per_sm, "gpu": gpu.name},
        "source": _source(kernel_source(*SOURCES[trace.algorithm])),
        "palettes": theme.palettes_for_player(),
        "kinds": _encode(_tile_kinds(trace), "uint8"),
        "steps": _steps(trace, first, last),
        "rows": _rows(trace, last),
        "clock": _clock(trace, first, last),
    }
    digest = hashlib.sha256(repr([data["title"], provenance, data["steps"], data["rows"]]).encode())  # another GPU's SRAM is no other run
    return data | {"id": digest.hexdigest()[:16]}


def _title(trace: Trace) -> str:
    problem = trace.problem
    shape = f"{problem.q_len} x {problem.kv_len}, head_dim {problem.head_dim}"
    return f"{ALGORITHMS[trace.algorithm].label}, {shape}, {problem.dtype}, {problem.mask}"


def _steps(trace: Trace, first: np.ndarray, last: np.ndarray) -> dict:
    ends = last + 1
    requested = np.concatenate([np.zeros((1, len(trace.tensors)), np.int64), np.cumsum(trace.tensor_bytes_read + trace.tensor_bytes_written, axis=0)])
    per_step = requested[ends] - requested[first]
    classes, index = np.unique(per_step, axis=0, return_inverse=True)
    mean_share = np.concatenate([[0.0], np.cumsum(_row_mean(attention_share(trace), trace))])
    return {
        "count": len(first),
        "program": _encode(trace.program[first], "uint32"),
        "head": _encode(trace.batch_head[first], "uint32"),
        "q": _encode(trace.q_tile[first], "uint32"),
        "kv": _encode(trace.kv_tile[first], "int32"),
        "kv_end": _encode(trace.kv_tile[last] + 1, "int32"),
        "share": _encode(np.round(65535 * np.clip(mean_share[ends] - mean_share[first], 0, 1)), "uint16"),
        "byte_class": _encode(index.reshape(-1), "uint16"),
        "byte_classes": classes.tolist(),
    }


def _row_mean(values: np.ndarray, trace: Trace) -> np.ndarray:
    """Mean over the rows of each step that exist."""
    rows = np.minimum(trace.problem.q_len - trace.q_tile * trace.problem.block_m, trace.problem.block_m)
    return np.nansum(np.where(np.arange(values.shape[1]) < rows[:, None], values, 0), axis=1) / rows


def _rows(trace: Trace, last: np.ndarray) -> dict:
    """Row state after each drawn step, of every row or of evenly spaced ones."""
    stride = 1
    while len(last) * trace.problem.block_m // stride > MAX_ROW_VALUES and stride < trace.problem.block_m:
        stride *= 2
    picked = np.arange(0, trace.problem.block_m, stride)
    distance = None
    if trace.output_distance is not None:
        with np.errstate(divide="ignore"):
            log = np.log10(np.nan_to_num(trace.output_distance[last][:, picked], nan=1e-9, posinf=1e3))
        distance = _encode(np.round(65535 * (np.clip(log, -9, 3) + 9) / 12), "uint16")
    return {
        "offsets": picked.tolist(),
        "m": _encode(trace.row_max[last][:, picked], "float32"),
        "l": _encode(trace.row_sum[last][:, picked], "float32"),
        "alpha": _encode(np.round(65535 * np.nan_to_num(trace.alpha[last][:, picked], nan=1.0)), "uint16"),
        "distance": distance,
    }


def _clock(trace: Trace, first: np.ndarray, last: np.ndarray) -> dict | None:
    """Start and end in ns of each drawn step, and its SM; None without a GPU."""
    if trace.start_ns is None:
        return None
    return {
        "start": _encode(np.clip(trace.start_ns[first], 0, 2**32 - 1), "uint32"),
        "end": _encode(np.clip(trace.end_ns[last], 0, 2**32 - 1), "uint32"),
        "sm": _encode(trace.sm[first], "uint16"),
    }


def _tile_kinds(trace: Trace) -> np.ndarray:
    problem = trace.problem
    kinds = np.zeros((problem.q_tiles, problem.kv_tiles), np.uint8)
    for q_tile in range(problem.q_tiles):
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
    return base64.b64encode(np.ascontiguousarray(values, np.dtype(dtype).newbyteorder("<")).tobytes()).decode()
