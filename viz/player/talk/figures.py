"""Numbers for the words of a scene, taken from its run: "{steps} tile steps" becomes "136 tile steps"."""

import string

import numpy as np

from kernels.algorithms import algorithm_of
from kernels.algorithms.standard.traffic import standard_requested
from kernels.device.gpus import Gpu
from kernels.measure.measurement import Measurement, ratio_to_naive
from kernels.trace import Trace
from kernels.trace.algorithm import FLASH_ATTENTION, Algorithm
from viz.player.selection import is_large
from viz.player.tiles import KIND_CODES, tile_kinds
from viz.shared.formats import format_bytes, format_kib, format_ms, significant

PROBLEM_FIELDS = ("q_len", "kv_len", "head_dim", "block_m", "block_n", "q_heads", "kv_heads", "kv_splits")


class UnknownFigure(ValueError):
    """A name in braces that the run has no number for."""


def run_figures(trace: Trace, gpu: Gpu, measurement: Measurement | None) -> dict[str, str]:
    """Name to text of every number of a run: counted, modelled (standard attention), and measured times."""
    problem, algorithm = trace.problem, algorithm_of(trace)
    read, written = int(trace.tensor_bytes_read.sum()), int(trace.tensor_bytes_written.sum())
    standard = standard_requested(problem, algorithm.direction)
    figures = {name: f"{getattr(problem, name):,}" for name in PROBLEM_FIELDS}
    figures |= {
        "steps": f"{trace.steps:,}",
        "kernels": f"{len(trace.kernels)}",
        "q_tiles": f"{problem.q_tiles:,}",
        "kv_tiles": f"{problem.kv_tiles:,}",
        "bytes": format_bytes(read + written),
        "read": format_bytes(read),
        "written": format_bytes(written),
        "standard_bytes": format_bytes(standard),
        "standard_ratio": significant(standard / (read + written), 2),
        "matrix_bytes": format_bytes(problem.heads * problem.q_len * problem.kv_len * problem.itemsize),
        "on_chip": format_kib(algorithm.chip_bytes(problem)),
        "sms": f"{gpu.sm_count:,}",
        "gpu": gpu.name,
        "device": trace.device.name,
    }
    if not algorithm.persistent:  # else the trace does not tell them
        programs = np.unique(np.stack([trace.kernel, trace.program]), axis=1)
        figures["programs"] = f"{programs.shape[1]:,}"
    for index, name in enumerate(trace.tensors):
        moved = trace.tensor_bytes_read[:, index].sum() + trace.tensor_bytes_written[:, index].sum()
        figures[f"bytes_{name.replace(' ', '_')}"] = format_bytes(int(moved))
    for memory, limit in gpu.program_limits.items():
        name = memory.replace(" ", "_")
        figures[name] = format_kib(algorithm.chip_bytes(problem, memory))
        figures[f"{name}_limit"] = format_kib(limit)
    return figures | _tiles(trace) | _rescales(trace) | _times(measurement, algorithm)


def _tiles(trace: Trace) -> dict[str, str]:
    if is_large(trace.problem):
        return {}
    kinds = tile_kinds(trace.problem, algorithm_of(trace))
    skipped, masked, full, _ = np.bincount(kinds.ravel(), minlength=len(KIND_CODES)).tolist()
    return {
        "tiles": f"{kinds.size:,}",
        "visited_tiles": f"{kinds.size - skipped:,}",
        "skipped_tiles": f"{skipped:,}",
        "masked_tiles": f"{masked:,}",
        "full_tiles": f"{full:,}",
        "skipped_percent": f"{100 * skipped / kinds.size:.0f} %",
    }


def _rescales(trace: Trace) -> dict[str, str]:
    """How often a row's sums shrink after its first tile: alpha is below 1 although something was summed."""
    if trace.alpha is None:
        return {}
    later = trace.alpha[trace.alpha > 0]
    return {"rescaled_percent": f"{100 * (later < 1).mean() if later.size else 0:.0f} %"}


def _times(measurement: Measurement | None, algorithm: Algorithm) -> dict[str, str]:
    """Recorded times and peaks: our kernel as Explore's cards time it, the public call, naive attention."""
    if measurement is None:
        return {}
    figures = {}
    peers = {"naive": "naive", "sdpa_flash": "sdpa_flash", "flash_attention": FLASH_ATTENTION.peer}
    peers |= {"ours": algorithm.timed_as.peer} if algorithm.timed_as.peer != "naive" else {}
    named = {name: measurement.result(peer, algorithm.direction) for name, peer in peers.items()}
    for name, result in named.items():
        if result and result.timing:
            figures[f"{name}_time"] = format_ms(result.timing.median_ms)
        if result and result.peak_extra_bytes is not None:
            figures[f"{name}_memory"] = format_bytes(result.peak_extra_bytes)
    ours, naive = named.get("ours"), named["naive"]
    ratio = ratio_to_naive(ours, naive) if ours and naive else None
    if ratio and ratio.is_usable:
        figures["naive_ratio"] = f"{significant(ratio.low, 2)} to {significant(ratio.high, 2)}"
    return figures


def filled(words: str, figures: dict[str, str]) -> str:
    """Words with the names in braces replaced, without line breaks in numbers. Raises UnknownFigure."""
    try:
        found = [each[1:] for each in string.Formatter().parse(words) if each[1] is not None]
    except ValueError as error:
        raise UnknownFigure(f"{words[:60]!r}: {error}; write a brace itself as {{{{ or }}}}") from None
    for name, form, conversion in found:
        if form or conversion:
            raise UnknownFigure(f"{name!r} has more than a name in its braces; expected {{name}} alone")
        if name not in figures:
            known = ", ".join(sorted(figures))
            raise UnknownFigure(f"{{{name}}} is not a number of this run; expected one of {known}")
    return words.format_map({name: text.replace(" ", "\N{NO-BREAK SPACE}") for name, text in figures.items()})
