"""Q, K, V and results from a file of the user, .npz or .safetensors, read without trusting the file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from kernels.check.files.tensors import (
    INPUT_DTYPES,
    MAX_FILE_BYTES,
    NAMES,
    InvalidUpload,
    Tensor,
    quoted,
    read_tensors,
)
from kernels.problem import AttentionProblem, InvalidProblem

AXES = ("bhld", "blhd")
AXES_WORDS = {"bhld": "(batch, heads, length, head_dim)", "blhd": "(batch, length, heads, head_dim)"}
"""Order of the axes of a file's tensors."""
ONE_CALL = "Save tensors of one attention call"


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
    axes: str = AXES[0]
    """Order of the axes in the file; the shapes here have ours."""
    doubtful: bool = False
    """Whether both orders fit, and the lengths make the other one likely."""

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
    tensors, ignored = read_tensors(data)
    for name in ("query", "key", "value"):
        if name not in tensors:
            held = ", ".join(map(quoted, (*tensors, *ignored))) or "nothing"
            raise InvalidUpload(
                f"There is no {name} in the file, which holds {held}. Name it {' or '.join(NAMES[name])}."
            )
    _check_dtypes(tensors)
    _check_results(tensors)
    digest, fitting, errors = hashlib.sha256(data).hexdigest(), [], []
    for order in AXES if axes != AXES[1] else [axes]:
        try:
            fitting.append(_in_axes(tensors, ignored, digest, order))
        except (InvalidUpload, InvalidProblem) as error:
            errors.append(error)
    if not fitting or axes not in (None, fitting[0].facts.axes):
        raise errors[0]
    (_, heads, length, _), (_, key_heads, key_length, _) = fitting[0].facts.q_shape, fitting[0].facts.kv_shape
    doubtful = len(fitting) > 1 and heads > length and key_heads > key_length
    return replace(fitting[0], facts=replace(fitting[0].facts, doubtful=doubtful))


def _in_axes(tensors: dict[str, Tensor], ignored: tuple[str, ...], digest: str, axes: str) -> Upload:
    """The upload with its tensors in our order. Raises InvalidUpload or InvalidProblem."""
    if axes != AXES[0]:
        tensors = {name: _swapped(tensor) for name, tensor in tensors.items()}
    _check_shapes(tensors)
    query, key = tensors["query"], tensors["key"]
    shapes = query.array.shape, key.array.shape
    facts = UploadFacts(*shapes, query.dtype, tuple(tensors), ignored, digest, axes)
    facts.problem(AttentionProblem())  # refuses a shape that no kernel takes
    return Upload(tensors, facts)


def _swapped(tensor: Tensor) -> Tensor:
    if tensor.array.ndim != 4:
        return tensor
    return Tensor(tensor.dtype, np.ascontiguousarray(tensor.array.swapaxes(1, 2)))


def _check_dtypes(tensors: dict[str, Tensor]) -> None:
    expected = tensors["query"].dtype
    for name in ("query", "key", "value", "d_output"):
        if name in tensors and (tensors[name].dtype != expected or expected not in INPUT_DTYPES):
            raise InvalidUpload(
                f"{name} has dtype {tensors[name].dtype}; expected {', '.join(INPUT_DTYPES)}, the same for "
                "query, key, value and dO. Convert it before saving."
            )


def _check_shapes(tensors: dict[str, Tensor]) -> None:
    """Query and key alone decide what the others must be."""
    shapes = {name: tensor.array.shape for name, tensor in tensors.items()}
    for name, shape in shapes.items():
        axes = "(batch, heads, length)" if name == "lse" else "(batch, heads, length, head_dim)"
        if len(shape) != axes.count(",") + 1:
            words = f"{name} has shape {shape}; expected {axes}. Transpose or reshape it before saving."
            raise InvalidUpload(words)
    query, key = shapes["query"], shapes["key"]
    if key[0] != query[0] or key[3] != query[3]:
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
        raise InvalidUpload(
            f"The file has {', '.join(gradients)} but not all four of dO, dQ, dK and dV, "
            "which are checked together. Save all four."
        )
    if (gradients or "lse" in tensors) and "output" not in tensors:
        raise InvalidUpload("The file has lse or gradients but no output. Save O beside them.")
