"""What an uploaded file may hold: sizes, names and types of tensors, and the error for all other files."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

MAX_FILE_BYTES = 64 << 20
MAX_TENSORS = 64
MAX_DIMENSIONS = 8
MAX_ELEMENTS = 128 << 20
"""Most elements of one tensor. An axis of length 0 counts as 1: NumPy refuses a shape such as (0, 2**63)."""

NAMES = {
    "query": ("q", "query"),
    "key": ("k", "key"),
    "value": ("v", "value"),
    "d_output": ("do", "dout", "d_out", "d_output", "grad_output", "grad_out"),
    "output": ("o", "out", "output"),
    "lse": ("lse", "softmax_lse", "logsumexp"),
    "d_query": ("dq", "d_query", "grad_query", "grad_q"),
    "d_key": ("dk", "d_key", "grad_key", "grad_k"),
    "d_value": ("dv", "d_value", "grad_value", "grad_v"),
}
"""Our name of each tensor, and the names that it may have in a file, in upper or lower case."""
_NAME_OF_ALIAS = {alias: name for name, aliases in NAMES.items() for alias in aliases}

INPUT_DTYPES = ("float16", "bfloat16", "float32")
RESULT_DTYPES = (*INPUT_DTYPES, "float64")


class InvalidUpload(ValueError):
    """A file that is not accepted; the message says what was found, what is accepted and what to do."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """An array and the name of its element type. NumPy has no bfloat16: it is held as uint16 bit patterns."""

    dtype: str
    array: np.ndarray


UNREAD = Tensor("float32", np.zeros(0, np.float32))
"""In place of an array whose name is not one of NAMES: its bytes are not read."""


def our_name(name: str) -> str | None:
    """Our name of the tensor that is called `name` in a file, or None if the name is unknown."""
    return _NAME_OF_ALIAS.get(name.lower())


def check_shape(name: str, shape: tuple[int, ...]) -> None:
    """Refuse a shape before an array of it is made. Raises InvalidUpload."""
    if len(shape) > MAX_DIMENSIONS:
        raise InvalidUpload(
            f"{quoted(name)} has {len(shape)} dimensions; expected 4 (lse: 3). Reshape it before saving."
        )
    if min(shape, default=0) < 0 or math.prod(max(length, 1) for length in shape) > MAX_ELEMENTS:
        raise InvalidUpload(
            f"{quoted(name)} has shape {quoted(str(shape))}; expected lengths from 0, and at most "
            f"{MAX_ELEMENTS:,} elements. Check a smaller problem, or save the file again if it is damaged."
        )


def check_count(count: int) -> None:
    """Refuse a file that holds too many tensors. Raises InvalidUpload."""
    if count > MAX_TENSORS:
        raise InvalidUpload(
            f"The file holds {count} tensors; at most {MAX_TENSORS} are read. Save only Q, K, V and results."
        )


def quoted(name: str) -> str:
    """A name from a file for a message: quoted, and cut if it is long."""
    return repr(name if len(name) <= 40 else name[:40] + "…")


def first_line(error: Exception) -> str:
    """The first line of an error's message, cut if it is long."""
    return (str(error).splitlines() or [type(error).__name__])[0][:120]
