"""Attention with 8-bit inputs, emulated in NumPy: one scale per tensor or block, rotated or not.

Shah et al. 2024, section 3.3 (block quantization and incoherent processing) and 4.3 (the test with outliers).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from kernels.lessons.softmax import softmax

E4M3_MAX = 448.0
"""Largest finite number of the format (OCP 2023)."""
E4M3_MANTISSA_BITS, E4M3_MIN_EXPONENT = 3, -6
P_SCALE = 256.0
"""FlashAttention-3 multiplies P, at most 1, by 2^8 before rounding, so that small weights do not vanish."""

HEAD_DIMS = (16, 32, 64, 128)
LENGTHS = (32, 1024)


@dataclass(frozen=True)
class OutlierInputs:
    """Q, K and V (heads, length, head_dim): standard normal numbers with outliers.

    A share of the entries, `outlier_share`, gets a normal number of standard deviation `outlier_size` added.
    Shah et al. 2024, section 4.3, use a share of 0.001 and a deviation of 10.
    """

    length: int = 512
    head_dim: int = 64
    outlier_share: float = 0.001
    outlier_size: float = 10.0
    seed: int = 0
    heads: int = 4

    def draw(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The seeded inputs, float64."""
        rng = np.random.default_rng(self.seed)
        return self._draw_tensor(rng), self._draw_tensor(rng), self._draw_tensor(rng)

    def _draw_tensor(self, rng: np.random.Generator) -> np.ndarray:
        shape = (self.heads, self.length, self.head_dim)
        normal = rng.standard_normal(shape)
        outliers = self.outlier_size * rng.standard_normal(shape)
        return normal + outliers * (rng.random(shape) < self.outlier_share)


def round_e4m3(numbers: np.ndarray) -> np.ndarray:
    """Nearest number of the 8-bit format e4m3 (sign, 4 bits of exponent, 3 of mantissa), as float64.

    Ties go to even; magnitudes over 448 become 448.
    """
    clipped = np.clip(numbers, -E4M3_MAX, E4M3_MAX)
    exponent = np.maximum(np.frexp(clipped)[1] - 1, E4M3_MIN_EXPONENT)
    quantum = np.ldexp(1.0, exponent - E4M3_MANTISSA_BITS)
    return np.round(clipped / quantum) * quantum


def quantize(matrix: np.ndarray, rows_in_block: int | None) -> np.ndarray:
    """Round (heads, rows, columns) to e4m3 after scaling the largest magnitude to 448.

    One scale per head and block of `rows_in_block` rows, or one for the whole tensor if that is None.
    """
    if rows_in_block is None:
        scale = np.abs(matrix).max() / E4M3_MAX or 1.0
        return round_e4m3(matrix / scale) * scale
    rounded = np.empty_like(matrix)
    for first in range(0, matrix.shape[1], rows_in_block):
        rows = slice(first, first + rows_in_block)
        scale = np.abs(matrix[:, rows]).max(axis=(1, 2), keepdims=True) / E4M3_MAX
        scale[scale == 0] = 1.0
        rounded[:, rows] = round_e4m3(matrix[:, rows] / scale) * scale
    return rounded


def random_rotation(head_dim: int, seed: int) -> np.ndarray:
    """Orthogonal (head_dim, head_dim): random signs, then the Hadamard matrix over sqrt(head_dim).

    head_dim is a power of two. A GPU needs head_dim log2(head_dim) additions per row, not a matrix product.
    """
    hadamard = np.ones((1, 1))
    while len(hadamard) < head_dim:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    signs = np.random.default_rng((seed, 2)).choice([-1.0, 1.0], head_dim)
    return signs[:, None] * hadamard / np.sqrt(head_dim)


def attention(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
    """softmax(Q K^T / sqrt(d)) V in float64."""
    return softmax(query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])) @ value


def attention_e4m3(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The same with P rounded to e4m3 before PV, since both products have 8-bit inputs; sums are exact."""
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return round_e4m3(P_SCALE * weights) / P_SCALE @ value / weights.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class PrecisionResult:
    """Error of one way to round the inputs, against float64."""

    label: str
    rmse: float
    largest: float


@functools.lru_cache(maxsize=32)
def compare(inputs: OutlierInputs, rows_in_block: int) -> tuple[PrecisionResult, ...]:
    """float16, then e4m3 with one scale per tensor, one per block, and both again with Q and K rotated."""
    query, key, value = inputs.draw()
    exact = attention(query, key, value)
    rotation = random_rotation(inputs.head_dim, inputs.seed)
    ways = {
        "float16": attention(
            *(tensor.astype(np.float16).astype(np.float64) for tensor in (query, key, value))
        )
    }
    for rotated in (False, True):
        q, k = (query @ rotation, key @ rotation) if rotated else (query, key)
        for block, scale in ((None, "one scale per tensor"), (rows_in_block, "one scale per block")):
            label = f"e4m3, {scale}{', rotated' if rotated else ''}"
            ways[label] = attention_e4m3(*(quantize(tensor, block) for tensor in (q, k, value)))
    return tuple(
        PrecisionResult(label, float(np.sqrt(((got - exact) ** 2).mean())), float(np.abs(got - exact).max()))
        for label, got in ways.items()
    )


@functools.lru_cache(maxsize=32)
def loudest_row(inputs: OutlierInputs) -> tuple[int, np.ndarray, np.ndarray]:
    """(row, the row of K of head 0 with the largest entry, the same row rotated), each (head_dim,)."""
    key = inputs.draw()[1][0]
    row = int(np.abs(key).max(axis=1).argmax())
    return row, key[row], key[row] @ random_rotation(inputs.head_dim, inputs.seed)
