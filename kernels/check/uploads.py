"""Q, K, V and results from a file of the user, .npz or .safetensors, read without trusting the file.

Nothing in a file is run: no pickle is loaded, and sizes are checked before any array is made.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from kernels.check.file_rules import (
    INPUT_DTYPES,
    MAX_FILE_BYTES,
    NAMES,
    InvalidUpload,
    Tensor,
    our_name,
    quoted,
)
from kernels.check.npz import read_npz
from kernels.check.safetensors_file import read_safetensors
from kernels.problem import AttentionProblem, InvalidProblem

AXES = ("bhld", "blhd")
AXES_WORDS = {"bhld": "(batch, heads, length, head_dim)", "blhd": "(batch, length, heads, head_dim)"}
"""Order of the axes of a file's tensors."""


@dataclass(frozen=True, eq=False)
class Upload:
    """The tensors of one file by our names, the names that are unknown, and the SHA-256 of the file.

    query, output, d_query and d_output are (batch, q_heads, q_len, head_dim), key, value, d_key and d_value
    (batch, kv_heads, kv_len, head_dim), lse (batch, q_heads, q_len).
    """

    tensors: dict[str, Tensor]
    ignored: tuple[str, ...]
    digest: str
    axes: str = AXES[0]
    """Order of the axes in the file; `tensors` have ours."""
    doubtful: bool = False
    """Whether both orders fit, and the lengths make the other one likely."""

    @property
    def facts(self) -> UploadFacts:
        """The same without the arrays."""
        query, key = self.tensors["query"], self.tensors["key"]
        return UploadFacts(
            q_shape=query.array.shape,
            kv_shape=key.array.shape,
            dtype=query.dtype,
            names=tuple(self.tensors),
            ignored=self.ignored,
            digest=self.digest,
            axes=self.axes,
            doubtful=self.doubtful,
        )


@dataclass(frozen=True)
class UploadFacts:
    """What a page needs to know of a file, without its arrays."""

    q_shape: tuple[int, ...]
    kv_shape: tuple[int, ...]
    dtype: str
    names: tuple[str, ...]
    ignored: tuple[str, ...]
    digest: str
    axes: str = AXES[0]
    doubtful: bool = False

    @property
    def axes_words(self) -> str:
        """How the axes were read, if it is not plain; else ""."""
        if self.doubtful:
            shape = f"query would be {self.q_shape[1]} heads of length {self.q_shape[2]}"
            return f"Read as {AXES_WORDS[self.axes]}: {shape}. If that is wrong, choose {AXES_WORDS['blhd']}."
        return f"Read as {AXES_WORDS[self.axes]}." if self.axes != AXES[0] else ""

    @property
    def has_output(self) -> bool:
        """Whether the file holds a result to check."""
        return "output" in self.names

    def problem(self, template: AttentionProblem) -> AttentionProblem:
        """The template with the shape and dtype of the file. Raises InvalidProblem if no kernel takes it."""
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


def read_upload(data: bytes, axes: str | None = None) -> Upload:
    """Read and check a file; its first bytes tell its kind.

    `axes` is the order of its axes; with None it is "bhld", unless only "blhd" fits. Raises InvalidUpload or
    InvalidProblem.
    """
    if not data:
        raise InvalidUpload("The file is empty. Expected an .npz or .safetensors file with Q, K and V.")
    if len(data) > MAX_FILE_BYTES:
        raise InvalidUpload(
            f"The file has {len(data) / 1e6:,.0f} MB; at most {MAX_FILE_BYTES / 1e6:,.0f} MB are read. "
            "Check a smaller problem."
        )
    if data[:6] == b"\x93NUMPY":
        raise InvalidUpload(
            "This is a single .npy array. Save Q, K and V together: numpy.savez(file, q=q, k=k, v=v)."
        )
    named = read_npz(data) if data[:2] == b"PK" else read_safetensors(data)
    tensors = _by_our_names(named)
    for name in ("query", "key", "value"):
        if name not in tensors:
            held = ", ".join(map(quoted, named)) or "nothing"
            raise InvalidUpload(
                f"There is no {name} in the file, which holds {held}. Name it {' or '.join(NAMES[name])}."
            )
    _check_dtypes(tensors)
    ignored = tuple(name for name in named if our_name(name) is None)
    upload = Upload(tensors, ignored, hashlib.sha256(data).hexdigest())
    if axes is not None:
        return _in_axes(upload, axes)
    try:
        return _in_axes(upload, AXES[0])
    except (InvalidUpload, InvalidProblem):
        try:
            return _in_axes(upload, AXES[1])
        except (InvalidUpload, InvalidProblem):
            return _in_axes(upload, AXES[0])  # its error is the one to show


def _in_axes(upload: Upload, axes: str) -> Upload:
    """The upload with its tensors in our order. Raises InvalidUpload or InvalidProblem."""
    tensors = upload.tensors
    if axes != AXES[0]:
        tensors = {name: _swapped(tensor) if name != "lse" else tensor for name, tensor in tensors.items()}
    _check_shapes(tensors)
    _check_results(tensors)
    found = replace(upload, tensors=tensors, axes=axes)
    found.facts.problem(AttentionProblem())  # refuses a shape that no kernel takes
    if axes != AXES[0]:
        return found
    many_heads = all(tensors[name].array.shape[1] > tensors[name].array.shape[2] for name in ("query", "key"))
    return replace(found, doubtful=many_heads and _fits_swapped(found))


def _swapped(tensor: Tensor) -> Tensor:
    if tensor.array.ndim != 4:
        return tensor
    return Tensor(tensor.dtype, np.ascontiguousarray(tensor.array.swapaxes(1, 2)))


def _fits_swapped(upload: Upload) -> bool:
    try:
        _in_axes(upload, AXES[1])
    except (InvalidUpload, InvalidProblem):
        return False
    return True


def _by_our_names(named: dict[str, Tensor]) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name, tensor in named.items():
        ours = our_name(name)
        if ours in tensors:
            raise InvalidUpload(
                f"{quoted(name)} is a second {ours}. Keep one of the names {', '.join(NAMES[ours])}."
            )
        if ours is not None:
            tensors[ours] = tensor
    return tensors


def _check_dtypes(tensors: dict[str, Tensor]) -> None:
    expected = tensors["query"].dtype
    for name in ("query", "key", "value", "d_output"):
        if name in tensors and (tensors[name].dtype != expected or expected not in INPUT_DTYPES):
            raise InvalidUpload(
                f"{name} has dtype {tensors[name].dtype}; expected {', '.join(INPUT_DTYPES)}, the same for "
                "query, key, value and dO. Convert it before saving."
            )


def _check_shapes(tensors: dict[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        axes = "(batch, heads, length)" if name == "lse" else "(batch, heads, length, head_dim)"
        if tensor.array.ndim != axes.count(",") + 1:
            raise InvalidUpload(
                f"{name} has shape {tensor.array.shape}; expected {axes}. "
                "Transpose or reshape it before saving."
            )
    q_shape, kv_shape = tensors["query"].array.shape, tensors["key"].array.shape
    if kv_shape[0] != q_shape[0] or kv_shape[3] != q_shape[3]:
        raise InvalidUpload(
            f"key has shape {kv_shape} and query {q_shape}; batch and head_dim must be the same. "
            "Save tensors of one attention call."
        )
    for name, tensor in tensors.items():
        model = "key" if name in ("key", "value", "d_key", "d_value") else "query"
        expected = kv_shape if model == "key" else q_shape[:3] if name == "lse" else q_shape
        if tensor.array.shape != expected:
            raise InvalidUpload(
                f"{name} has shape {tensor.array.shape}; expected {expected}, from the shape of {model}. "
                "Save tensors of one attention call."
            )


def _check_results(tensors: dict[str, Tensor]) -> None:
    gradients = [name for name in ("d_query", "d_key", "d_value") if name in tensors]
    if gradients and (len(gradients) < 3 or "d_output" not in tensors):
        raise InvalidUpload(
            f"The file has {', '.join(gradients)} but not all four of dO, dQ, dK and dV, "
            "which are checked together. Save all four."
        )
    if gradients and "output" not in tensors:
        raise InvalidUpload("The file has gradients but no output. Save O beside them.")
    if "lse" in tensors and "output" not in tensors:
        raise InvalidUpload("The file has lse but no output. Save O beside it, or leave lse out.")
