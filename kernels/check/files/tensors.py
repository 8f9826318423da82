"""The named tensors of a file of the user, .npz or .safetensors. No pickle is loaded; sizes are bounded."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass

import numpy as np
import safetensors

from kernels.file_format import read_arrays

MAX_FILE_BYTES, MAX_UNPACKED_BYTES = 64 << 20, 256 << 20
MAX_TENSORS, MAX_HEADER_BYTES = 64, 1 << 20
DIRECTORY_ENTRY = b"PK\x01\x02"
"""How each entry of a zip directory begins. The readers make an object of each entry before anybody can count
them: a file of nothing else would take much memory."""
SAVE_AGAIN = "Save it again with numpy.savez or safetensors.torch.save_file"

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
OF_SAFETENSORS = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}


class InvalidUpload(ValueError):
    """A file that is not accepted; the message says what was found, what is accepted and what to do."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """An array and the name of its element type. NumPy has no bfloat16: it is held as uint16 bit patterns."""

    dtype: str
    array: np.ndarray


def our_name(name: str) -> str | None:
    """Our name of the tensor that is called `name` in a file, or None if the name is unknown."""
    return _NAME_OF_ALIAS.get(name.lower())


def quoted(name: str) -> str:
    """A name from a file for a message: quoted, and cut if it is long."""
    return repr(name if len(name) <= 40 else name[:40] + "…")


def read_tensors(data: bytes) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The tensors by our names, and the names that are unknown, which are not read. Raises InvalidUpload."""
    is_npz = data[:2] == b"PK"
    if not is_npz and data[8:9] != b"{":
        raise InvalidUpload(f"This is neither an .npz nor a .safetensors file. {SAVE_AGAIN}.")
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
        ours = our_name(name) or ""
        if tensor.dtype not in RESULT_DTYPES:
            accepted = f"expected {', '.join(RESULT_DTYPES)} (bfloat16 in .safetensors)"
            raise InvalidUpload(
                f"{quoted(name)} has dtype {quoted(tensor.dtype)}; {accepted}. Convert it before saving."
            )
        if ours in found:
            raise InvalidUpload(
                f"{quoted(name)} is a second {ours}. Keep one of the names {', '.join(NAMES[ours])}."
            )
        found[ours] = tensor
    return found, tuple(name for name in names if our_name(name) is None)


def _npz(data: bytes) -> tuple[list[str], dict[str, Tensor]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    arrays = read_arrays(data, MAX_UNPACKED_BYTES, tuple(filter(our_name, names)))
    native = {name: array.astype(array.dtype.newbyteorder("="), order="C") for name, array in arrays.items()}
    return names, {name: Tensor(array.dtype.name, array) for name, array in native.items()}


def _safetensors(data: bytes) -> tuple[list[str], dict[str, Tensor]]:
    entries = dict(safetensors.deserialize(data))  # it compares all that the header claims with the size
    return list(entries), {name: _tensor(entry) for name, entry in entries.items() if our_name(name)}


def _tensor(entry: dict) -> Tensor:
    """`entry` is what the library gives for a tensor: its dtype, its shape, and its bytes as `data`."""
    dtype = OF_SAFETENSORS.get(entry["dtype"], entry["dtype"])
    if dtype not in RESULT_DTYPES:
        return Tensor(dtype, np.zeros(0))
    stored = np.dtype("uint16" if dtype == "bfloat16" else dtype).newbyteorder("<")
    array = np.frombuffer(entry["data"], stored).reshape(entry["shape"])
    return Tensor(dtype, array.astype(stored.newbyteorder("="), copy=False))
