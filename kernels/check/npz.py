"""Reads the arrays of an .npz file without trusting it: sizes are checked before any array is made."""

from __future__ import annotations

import contextlib
import io
import math
import struct
import zipfile
from collections.abc import Callable, Iterator

import numpy as np

from kernels.check.file_rules import (
    RESULT_DTYPES,
    UNREAD,
    InvalidUpload,
    Tensor,
    check_count,
    check_shape,
    first_line,
    our_name,
    quoted,
)

MAX_UNPACKED_BYTES = 256 << 20
MAX_DIRECTORY_BYTES = 64 << 10


def read_npz(data: bytes) -> dict[str, Tensor]:
    """The arrays by their names in the file; UNREAD for names that are unknown. Raises InvalidUpload."""
    with _opened(data) as archive:
        entries = _entries(archive, MAX_UNPACKED_BYTES)
        return {
            name: _read_tensor(archive, entry) if our_name(name) else UNREAD
            for name, entry in entries.items()
        }


def read_numbers(data: bytes, max_unpacked_bytes: int) -> dict[str, np.ndarray]:
    """All arrays of numbers by their names in the file. Raises InvalidUpload."""
    with _opened(data) as archive:
        entries = _entries(archive, max_unpacked_bytes)
        return {name: _read_array(archive, entry, _check_number) for name, entry in entries.items()}


@contextlib.contextmanager
def _opened(data: bytes) -> Iterator[zipfile.ZipFile]:
    _check_directory_size(data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield archive
    except InvalidUpload:
        raise
    except Exception as error:  # zipfile and NumPy raise errors of many kinds for damaged bytes
        raise InvalidUpload(
            f"The .npz file is damaged or not an .npz file: {first_line(error)}. "
            "Save it again with numpy.savez."
        ) from error


def _check_directory_size(data: bytes) -> None:
    """Check the size of the zip directory before zipfile builds an object for each of its entries."""
    end = data.rfind(b"PK\x05\x06", max(len(data) - 66_000, 0))
    if end < 0 or end + 22 > len(data):
        raise InvalidUpload(
            "The .npz file is cut off: it has no directory at its end. Save or copy it again."
        )
    (size,) = struct.unpack_from("<I", data, end + 12)
    if size > MAX_DIRECTORY_BYTES or data[max(end - 20, 0) : end].startswith(b"PK\x06\x07"):
        raise InvalidUpload(
            f"The .npz file's directory is larger than {MAX_DIRECTORY_BYTES:,} bytes. "
            "Save only Q, K, V and results."
        )


def _entries(archive: zipfile.ZipFile, max_unpacked_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """The archive's entries by array name, after checking how many there are and what they unpack to."""
    entries = archive.infolist()
    check_count(len(entries))
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > max_unpacked_bytes:
        raise InvalidUpload(
            f"The file unpacks to {unpacked / 1e6:,.0f} MB; at most {max_unpacked_bytes / 1e6:,.0f} MB are "
            "read. Check a smaller problem."
        )
    named = {entry.filename.removesuffix(".npy"): entry for entry in entries}
    if len(named) < len(entries):
        raise InvalidUpload("The .npz file holds a name twice. Save it again with numpy.savez.")
    return named


def _read_tensor(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Tensor:
    array = _read_array(archive, entry, _check_dtype)
    return Tensor(array.dtype.name, array)


def _read_array(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, check_dtype: Callable[[str, np.dtype], None]
) -> np.ndarray:
    """One array. Its header is compared with the entry's size before an array of that size is made."""
    name = quoted(entry.filename)
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InvalidUpload(f"{name} is packed by an unusual method. Save it again with numpy.savez.")
    with archive.open(entry) as stream:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, fortran_order, dtype = np.lib.format.read_array_header_2_0(stream)
        else:
            raise InvalidUpload(
                f"{name} has .npy version {version}; expected 1.0 or 2.0. Save it again with numpy.savez."
            )
        check_dtype(name, dtype)
        check_shape(entry.filename, shape)
        size = math.prod(shape) * dtype.itemsize
        if size > entry.file_size:
            raise InvalidUpload(
                f"{name} says it has shape {shape}, but the file has too few bytes for it. "
                "Save or copy the file again."
            )
        raw = stream.read(size)
        if len(raw) != size:
            raise InvalidUpload(f"{name} is cut off. Save or copy the file again.")
        if stream.read(1):
            raise InvalidUpload(f"{name} has bytes after its array. Save it again with numpy.savez.")
    array = np.frombuffer(raw, dtype).reshape(shape, order="F" if fortran_order else "C")
    return array.astype(dtype.newbyteorder("="), order="C")


def _check_number(name: str, dtype: np.dtype) -> None:
    if dtype.kind not in "iuf":
        raise InvalidUpload(
            f"{name} has dtype {quoted(str(dtype))}; expected whole or floating-point numbers."
        )


def _check_dtype(name: str, dtype: np.dtype) -> None:
    if dtype.hasobject:
        raise InvalidUpload(
            f"{name} holds Python objects, which only a pickle can load. Save plain float arrays."
        )
    if dtype.kind != "f" or dtype.name not in RESULT_DTYPES:
        advice = "For bfloat16 use .safetensors" if dtype.kind == "V" else "Convert it before saving"
        raise InvalidUpload(
            f"{name} has dtype {quoted(str(dtype))}; expected {', '.join(RESULT_DTYPES)}. {advice}."
        )
