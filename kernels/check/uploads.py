"""Query, key, value and results computed elsewhere, read from .npz or .safetensors without trusting the file.

Nothing in a file is run: no pickle is loaded, sizes are read from the directory or header and checked before any array is made.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
import zipfile
import zlib
from dataclasses import dataclass

import numpy as np

from kernels.problem import AttentionProblem

MAX_FILE_BYTES = 64 << 20
MAX_UNPACKED_BYTES = 256 << 20
MAX_DIRECTORY_BYTES = 64 << 10
MAX_HEADER_BYTES = 1 << 20
MAX_TENSORS = 64

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
"""Our name of a tensor, and the names it may have in a file, whatever their case."""
_OURS = {alias: name for name, aliases in NAMES.items() for alias in aliases}

INPUT_DTYPES = ("float16", "bfloat16", "float32")
RESULT_DTYPES = (*INPUT_DTYPES, "float64")
SAFETENSORS_DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
ITEMSIZES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


class InvalidUpload(ValueError):
    """A file that is not taken; the message says what was found, what is accepted and what to do."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """An array with the name of its element type; bfloat16 is held as uint16 bit patterns, since NumPy has no such type."""

    dtype: str
    array: np.ndarray


_UNREAD = Tensor("float32", np.zeros(0, np.float32))
"""Stands for an array whose name means nothing here: its bytes are left alone."""


@dataclass(frozen=True, eq=False)
class Upload:
    """The tensors of one file by our names, the names that were not understood, and the SHA-256 of the file."""

    tensors: dict[str, Tensor]
    ignored: tuple[str, ...]
    digest: str

    @property
    def facts(self) -> UploadFacts:
        tensors = self.tensors
        gradients = all(name in tensors for name in ("d_query", "d_key", "d_value"))
        shapes = tensors["query"].array.shape, tensors["key"].array.shape
        return UploadFacts(
            *shapes,
            tensors["query"].dtype,
            tuple(tensors),
            "output" in tensors,
            gradients,
            self.ignored,
            self.digest,
        )


@dataclass(frozen=True)
class UploadFacts:
    """What a page needs to know of a file, without its arrays."""

    q_shape: tuple[int, ...]
    kv_shape: tuple[int, ...]
    dtype: str
    names: tuple[str, ...]
    has_output: bool
    has_gradients: bool
    ignored: tuple[str, ...]
    digest: str

    def problem(self, template: AttentionProblem) -> AttentionProblem:
        """The template with the shape and dtype of the file. Raises InvalidProblem for a shape that no kernel takes."""
        batch, q_heads, q_len, head_dim = self.q_shape
        _, kv_heads, kv_len, _ = self.kv_shape
        return template.with_(
            batch=batch,
            q_heads=q_heads,
            kv_heads=kv_heads,
            q_len=q_len,
            kv_len=kv_len,
            head_dim=head_dim,
            dtype=self.dtype,
            inputs="normal",
            seed=0,
        )


def read_upload(data: bytes) -> Upload:
    """Read and check a file; its kind is told from its bytes, not from its name. Raises InvalidUpload or InvalidProblem."""
    if not data:
        raise InvalidUpload("The file is empty. Expected an .npz or .safetensors file with Q, K and V.")
    if len(data) > MAX_FILE_BYTES:
        raise InvalidUpload(
            f"The file has {len(data) / 1e6:,.0f} MB; at most {MAX_FILE_BYTES / 1e6:,.0f} MB are read. Check a smaller problem."
        )
    if data[:6] == b"\x93NUMPY":
        raise InvalidUpload(
            "This is a single .npy array. Save Q, K and V together: numpy.savez(file, q=q, k=k, v=v)."
        )
    found = _read_npz(data) if data[:2] == b"PK" else _read_safetensors(data)
    tensors, ignored = {}, []
    for name, tensor in found.items():
        ours = _OURS.get(name.lower())
        if ours is None:
            ignored.append(name)
        elif ours in tensors:
            raise InvalidUpload(
                f"{_quoted(name)} is a second {ours}. Keep one of the names {', '.join(NAMES[ours])}."
            )
        else:
            tensors[ours] = tensor
    _check(tensors, found)
    upload = Upload(tensors, tuple(ignored), hashlib.sha256(data).hexdigest())
    upload.facts.problem(AttentionProblem())  # a shape that no kernel takes is refused here
    return upload


def _check(tensors: dict[str, Tensor], found: dict[str, Tensor]) -> None:
    for name in ("query", "key", "value"):
        if name not in tensors:
            names = ", ".join(_quoted(name) for name in found) or "nothing"
            raise InvalidUpload(
                f"There is no {name} in the file, which holds {names}. Name it {' or '.join(NAMES[name])}."
            )
    query, key = tensors["query"], tensors["key"]
    for name in ("query", "key", "value", "d_output"):
        if name in tensors and (tensors[name].dtype != query.dtype or query.dtype not in INPUT_DTYPES):
            raise InvalidUpload(
                f"{name} has dtype {tensors[name].dtype}; expected {', '.join(INPUT_DTYPES)}, the same for query, key, value and dO."
            )
    for name, tensor in tensors.items():
        rank = 3 if name == "lse" else 4
        if tensor.array.ndim != rank:
            axes = "(batch, heads, length)" if rank == 3 else "(batch, heads, length, head_dim)"
            raise InvalidUpload(
                f"{name} has shape {tensor.array.shape}; expected {axes}. Transpose or reshape it before saving."
            )
    q_shape, kv_shape = query.array.shape, key.array.shape
    if kv_shape[0] != q_shape[0] or kv_shape[3] != q_shape[3]:
        raise InvalidUpload(
            f"key has shape {kv_shape} and query {q_shape}; batch and head_dim must be the same."
        )
    shapes = {"value": kv_shape, "d_key": kv_shape, "d_value": kv_shape, "lse": q_shape[:3]}
    for name, tensor in tensors.items():
        expected = kv_shape if name == "key" else shapes.get(name, q_shape)
        if tensor.array.shape != expected:
            raise InvalidUpload(
                f"{name} has shape {tensor.array.shape}; expected {expected}, as {'key' if expected == kv_shape else 'query'} has."
            )
    gradients = [name for name in ("d_query", "d_key", "d_value") if name in tensors]
    if gradients and (len(gradients) < 3 or "d_output" not in tensors):
        raise InvalidUpload(
            f"The file has {', '.join(gradients)} alone; gradients are checked together: dO, dQ, dK and dV."
        )
    if gradients and "output" not in tensors:
        raise InvalidUpload("The file has gradients but no output. Save O beside them.")
    if "lse" in tensors and "output" not in tensors:
        raise InvalidUpload("The file has lse but no output. Save O beside it, or leave lse out.")


def _quoted(name: str) -> str:
    return repr(name if len(name) <= 40 else name[:40] + "…")


_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
    struct.error,
    SyntaxError,
    MemoryError,
)


def _read_npz(data: bytes) -> dict[str, Tensor]:
    _check_directory(data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            unpacked = sum(entry.file_size for entry in entries)
            if len(entries) > MAX_TENSORS:
                raise InvalidUpload(
                    f"The file holds {len(entries)} arrays; at most {MAX_TENSORS} are read. Save Q, K, V and results alone."
                )
            if unpacked > MAX_UNPACKED_BYTES:
                too_much = f"The file unpacks to {unpacked / 1e6:,.0f} MB; at most {MAX_UNPACKED_BYTES / 1e6:,.0f} MB are read"
                raise InvalidUpload(f"{too_much}. Check a smaller problem.")
            named = {entry.filename.removesuffix(".npy"): entry for entry in entries}
            return {
                name: _read_npy(archive, entry) if name.lower() in _OURS else _UNREAD
                for name, entry in named.items()
            }
    except InvalidUpload:
        raise
    except _ZIP_ERRORS as error:
        raise InvalidUpload(
            f"The .npz file is damaged or no .npz file: {_first_line(error)}. Save it again with numpy.savez."
        ) from error


def _check_directory(data: bytes) -> None:
    """The zip directory's own size, before zipfile builds an object for each of its entries."""
    end = data.rfind(b"PK\x05\x06", max(len(data) - 66_000, 0))
    if end < 0 or end + 22 > len(data):
        raise InvalidUpload(
            "The .npz file is cut off: it has no directory at its end. Save or copy it again."
        )
    (size,) = struct.unpack_from("<I", data, end + 12)
    if size > MAX_DIRECTORY_BYTES or data[max(end - 20, 0) : end].startswith(b"PK\x06\x07"):
        raise InvalidUpload(
            f"The .npz file's directory is larger than {MAX_DIRECTORY_BYTES:,} bytes. Save Q, K, V and results alone."
        )


def _read_npy(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Tensor:
    """One array. Its header is checked against the entry's size, so that no array is made larger than the file says."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InvalidUpload(
            f"{_quoted(entry.filename)} is packed by an unusual method. Save it again with numpy.savez."
        )
    with archive.open(entry) as stream:
        version = np.lib.format.read_magic(stream)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read_header is None:
            raise InvalidUpload(f"{_quoted(entry.filename)} has .npy version {version}; expected 1.0 or 2.0.")
        shape, fortran_order, dtype = read_header(stream)
        if dtype.hasobject:
            raise InvalidUpload(
                f"{_quoted(entry.filename)} holds Python objects, which only a pickle can load. Save plain float arrays."
            )
        if not isinstance(dtype, np.dtype) or dtype.kind != "f" or dtype.name not in ITEMSIZES:
            advice = "for bfloat16 use .safetensors" if dtype.kind == "V" else "convert it before saving"
            raise InvalidUpload(
                f"{_quoted(entry.filename)} has dtype {_quoted(str(dtype))}; expected {', '.join(RESULT_DTYPES)}; {advice}."
            )
        size = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or size > entry.file_size:
            raise InvalidUpload(
                f"{_quoted(entry.filename)} says it has shape {shape}, but the file has too few bytes for it."
            )
        raw = stream.read(size)
        if len(raw) != size:
            raise InvalidUpload(f"{_quoted(entry.filename)} is cut off. Save or copy the file again.")
        if stream.read(1):
            raise InvalidUpload(
                f"{_quoted(entry.filename)} has bytes after its array. Save it again with numpy.savez."
            )
    array = np.frombuffer(raw, dtype).reshape(shape, order="F" if fortran_order else "C")
    return Tensor(dtype.name, array.astype(dtype.newbyteorder("="), order="C"))


def _read_safetensors(data: bytes) -> dict[str, Tensor]:
    """The format: 8 bytes of header length, a JSON header, then the raw bytes (huggingface.co/docs/safetensors)."""
    if len(data) < 10 or data[8:9] != b"{":
        raise InvalidUpload(
            "This is neither an .npz nor a .safetensors file. Save with numpy.savez or safetensors.torch.save_file."
        )
    (length,) = struct.unpack_from("<Q", data)
    if length > min(MAX_HEADER_BYTES, len(data) - 8):
        raise InvalidUpload(
            f"The .safetensors header says it has {length:,} bytes; the file is cut off or damaged. Save or copy it again."
        )
    try:
        header = json.loads(data[8 : 8 + length].decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise InvalidUpload(
            f"The .safetensors header is no valid JSON: {_first_line(error)}. Save the file again."
        ) from error
    header.pop("__metadata__", None)
    if len(header) > MAX_TENSORS:
        raise InvalidUpload(
            f"The file holds {len(header)} tensors; at most {MAX_TENSORS} are read. Save Q, K, V and results alone."
        )
    body = memoryview(data)[8 + length :]
    return {
        name: _safetensor(name, entry, body) if name.lower() in _OURS else _UNREAD
        for name, entry in header.items()
    }


def _unique(pairs: list[tuple[str, object]]) -> dict:
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a name appears twice")
    return dict(pairs)


def _safetensor(name: str, entry: object, body: memoryview) -> Tensor:
    try:
        dtype, shape, (first, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        whole = [*shape, first, end]
    except (TypeError, KeyError, ValueError) as error:
        raise InvalidUpload(
            f"{_quoted(name)} has no dtype, shape and data_offsets in the header. Save the file again."
        ) from error
    if not isinstance(dtype, str) or dtype not in SAFETENSORS_DTYPES:
        raise InvalidUpload(
            f"{_quoted(name)} has dtype {_quoted(str(dtype))}; expected {', '.join(SAFETENSORS_DTYPES)}. Convert it before saving."
        )
    if any(isinstance(number, bool) or not isinstance(number, int) or number < 0 for number in whole):
        raise InvalidUpload(
            f"{_quoted(name)} has a shape or offset that is no whole number from 0. Save the file again."
        )
    ours = SAFETENSORS_DTYPES[dtype]
    if not first <= end <= len(body) or end - first != math.prod(shape) * ITEMSIZES[ours]:
        raise InvalidUpload(
            f"{_quoted(name)} has shape {_quoted(str(tuple(shape)))}, which its bytes in the file do not fit. The file is damaged."
        )
    stored = np.dtype("uint16" if ours == "bfloat16" else ours).newbyteorder("<")
    if len(shape) > 8:
        raise InvalidUpload(f"{_quoted(name)} has {len(shape)} dimensions; expected 4.")
    return Tensor(
        ours,
        np.frombuffer(body[first:end], stored).reshape(shape).astype(stored.newbyteorder("="), copy=True),
    )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]
