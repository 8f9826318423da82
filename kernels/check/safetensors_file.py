"""Reads the tensors of a .safetensors file without trusting it.

The format is 8 bytes of header length, a JSON header and the tensors' bytes (https://huggingface.co/docs/safetensors).
The sizes that the file claims are checked here; then the `safetensors` library reads it.
"""

from __future__ import annotations

import json
import struct

import numpy as np
import safetensors

from kernels.check.file_rules import (
    UNREAD,
    InvalidUpload,
    Tensor,
    check_count,
    check_shape,
    first_line,
    our_name,
    quoted,
)
from kernels.file_format import Json

MAX_HEADER_BYTES = 1 << 20
DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
"""The types that Q, K, V and results may have, by their names in the format."""
SAVE_AGAIN = "Save the file again with safetensors.torch.save_file or safetensors.numpy.save_file."


def read_safetensors(data: bytes) -> dict[str, Tensor]:
    """The tensors by their names in the file; UNREAD for names that are unknown. Raises InvalidUpload."""
    names = _names(_header(data))
    check_count(len(names))
    try:
        entries = dict(safetensors.deserialize(data))
    except safetensors.SafetensorError as error:
        reason = first_line(error).removeprefix("Error while deserializing: ")
        raise InvalidUpload(f"The .safetensors file is damaged: {reason}. {SAVE_AGAIN}") from error
    return {name: _tensor(name, entries[name]) if our_name(name) else UNREAD for name in names}


def _header(data: bytes) -> bytes:
    """The bytes of the JSON header, after checking its length."""
    if len(data) < 10 or data[8:9] != b"{":
        raise InvalidUpload(
            "This is neither an .npz nor a .safetensors file. "
            "Save it with numpy.savez or safetensors.torch.save_file."
        )
    (length,) = struct.unpack_from("<Q", data)
    if length > len(data) - 8:
        raise InvalidUpload(
            f"The .safetensors header says it has {length:,} bytes, but only {len(data) - 8:,} follow: "
            "the file is cut off or damaged. Save or copy it again."
        )
    if length > MAX_HEADER_BYTES:
        raise InvalidUpload(
            f"The .safetensors header has {length:,} bytes; at most {MAX_HEADER_BYTES:,} are read. "
            "Save only Q, K, V and results."
        )
    return data[8 : 8 + length]


def _names(header: bytes) -> list[str]:
    """Names of the tensors in the header's order. The library would take a name that appears twice."""
    try:
        entries = json.loads(header.decode(), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise InvalidUpload(
            f"The .safetensors header is not valid JSON: {first_line(error)}. {SAVE_AGAIN}"
        ) from error
    return [name for name in entries if name != "__metadata__"]


def _without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a name appears twice")
    return dict(pairs)


def _tensor(name: str, entry: dict) -> Tensor:
    """`entry` is what the library gives for a tensor: its dtype, its shape, and its bytes as `data`."""
    dtype, shape = DTYPES.get(entry["dtype"]), tuple(entry["shape"])
    if dtype is None:
        raise InvalidUpload(
            f"{quoted(name)} has dtype {entry['dtype']}; expected {', '.join(DTYPES)}. "
            "Convert it before saving."
        )
    check_shape(name, shape)
    stored = np.dtype("uint16" if dtype == "bfloat16" else dtype).newbyteorder("<")
    array = np.frombuffer(entry["data"], stored).reshape(shape)
    return Tensor(dtype, array.astype(stored.newbyteorder("="), copy=False))
