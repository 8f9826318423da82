"""Q, K, V and results from a file of the user, .npz or .safetensors: no pickle, and sizes are bounded."""

import hashlib
import io
import zipfile
from dataclasses import dataclass

import numpy as np
import safetensors

from kernels.file_format import read_arrays
from kernels.problem import AttentionProblem

MAX_FILE_BYTES, MAX_UNPACKED_BYTES = 64 << 20, 256 << 20
MAX_TENSORS, MAX_HEADER_BYTES = 64, 1 << 20
DIRECTORY_ENTRY = b"PK\x01\x02"
"""How each entry of a zip directory begins. The readers make an object of each entry before anybody can count
them: a file of nothing else would take much memory."""
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

INPUT_DTYPES = ("float16", "bfloat16", "float32")
RESULT_DTYPES = (*INPUT_DTYPES, "float64")
OF_SAFETENSORS = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}

BHLD = "(batch, heads, length, head_dim)"
"""The axes of a file's tensors."""


class InvalidUpload(ValueError):
    """A file that is not accepted; the message says what was found, what is accepted and what to do."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """An array and the name of its element type. NumPy has no bfloat16: it is held as uint16 bit patterns."""

    dtype: str
    array: np.ndarray


@dataclass(frozen=True)
class UploadFacts:
    """What a page needs to know of a file, without its arrays."""

    q_shape: tuple[int, ...]
    kv_shape: tuple[int, ...]
    dtype: str
    names: tuple[str, ...]
    ignored: tuple[str, ...]
    """Names in the file that are unknown."""
    digest: str
    """SHA-256 of the file."""

    @property
    def doubt(self) -> str:
        """That heads and length may be taken for each other, in words; "" if there are fewer heads."""
        heads, length = self.q_shape[1:3]
        if heads <= length or self.kv_shape[1] <= self.kv_shape[2]:
            return ""
        shape = f"Read as {BHLD}: query has {heads} heads of length {length}"
        return f"{shape}. If that is wrong, save q.transpose(1, 2) and its like."

    @property
    def has_output(self) -> bool:
        return "output" in self.names

    def problem(self, template: AttentionProblem) -> AttentionProblem:
        """The template with the shape and dtype of the file. Raises InvalidProblem if no kernel takes it."""
        batch, q_heads, q_len, head_dim = self.q_shape
        shape = {"batch": batch, "q_heads": q_heads, "q_len": q_len, "head_dim": head_dim}
        keys = {"kv_heads": self.kv_shape[1], "kv_len": self.kv_shape[2]}
        return template.with_(**shape, **keys, dtype=self.dtype, inputs="normal", seed=0)


@dataclass(frozen=True, eq=False)
class Upload:
    """The tensors of one file by our names.

    query, output, d_query and d_output are (batch, q_heads, q_len, head_dim), key, value, d_key and d_value
    (batch, kv_heads, kv_len, head_dim), lse (batch, q_heads, q_len).
    """

    tensors: dict[str, Tensor]
    facts: UploadFacts


def read_upload(data: bytes) -> Upload:
    """Read and check a file; its first bytes tell its kind. Raises InvalidUpload or InvalidProblem."""
    tensors, ignored = _read_tensors(data)
    for name in ("query", "key", "value"):
        if name not in tensors:
            held = ", ".join(map(_quoted, (*tensors, *ignored))) or "nothing"
            raise InvalidUpload(
                f"There is no {name} in the file, which holds {held}. Name it {' or '.join(NAMES[name])}."
            )
    _check_dtypes(tensors)
    _check_results(tensors)
    shapes = {name: tensor.array.shape for name, tensor in tensors.items()}
    _check_shapes(shapes)
    digest = hashlib.sha256(data).hexdigest()
    dtype = tensors["query"].dtype
    facts = UploadFacts(shapes["query"], shapes["key"], dtype, tuple(tensors), ignored, digest)
    facts.problem(AttentionProblem())  # refuses a shape that no kernel takes
    return Upload(tensors, facts)


def _read_tensors(data: bytes) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The tensors by our names, and the names that are unknown, which are not read. Raises InvalidUpload."""
    if len(data) > MAX_FILE_BYTES:
        read = f"at most {MAX_FILE_BYTES / 1e6:,.0f} MB are read"
        raise InvalidUpload(f"The file has {len(data) / 1e6:,.0f} MB; {read}. Check a smaller problem.")
    if data[:6] == b"\x93NUMPY":
        together = "Save Q, K and V together: numpy.savez(file, q=q, k=k, v=v)"
        raise InvalidUpload(f"This is a single .npy array. {together}.")
    is_npz = data[:2] == b"PK"
    if not is_npz and data[8:9] != b"{":
        what = "neither an .npz nor a .safetensors file" if data else "an empty file"
        raise InvalidUpload(f"This is {what}. {SAVE_AGAIN}.")
    header_bytes = 0 if is_npz else int.from_bytes(data[:8], "little")
    if data.count(DIRECTORY_ENTRY) > MAX_TENSORS or MAX_HEADER_BYTES < header_bytes <= len(data):
        raise InvalidUpload(f"The file holds more than {MAX_TENSORS} arrays. Save only Q, K, V and results.")
    try:
        names, tensors = _npz(data) if is_npz else _safetensors(data)
    except Exception as error:  # the readers raise errors of many kinds for damaged bytes
        why = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise InvalidUpload(f"The file is damaged, or not accepted: {why}. {SAVE_AGAIN}.") from error
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        ours = _our_name(name) or ""
        if tensor.dtype not in RESULT_DTYPES:
            accepted = f"expected {', '.join(RESULT_DTYPES)} (bfloat16 in .safetensors)"
            given = f"{_quoted(name)} has dtype {_quoted(tensor.dtype)}"
            raise InvalidUpload(f"{given}; {accepted}. Convert it before saving.")
        if ours in found:
            names_of_it = ", ".join(NAMES[ours])
            raise InvalidUpload(f"{_quoted(name)} is a second {ours}. Keep one of the names {names_of_it}.")
        found[ours] = tensor
    return found, tuple(name for name in names if _our_name(name) is None)


def _our_name(name: str) -> str | None:
    return NAME_OF_ALIAS.get(name.lower())


def _quoted(name: str) -> str:
    return repr(name if len(name) <= 40 else name[:40] + "…")


def _npz(data: bytes) -> tuple[list[str], dict[str, Tensor]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    arrays = read_arrays(data, MAX_UNPACKED_BYTES, tuple(filter(_our_name, names)))
    native = {name: array.astype(array.dtype.newbyteorder("="), order="C") for name, array in arrays.items()}
    return names, {name: Tensor(array.dtype.name, array) for name, array in native.items()}


def _safetensors(data: bytes) -> tuple[list[str], dict[str, Tensor]]:
    entries = dict(safetensors.deserialize(data))  # it compares all that the header claims with the size
    tensors = {}
    for name in filter(_our_name, entries):
        entry = entries[name]  # its dtype, its shape, and its bytes as `data`
        dtype = OF_SAFETENSORS.get(entry["dtype"], entry["dtype"])
        tensors[name] = Tensor(dtype, np.zeros(0))
        if dtype in RESULT_DTYPES:
            stored = np.dtype("uint16" if dtype == "bfloat16" else dtype).newbyteorder("<")
            array = np.frombuffer(entry["data"], stored).reshape(entry["shape"])
            tensors[name] = Tensor(dtype, array.astype(stored.newbyteorder("="), copy=False))
    return list(entries), tensors


def _check_dtypes(tensors: dict[str, Tensor]) -> None:
    expected = tensors["query"].dtype
    accepted = f"expected {', '.join(INPUT_DTYPES)}, the same for query, key, value and dO"
    for name in ("query", "key", "value", "d_output"):
        if name in tensors and (tensors[name].dtype != expected or expected not in INPUT_DTYPES):
            given = f"{name} has dtype {tensors[name].dtype}"
            raise InvalidUpload(f"{given}; {accepted}. Convert it before saving.")


def _check_shapes(shapes: dict[str, tuple[int, ...]]) -> None:
    """Query and key alone decide what the others must be."""
    for name, shape in shapes.items():
        axes = "(batch, heads, length)" if name == "lse" else BHLD
        if len(shape) != axes.count(",") + 1:
            words = f"{name} has shape {shape}; expected {axes}. Transpose or reshape it before saving."
            raise InvalidUpload(words)
    query, key = shapes["query"], shapes["key"]
    if (key[0], key[3]) != (query[0], query[3]):
        same = "batch and head_dim must be the same"
        raise InvalidUpload(f"key has shape {key} and query {query}; {same}. {ONE_CALL}.")
    for name, shape in shapes.items():
        model = "key" if name in ("key", "value", "d_key", "d_value") else "query"
        expected = query[:3] if name == "lse" else shapes[model]
        if shape != expected:
            words = f"{name} has shape {shape}; expected {expected}, from the shape of {model}. {ONE_CALL}."
            raise InvalidUpload(words)


def _check_results(tensors: dict[str, Tensor]) -> None:
    gradients = [name for name in ("d_query", "d_key", "d_value") if name in tensors]
    if gradients and (len(gradients) < 3 or "d_output" not in tensors):
        given = f"The file has {', '.join(gradients)} but not all four of dO, dQ, dK and dV"
        raise InvalidUpload(f"{given}, which are checked together. Save all four.")
    if (gradients or "lse" in tensors) and "output" not in tensors:
        raise InvalidUpload("The file has lse or gradients but no output. Save O beside them.")
