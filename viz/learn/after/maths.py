"""The numbers of the last chapter: split keys, clocks of units, overlap, late rescales, 2^x, 8-bit inputs.

Split keys: Dao et al. 2023; the plan of programs is a model. Clocks, modelled: with every generation of GPUs
the tensor cores get faster, and exponentials do not keep up (Shah et al. 2024, section 3; Zadouri et al.
2026). Late rescales and 2^x by a polynomial: Zadouri et al. 2026, "conditional softmax rescaling" and
"software-emulated exponential". 8-bit inputs: Shah et al. 2024, section 3.3 (block quantization and
incoherent processing) and 4.3 (the test with outliers), emulated in NumPy.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from kernels.problem.tiles import PROGRAMS_PER_SM, split_evenly, splits_to_fill
from kernels.trace.ranks import RanksTrace
from viz.learn.softmax.maths import attention, first_head, log_sum_exp, softmax

ROW_TILE = 16
"""Fewest packed rows of one program: the smallest tile of the tensor cores."""


@dataclass(frozen=True, eq=False)
class SplitRow:
    """One query's attention in parts, and merged. Arrays are (parts,) or (parts, head_dim), float64."""

    row_max: np.ndarray
    row_sum: np.ndarray
    outputs: np.ndarray
    """Each part's own softmax times its values."""
    lse_of_part: np.ndarray
    lse: float
    weights: np.ndarray
    """exp(lse of the part - lse), which add up to 1."""
    error: float
    """Largest difference of the parts, merged by their weights, from the row computed whole."""
    mean_error: float
    """The same for the plain mean of the parts."""


@functools.lru_cache(maxsize=8)
def split_row(row: AttentionProblem, splits: int) -> SplitRow:
    """Split the keys of one query of one head into `splits` parts of whole key tiles.

    There are fewer parts if one would be empty. The numbers are the kernel's inputs, in float16.
    """
    query, key, value = (array.astype(np.float16).astype(np.float64) for array in first_head(row))
    scores = key @ query[0] * row.scale
    count, tiles_per_split = split_evenly(row.kv_tiles, splits)
    size = tiles_per_split * row.block_n
    parts = tuple(slice(part * size, min((part + 1) * size, row.kv_len)) for part in range(count))
    row_max = np.array([scores[part].max() for part in parts])
    lse_of_part = np.array([log_sum_exp(scores[part]) for part in parts])
    outputs = np.stack([softmax(scores[part]) @ value[part] for part in parts])
    lse = float(log_sum_exp(lse_of_part))
    weights = np.exp(lse_of_part - lse)
    whole = softmax(scores) @ value
    error, mean_error = (
        float(np.abs(got - whole).max()) for got in (weights @ outputs, outputs.mean(axis=0))
    )
    row_sum = np.exp(lse_of_part - row_max)
    return SplitRow(row_max, row_sum, outputs, lse_of_part, lse, weights, error, mean_error)


@dataclass(frozen=True)
class Occupancy:
    """How splits fill a GPU. Modelled: PROGRAMS_PER_SM at once, and all key tiles take the same time."""

    splits: int
    tiles_per_split: int
    programs: int
    sm_count: int

    @property
    def waves(self) -> int:
        """How often the GPU is filled until all programs have run."""
        return math.ceil(self.programs / (PROGRAMS_PER_SM * self.sm_count))

    @property
    def tile_steps(self) -> int:
        """Key tiles in a row until the last program ends."""
        return self.waves * self.tiles_per_split


def dealt(programs: int, sm_count: int) -> np.ndarray:
    """int (sm_count,): programs of each SM in the first wave, at most PROGRAMS_PER_SM each, dealt in turn."""
    return np.bincount(np.arange(min(programs, PROGRAMS_PER_SM * sm_count)) % sm_count, minlength=sm_count)


def occupancy(problem: AttentionProblem, sm_count: int, splits: int = 0) -> Occupancy:
    """With `splits` parts of each tile of packed rows; 0: as many as the kernel's rule, splits_to_fill."""
    programs = problem.key_heads * math.ceil(problem.packed_rows / max(problem.block_m, ROW_TILE))
    wanted = splits or splits_to_fill(programs, problem.kv_tiles, sm_count)
    parts, tiles_per_split = split_evenly(problem.kv_tiles, min(wanted, problem.kv_tiles))
    return Occupancy(parts, tiles_per_split, programs * parts, sm_count)


def partial_bytes(problem: AttentionProblem, splits: int) -> int:
    """Bytes that splitting adds: partial O and lse, float32, written and read, lse read twice. Modelled."""
    rows = problem.batch * problem.q_heads * problem.q_len
    return splits * rows * (2 * problem.head_dim + 3) * 4 if splits > 1 else 0


def cache_bytes(problem: AttentionProblem) -> int:
    """Bytes of K and V, which every decoding step reads once. Modelled."""
    return 2 * math.prod(problem.kv_shape) * problem.itemsize


def chunks_held(trace: RanksTrace) -> np.ndarray:
    """int (ranks, steps): the rank whose keys each rank worked on, if all worked in each step. Recorded."""
    work = trace.of("attend")
    return trace.span_owner[work].reshape(trace.ranks, -1)


def work_shares(trace: RanksTrace) -> np.ndarray:
    """(ranks,): each rank's share of all pairs of a query and a key that were seen. Recorded."""
    pairs = np.array([trace.pairs(rank) for rank in range(trace.ranks)])
    return pairs / pairs.sum()


EXPONENTIALS_PER_CLOCK = 16
FMAS_PER_CLOCK = {"A100": 64, "H100": 128, "B200": 128}
"""float32 multiply-adds per clock and SM, of each generation that is compared."""
TILE = 128
"""Queries and keys of the tile whose clocks are compared."""
DEGREE = 3
"""Multiply-adds of an exponential by polynomial."""
Clocks = dict[str, dict[str, float]]
"""GPU -> unit of an SM -> clocks that it needs for a tile."""


def tile_clocks(head_dim: int, polynomial_share: float = 0.0) -> Clocks:
    """Clocks of one SM for QK^T, PV and the exponentials of a tile of TILE x TILE.

    Their sum is the time of one unit at a time; the largest is that of all at once, each on another tile.
    `polynomial_share` of the exponentials are computed by polynomial, the rest by the unit for exponentials.
    Loads, masks, maxima, sums and the additions around the polynomial are left out. Rates per clock and SM:
    CUDA C++ Programming Guide, throughput of arithmetic instructions, compute capability 8.0, 9.0 and 10.0.
    """
    scores = TILE * TILE
    return {
        name: {
            "tensor cores": 4 * scores * head_dim / GPUS[name].fp16_flops_per_clock,
            "exponentials": (1 - polynomial_share) * scores / EXPONENTIALS_PER_CLOCK,
            "polynomial": polynomial_share * scores * DEGREE / fmas,
        }
        for name, fmas in FMAS_PER_CLOCK.items()
    }


LOG2E = math.log2(math.e)
THRESHOLDS = (0, 1, 2, 4, 8, 16)
"""In powers of two. FlashAttention-4 uses 8 for 16-bit inputs (its flash_attn/cute/flash_fwd_sm100.py)."""

ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-9}
"""Largest relative error of rounding to the format."""
DEGREES = range(1, 7)


@dataclass(frozen=True)
class LateRescale:
    """What a threshold did over all rows and all tiles except each row's first."""

    threshold: float
    rescales: int
    row_steps: int
    """Row-tile pairs at which a kernel that always rescales would have rescaled."""
    largest_weight: float
    """Largest exp(score - kept max): 1 with threshold 0, else up to 2^threshold."""
    largest_error: float
    """Of the output against softmax in float64."""


@functools.lru_cache(maxsize=64)
def late_rescale(problem: AttentionProblem, threshold: float) -> LateRescale:
    """Online softmax over key tiles that keeps its old max until a score exceeds it by more than `threshold`.

    `threshold` in powers of two. Head 0 of the problem, without a mask.
    """
    query, key, values = first_head(problem)
    scores = query @ key.T * problem.scale * LOG2E  # in powers of two
    kept = np.full(problem.q_len, -np.inf)
    total, acc = np.zeros(problem.q_len), np.zeros((problem.q_len, problem.head_dim))
    rescales, largest = 0, 0.0
    for first in range(0, problem.kv_len, problem.block_n):
        tile = scores[:, first : first + problem.block_n]
        grown = np.maximum(kept, tile.max(axis=1))
        new = np.where(grown - kept > threshold, grown, kept)
        alpha = np.exp2(kept - new)
        rescales += int((new > kept).sum()) if first else 0
        weights = np.exp2(tile - new[:, None])
        largest = max(largest, float(weights.max()))
        total = alpha * total + weights.sum(axis=1)
        acc = alpha[:, None] * acc + weights @ values[first : first + problem.block_n]
        kept = new
    exact = softmax(scores / LOG2E) @ values
    error = float(np.abs(acc / total[:, None] - exact).max())
    return LateRescale(threshold, rescales, problem.q_len * (problem.kv_tiles - 1), largest, error)


def exp2_error(degree: int) -> float:
    """Largest relative error of a polynomial close to 2^x on [0, 1].

    Least squares of the relative error at Chebyshev nodes. exp2(x) is then 2^floor(x), which only changes the
    exponent, times the polynomial of x - floor(x), which needs only additions and multiplications.
    """
    nodes = (1 - np.cos(np.pi * (np.arange(256) + 0.5) / 256)) / 2
    coefficients = np.polynomial.polynomial.polyfit(nodes, np.exp2(nodes), degree, w=np.exp2(-nodes))
    x = np.linspace(0.0, 1.0, 2001)
    return float(np.abs(np.polynomial.polynomial.polyval(x, coefficients) / np.exp2(x) - 1).max())


E4M3_MAX = 448.0
"""Largest finite number of the format (OCP 2023)."""
E4M3_MANTISSA_BITS, E4M3_MIN_EXPONENT = 3, -6
P_SCALE = 256.0
"""FlashAttention-3 multiplies P, at most 1, by 2^8 before rounding, so that small weights do not vanish."""

ROTATED_HEAD_DIMS = (16, 32, 64, 128)
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
        rng, shape = np.random.default_rng(self.seed), (self.heads, self.length, self.head_dim)

        def tensor() -> np.ndarray:
            normal, outliers = rng.standard_normal(shape), self.outlier_size * rng.standard_normal(shape)
            return normal + outliers * (rng.random(shape) < self.outlier_share)

        return tensor(), tensor(), tensor()


def round_e4m3(numbers: np.ndarray) -> np.ndarray:
    """Nearest number of the 8-bit format e4m3 (bits 1, 4, 3), as float64; ties to even, at most 448."""
    clipped = np.clip(numbers, -E4M3_MAX, E4M3_MAX)
    exponent = np.maximum(np.frexp(clipped)[1] - 1, E4M3_MIN_EXPONENT)
    quantum = np.ldexp(1.0, exponent - E4M3_MANTISSA_BITS)
    return np.round(clipped / quantum) * quantum


def quantize(matrix: np.ndarray, rows_in_block: int | None) -> np.ndarray:
    """Round (heads, rows, columns) to e4m3: a scale per head and block of rows, or one for all if None."""
    one_scale = None if rows_in_block is None else (1, 2)
    block, rounded = rows_in_block or matrix.shape[1], np.empty_like(matrix)
    for first in range(0, matrix.shape[1], block):
        rows = slice(first, first + block)
        scale = np.abs(matrix[:, rows]).max(axis=one_scale, keepdims=True) / E4M3_MAX
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


def attention_e4m3(query: np.ndarray, key: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Attention with P rounded to e4m3 before PV, since both products have 8-bit inputs; sums are exact."""
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return round_e4m3(P_SCALE * weights) / P_SCALE @ value / weights.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class PrecisionResult:
    label: str
    rmse: float
    largest: float


@functools.lru_cache(maxsize=32)
def compare(inputs: OutlierInputs, rows_in_block: int) -> tuple[PrecisionResult, ...]:
    """float16, then e4m3 with one scale per tensor, one per block, and both again with Q and K rotated."""
    query, key, value = inputs.draw()
    exact = attention(query, key, value)
    rotation = random_rotation(inputs.head_dim, inputs.seed)
    halves = (tensor.astype(np.float16).astype(np.float64) for tensor in (query, key, value))
    ways = {"float16": attention(*halves)}
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
