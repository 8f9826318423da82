"""A saved trace from a file of the user, read without trusting the file."""

import numpy as np

from kernels.algorithms import algorithm_of
from kernels.check.files.uploads import InvalidUpload
from kernels.file_format import UnreadableFile, read_arrays
from kernels.problem import InvalidProblem
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm
from kernels.trace.key_parts import why_wrong_parts

MAX_FILE_BYTES, MAX_UNPACKED_BYTES = 256 << 20, 512 << 20
MAX_STEPS, MAX_GRID = 1 << 22, 1 << 26
CLOCK = {"sm": 1 << 16, "start_ns": 1 << 53, "end_ns": 1 << 53}
"""What a trace of a GPU has, and one past the largest number that is drawn."""
BYTES = ("tensor_bytes_read", "tensor_bytes_written")


def read_trace(data: bytes) -> Trace:
    """Read and check the file of a trace.

    Raises InvalidUpload, which says what was found, what is accepted and what to do.
    """
    if len(data) > MAX_FILE_BYTES:
        read = f"at most {MAX_FILE_BYTES / 1e6:,.0f} MB are read"
        raise InvalidUpload(
            f"The file has {len(data) / 1e6:,.0f} MB; {read}. Save a smaller problem's trace."
        )
    try:
        arrays = read_arrays(data, MAX_UNPACKED_BYTES)
        trace = Trace.from_arrays(arrays)
        algorithm = algorithm_of(trace)
    except (UnreadableFile, InvalidProblem) as error:
        raise InvalidUpload(
            f"This is not a trace that can be shown: {str(error).rstrip('.')}. Expected a file that "
            "“Trace (.npz)” on Explore or `Trace.save` of this version wrote."
        ) from error
    reason = (
        _why_wrong_header(trace, algorithm, arrays)
        or _why_out_of_range(trace, algorithm)
        or why_wrong_parts(trace, algorithm)
    )
    if reason:
        raise InvalidUpload(f"The trace is damaged: {reason}. Save it again.")
    return trace


def _why_wrong_header(trace: Trace, algorithm: Algorithm, arrays: dict[str, np.ndarray]) -> str:
    """What contradicts the algorithm, in words; "" if there is nothing.

    Floating-point values may be anything: a kernel may give NaN, and the player shows that.
    """
    kernels = tuple(kernel.name for kernel in algorithm.kernels)
    fields = sorted({field for kernel in algorithm.kernels for field in kernel.row_fields})
    clock = [name for name in CLOCK if getattr(trace, name) is not None]
    wrong = {
        "it holds other things than numbers": any(each.dtype.kind not in "iuf" for each in arrays.values()),
        f"its kernels are not those of {algorithm.label}": trace.kernels != kernels,
        "it does not say how each kernel was launched": len(trace.launches) != len(kernels),
        f"its tensors are not those of {algorithm.label}": set(trace.tensors)
        != {name for kernel in algorithm.kernels for name, _ in kernel.requests},
        f"it has {trace.steps:,} steps; from 1 to {MAX_STEPS:,} are shown": not 0 < trace.steps <= MAX_STEPS,
        **{f"it has no {field}": getattr(trace, field) is None for field in fields},
        "it does not say in which page each tile lies": algorithm.pool_pages and trace.page is None,
        "its clock is not whole": 0 < len(clock) < len(CLOCK),
        f"it has a clock, and its device has {trace.device.sm_count} SMs": clock
        and trace.device.sm_count < 1,
    }
    return next((words for words, is_wrong in wrong.items() if is_wrong), "")


def _why_out_of_range(trace: Trace, algorithm: Algorithm) -> str:
    problem = trace.problem
    rows = -(-algorithm.rows(problem) // problem.block_m)
    if rows * problem.kv_tiles > MAX_GRID:
        return f"it is about {rows * problem.kv_tiles:,} tiles; at most {MAX_GRID:,} are shown"
    ranges = {
        "kernel": (0, len(trace.kernels)),
        "program": (0, 1 << 31),
        "batch_head": (0, problem.key_heads if algorithm.packs_heads else problem.heads),
        "q_tile": (-1, rows),
        "kv_tile": (-1, problem.kv_tiles),
        **dict.fromkeys(BYTES, (0, 1 << 63)),
        **({"page": (-1, algorithm.pool_pages(trace.ran))} if algorithm.pool_pages else {}),
        **{name: (0, end) for name, end in CLOCK.items() if getattr(trace, name) is not None},
    }
    for name, (first, end) in ranges.items():
        values = getattr(trace, name)
        if not np.issubdtype(values.dtype, np.integer):
            return f"{name} does not hold whole numbers"
        if values.min() < first or values.max() >= end:
            return f"{name} has values outside of {first} to {end - 1}"
    if trace.sample and trace.sample.q_tiles and not np.isin(trace.q_tile, trace.sample.q_tiles).all():
        return "it has steps of query tiles that its sample does not name"
    unused = [name for number, name in enumerate(trace.kernels) if not (trace.kernel == number).any()]
    return f"it has no step of the kernel {unused[0]}" if unused else ""
