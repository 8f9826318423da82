"""A saved trace from a file of the user, read without trusting the file."""

from __future__ import annotations

import numpy as np

from kernels.algorithms import algorithm_of
from kernels.check.file_rules import InvalidUpload
from kernels.check.npz import read_numbers
from kernels.problem import InvalidProblem
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm
from kernels.trace.key_parts import why_wrong_parts
from kernels.trace.trace import InvalidTrace

MAX_FILE_BYTES = 256 << 20
MAX_UNPACKED_BYTES = 512 << 20
MAX_STEPS, MAX_GRID = 1 << 22, 1 << 26
WHERE = ("kernel", "program", "batch_head", "q_tile", "kv_tile")
"""What every trace has, in whole numbers, beside its bytes."""
CLOCK = {"sm": 1 << 16, "start_ns": 1 << 53, "end_ns": 1 << 53}
"""What a trace of a GPU has, in whole numbers too, and one past the largest number that is drawn."""
BYTES = ("tensor_bytes_read", "tensor_bytes_written")


def read_trace(data: bytes) -> Trace:
    """Read and check the file of a trace.

    Raises InvalidUpload, which says what was found, what is accepted and what to do.
    """
    if not data:
        raise InvalidUpload("The file is empty. Expected a trace, as Explore's “Trace (.npz)” saves it.")
    if len(data) > MAX_FILE_BYTES:
        raise InvalidUpload(
            f"The file has {len(data) / 1e6:,.0f} MB; at most {MAX_FILE_BYTES / 1e6:,.0f} MB are read. "
            "Save the trace of a smaller problem."
        )
    try:
        trace = Trace.from_arrays(read_numbers(data, MAX_UNPACKED_BYTES))
        algorithm = algorithm_of(trace)
    except (InvalidTrace, InvalidProblem) as error:
        why = str(error).rstrip(".")
        raise InvalidUpload(
            f"This is not a trace that can be shown: {why}. Expected a file that “Trace (.npz)” on Explore "
            "or `Trace.save` of this version wrote."
        ) from error
    if reason := _why_wrong(trace, algorithm):
        raise InvalidUpload(f"The trace is damaged: {reason}. Save it again.")
    return trace


def _why_wrong(trace: Trace, algorithm: Algorithm) -> str:
    """What contradicts itself, or the algorithm, in words; "" if there is nothing.

    Floating-point values may be anything: a kernel may give NaN, and the player shows that.
    """
    if trace.kernels != tuple(kernel.name for kernel in algorithm.kernels):
        return f"its kernels are not those of {algorithm.label}"
    numbers = [
        trace.device.sm_count,
        *(value for launch in trace.launches for value in vars(launch).values()),
    ]
    if len(trace.launches) != len(trace.kernels) or not all(type(number) is int for number in numbers):
        return "it does not say how each kernel was launched"
    texts = (
        trace.recorded_at,
        trace.device.name,
        trace.device.triton,
        trace.device.torch,
        trace.device.backend,
    )
    if not all(isinstance(text, str) for text in texts) or not all(
        isinstance(name, str) for name in trace.tensors
    ):
        return "its date, its device or its tensors are not text"
    if set(trace.tensors) != {name for kernel in algorithm.kernels for name, _ in kernel.requests}:
        return f"its tensors are not those of {algorithm.label}"
    return _why_wrong_arrays(trace, algorithm)


def _why_wrong_arrays(trace: Trace, algorithm: Algorithm) -> str:
    for name in (*WHERE, *BYTES):
        if not np.issubdtype(getattr(trace, name).dtype, np.integer):
            return f"{name} does not hold whole numbers"
    if not 0 < trace.steps <= MAX_STEPS:
        return f"it has {trace.steps:,} steps; from 1 to {MAX_STEPS:,} are shown"
    missing = [
        field for kernel in algorithm.kernels for field in kernel.row_fields if getattr(trace, field) is None
    ]
    if missing:
        return f"it has no {missing[0]}"
    problem = trace.problem
    rows = -(-algorithm.rows(problem) // problem.block_m)
    if rows * problem.kv_tiles > MAX_GRID:
        return f"it is about {rows * problem.kv_tiles:,} tiles; at most {MAX_GRID:,} are shown"
    heads = problem.key_heads if algorithm.packs_heads else problem.heads
    ends = {"kernel": (0, len(trace.kernels)), "program": (0, 1 << 31), "batch_head": (0, heads)}
    for name, (first, end) in (ends | {"q_tile": (-1, rows), "kv_tile": (-1, problem.kv_tiles)}).items():
        values = getattr(trace, name)
        if values.min() < first or values.max() >= end:
            return f"{name} has values outside of {first} to {end - 1}"
    if any((getattr(trace, name) < 0).any() for name in BYTES):
        return "it has negative bytes"
    if trace.sample and trace.sample.q_tiles and not np.isin(trace.q_tile, trace.sample.q_tiles).all():
        return "it has steps of query tiles that its sample does not name"
    unused = [name for number, name in enumerate(trace.kernels) if not (trace.kernel == number).any()]
    if unused:
        return f"it has no step of the kernel {unused[0]}"
    if reason := why_wrong_parts(trace, algorithm):
        return reason
    return _why_wrong_clock(trace)


def _why_wrong_clock(trace: Trace) -> str:
    clock = {name: values for name in CLOCK if (values := getattr(trace, name)) is not None}
    if clock and len(clock) < len(CLOCK):
        return "its clock is not whole"
    if clock and trace.device.sm_count < 1:
        return f"it has a clock, and its device has {trace.device.sm_count} SMs"
    for name, values in clock.items():
        if not np.issubdtype(values.dtype, np.integer):
            return f"{name} does not hold whole numbers"
        if values.min() < 0 or values.max() >= CLOCK[name]:
            return f"{name} has values outside of 0 to {CLOCK[name] - 1}"
    return ""
