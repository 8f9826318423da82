"""Q, K, V and results from a file of the user, .npz or .safetensors: no pickle, and sizes are bounded."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import safetensors

from kernels.file_format import UnreadableFile, read_arrays
from kernels.problem import AttentionProblem

MAX_FILE_BYTES, MAX_UNPACKED_BYTES = 64 << 20, 256 << 20
SAVE_AGAIN = "Save it again with numpy.savez or safetensors.torch.save_file"
ONE_CALL = "Save tensors of one attention call"

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
NAME_OF_ALIAS = {alias: name for name, aliases in NAMES.items() for alias in aliases}
INPUTS = ("query", "key", "value")
GRADIENTS = ("d_query", "d_key", "d_value", "d_output")
BY_KEY = ("key", "value", "d_key", "d_value")
"""Tensors with a row per key."""

INPUT_DTYPES = ("float16", "bfloat16", "float32")
RESULT_DTYPES = (*INPUT_DTYPES, "float64")
OF_SAFETENSORS = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}


class InvalidUpload(ValueError):
    """A file that is not accepted; the message says what was found, what is accepted and what to do."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """An array and the name of its element type. NumPy has no bfloat16: it is held as uint16 bit patterns."""

    dtype: str
    array: np.ndarray


@dataclass(frozen=True, eq=False)
class Upload:
    """The tensors of one file by our names.

    query, output, d_query and d_output are (batch, q_heads, q_len, head_dim), key, value, d_key and d_value
    (batch, kv_heads, kv_len, head_dim), lse (batch, q_heads, q_len).
    """

    tensors: dict[str, Tensor]
    digest: str
    """SHA-256 of the file."""

    def problem(self, template: AttentionProblem) -> AttentionProblem:
        """The template with the shape and dtype of the file. Raises InvalidProblem if no kernel takes it."""
        query, key = (self.tensors[name].array.shape for name in ("query", "key"))
        shape = dict(zip(("batch", "q_heads", "q_len", "head_dim"), query, strict=True))
        keys, dtype = {"kv_heads": key[1], "kv_len": key[2]}, self.tensors["query"].dtype
        return template.with_(**shape, **keys, dtype=dtype, inputs="normal", seed=0)

    @property
    def words(self) -> str:
        """How the axes are read: heads and length may be taken for each other."""
        heads, length = self.tensors["query"].array.shape[1:3]
        return f"Read as (batch, heads, length, head_dim): {heads} heads of length {length}."


def read_upload(data: bytes) -> Upload:
    """Read and check a file; its first bytes tell its kind. Raises InvalidUpload or InvalidProblem."""
    if len(data) > MAX_FILE_BYTES:
        read = f"at most {MAX_FILE_BYTES / 1e6:,.0f} MB are read"
        raise InvalidUpload(f"The file has {len(data) / 1e6:,.0f} MB; {read}. Check a smaller problem.")
    try:
        found = [*(_npz(data) if data[:2] == b"PK" else _safetensors(data))]
    except (UnreadableFile, safetensors.SafetensorError, ValueError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise InvalidUpload(f"The file is damaged, or not accepted: {why}. {SAVE_AGAIN}.") from error
    tensors: dict[str, Tensor] = {}
    for name, tensor in found:
        ours = NAME_OF_ALIAS[name.lower()]
        if ours in tensors:
            raise InvalidUpload(f"{name!r} is a second {ours}. Keep one of {', '.join(NAMES[ours])}.")
        tensors[ours] = tensor
    _check(tensors)
    upload = Upload(tensors, hashlib.sha256(data).hexdigest())
    upload.problem(AttentionProblem())  # refuses a shape that no kernel takes
    return upload


def _npz(data: bytes) -> Iterator[tuple[str, Tensor]]:
    wanted = tuple(form for each in NAME_OF_ALIAS for form in (each, each.upper(), each.capitalize()))
    for name, array in read_arrays(data, MAX_UNPACKED_BYTES, wanted).items():
        native = array.astype(array.dtype.newbyteorder("="), order="C")
        yield name, Tensor(array.dtype.name, native)


def _safetensors(data: bytes) -> Iterator[tuple[str, Tensor]]:
    for name, entry in safetensors.deserialize(data):  # it compares all that the header claims with the size
        if name.lower() not in NAME_OF_ALIAS:
            continue
        if entry["dtype"] not in OF_SAFETENSORS:
            raise ValueError(f"{name} has dtype {entry['dtype']}, not one of {', '.join(OF_SAFETENSORS)}")
        dtype = OF_SAFETENSORS[entry["dtype"]]
        stored = np.dtype("uint16" if dtype == "bfloat16" else dtype).newbyteorder("<")
        array = np.frombuffer(entry["data"], stored).reshape(entry["shape"])
        yield name, Tensor(dtype, array.astype(stored.newbyteorder("="), copy=False))


def _check(tensors: dict[str, Tensor]) -> None:
    """Refuse tensors that are missing, of other types, or of other shapes than query and key ask for."""
    if missing := [name for name in INPUTS if name not in tensors]:
        also = f", by one of the names {', '.join(NAMES[missing[0]])}"
        raise InvalidUpload(f"There is no {missing[0]} in the file. Save it too{also}.")
    for name, tensor in tensors.items():
        accepted: tuple[str, ...] = RESULT_DTYPES
        if name in (*INPUTS, "d_output"):
            of_query = tensors["query"].dtype
            accepted = (of_query,) if of_query in INPUT_DTYPES else INPUT_DTYPES
        if tensor.dtype not in accepted:
            given = f"{name} has dtype {tensor.dtype}; expected {' or '.join(accepted)}"
            raise InvalidUpload(f"{given} (bfloat16 in .safetensors). Convert it before saving.")
    query, key = (tensors[name].array.shape for name in ("query", "key"))
    if not len(query) == len(key) == 4 or (key[0], key[3]) != (query[0], query[3]):
        same = "(batch, heads, length, head_dim) with the same batch and head_dim"
        raise InvalidUpload(f"query has shape {query} and key {key}; expected {same}. {ONE_CALL}.")
    for name, tensor in tensors.items():
        expected = query[:3] if name == "lse" else key if name in BY_KEY else query
        if tensor.array.shape != expected:
            given = f"{name} has shape {tensor.array.shape}; expected {expected}"
            raise InvalidUpload(f"{given}, from query and key. {ONE_CALL}.")
    gradients = [name for name in GRADIENTS[:3] if name in tensors]
    if gradients and not {*GRADIENTS} <= tensors.keys():
        given = f"The file has {', '.join(gradients)} but not all four of dO, dQ, dK and dV"
        raise InvalidUpload(f"{given}, which are checked together. Save all four.")
    if (gradients or "lse" in tensors) and "output" not in tensors:
        raise InvalidUpload("The file has lse or gradients but no output. Save O beside them.")
