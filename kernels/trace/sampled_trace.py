"""Traces of parts of a run, put together as one trace: its heads, tiles and programs are the whole run's."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kernels.problem import AttentionProblem
from kernels.trace.algorithm import Algorithm
from kernels.trace.sample import Sample
from kernels.trace.trace import PER_ROW, PER_STEP, Trace

STEPWISE = (*PER_STEP, *PER_ROW, "tensor_bytes_read", "tensor_bytes_written", "acc")
BY_QUERY = ("output", "lse")
NO_CLOCK = dict.fromkeys(("sm", "start_ns", "end_ns"))
"""The launches of a sample do not say when its programs would run among all others."""


def of_query_tiles(problem: AttentionProblem, sample: Sample, trace_tile: Callable[[int], Trace]) -> Trace:
    """The trace of a sample of query tiles; `trace_tile` traces one tile of the heads, as their only tile.

    For kernels with a program per head and query tile, numbered by heads first.
    """
    wanted = sample.q_tiles or tuple(range(problem.q_tiles))
    traces = [trace_tile(tile) for tile in wanted]
    tiles = np.repeat(np.array(wanted, np.int32), [trace.steps for trace in traces])
    joined = {name: _joined(traces, name, 0) for name in STEPWISE}
    heads = np.array(sample.heads, np.int32)[np.concatenate([trace.batch_head for trace in traces])]
    program = heads * problem.q_tiles + tiles
    joined |= {"batch_head": heads, "q_tile": tiles, "program": program}
    order = np.argsort(program, kind="stable")
    steps = {name: None if values is None else values[order] for name, values in joined.items()}
    results = {name: _joined(traces, name, 2) for name in BY_QUERY}
    matrices = None
    if traces[0].matrices is not None:  # then all have them
        parts = [trace.matrices or {} for trace in traces]
        matrices = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
    own = steps | results | NO_CLOCK
    return replace(traces[0], problem=problem, sample=sample, matrices=matrices, **own)


def _joined(traces: list[Trace], name: str, axis: int) -> np.ndarray | None:
    parts = [getattr(trace, name) for trace in traces]
    return None if any(part is None for part in parts) else np.concatenate(parts, axis)


def of_heads(problem: AttentionProblem, algorithm: Algorithm, sample: Sample, part: Trace) -> Trace:
    """The trace of a sample of whole key heads, from the trace of a run of these heads alone.

    For kernels that number their programs by key heads first, or by tiles of packed heads.
    """
    key_heads = np.array(sample.key_heads(problem), np.int32)
    names = key_heads if algorithm.packs_heads else np.array(sample.heads, np.int32)
    program = part.program.copy()
    for kernel in np.unique(part.kernel):
        own = part.kernel == kernel
        outer = int(part.q_tile[own].max()) + 1 if algorithm.packs_heads else 1
        each = (int(program[own].max()) + 1) // (outer * len(key_heads))
        tile, rest = np.divmod(program[own], len(key_heads) * each)
        program[own] = (tile * problem.key_heads + key_heads[rest // each]) * each + rest % each
    own_steps = {"batch_head": names[part.batch_head], "program": program}
    return replace(part, problem=problem, sample=sample, **own_steps | NO_CLOCK)
