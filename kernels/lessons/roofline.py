"""Arithmetic intensity of attention's steps, with and without a perfect L2 cache, and the time that a GPU's datasheet allows for them."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.algorithms.standard.traffic import standard_stages
from kernels.device.gpus import Gpu
from kernels.problem import AttentionProblem

SOFTMAX_FLOPS = 3
"""Operations an element of S that softmax counts: subtract, exponential, divide (Chu, Liu and Lin 2026, "Memory Versus Computation")."""

L2_CASES = ("perfect", "none")
"""Every re-read of Q, K and V hits the L2 cache, or none does."""

TEBI = 1 << 40


@dataclass(frozen=True)
class Step:
    """One kernel: elements by tensor that it moves between HBM and the chip, its formula in words of T, and its work."""

    name: str
    moved: str
    """The elements as a formula, LaTeX."""
    elements: int
    itemsize: int
    flops: int

    @property
    def bytes(self) -> int:
        """Bytes moved between HBM and the chip."""
        return self.elements * self.itemsize

    @property
    def intensity(self) -> float:
        """FLOP a byte of HBM traffic."""
        return self.flops / self.bytes

    def seconds(self, gpu: Gpu) -> float:
        """The slower of moving and computing: the least time the datasheet allows."""
        return max(self.memory_seconds(gpu), self.compute_seconds(gpu))

    def memory_seconds(self, gpu: Gpu) -> float:
        """Least time to move the bytes, at the datasheet's bandwidth."""
        return self.bytes / gpu.hbm_bandwidth

    def compute_seconds(self, gpu: Gpu) -> float:
        """Least time to do the work, at the datasheet's peak."""
        return self.flops / gpu.fp16_flops

    def bound_by(self, gpu: Gpu) -> str:
        """ "memory" or "compute": what sets the pace."""
        return "memory" if self.intensity < gpu.balance else "compute"


def steps(problem: AttentionProblem, l2: str) -> tuple[Step, Step, Step, Step]:
    """S = Q K^T, softmax, P V, and all of it fused: the two tables of MSRA SH Triton Study Group 2025,
    "Flash-Attention (Algorithm)", with a 100% L2 cache hit ratio and with no L2 cache.

    One head, no mask. The fused row of the second table is corrected: a program keeps its query tile and its part of O, so
    Q and O cross the bus once, not once for every key tile.
    """
    queries, keys, d = problem.q_len, problem.kv_len, problem.head_dim
    flops = [stage.flops for stage in standard_stages(problem.with_(batch=1, q_heads=1, kv_heads=1))]
    square, q_block, k_block = queries * keys, queries * d, keys * d
    if l2 == "perfect":
        q_times = k_times = 1
        formulas = (r"N_QD+N_KD+N_QN_K", r"2N_QN_K", r"N_QN_K+N_KD+N_QD", r"2N_QD+2N_KD")
    else:
        q_times, k_times = problem.kv_tiles, problem.q_tiles
        formulas = (
            r"\tfrac{N_K}{T_K}N_QD+\tfrac{N_Q}{T_Q}N_KD+N_QN_K", r"2N_QN_K",
            r"N_QN_K+\tfrac{N_Q}{T_Q}N_KD+N_QD", r"2N_QD+2\tfrac{N_Q}{T_Q}N_KD",
        )  # fmt: skip
    moved = (
        q_times * q_block + k_times * k_block + square,
        2 * square,
        square + k_times * k_block + q_block,
        2 * q_block + 2 * k_times * k_block,
    )
    names = ("S = QKᵀ", "softmax", "O = PV", "fused")
    work = (*flops, sum(flops))
    return tuple(
        Step(*row, problem.itemsize, count) for *row, count in zip(names, formulas, moved, work, strict=True)
    )


def printed_fused_elements(problem: AttentionProblem) -> int:
    """Elements of the fused kernel as the second of these tables prints them, Q and O again for every key tile."""
    d = problem.head_dim
    return 2 * problem.kv_tiles * problem.q_len * d + 2 * problem.q_tiles * problem.kv_len * d


@dataclass(frozen=True)
class SlideExample:
    """Chu, Liu and Lin 2026, "Memory Versus Computation": 4 T^2 d FLOPs against 4 T^2 elements of S and P, in seconds."""

    flops: int
    bytes: int
    compute_seconds: float
    memory_seconds: float
    binary_memory_seconds: float
    """With the bandwidth's tera read as 2^40, as the printed 3.74 microseconds has it; the FLOPs' tera stays 10^12."""


def slide_example(queries: int, keys: int, d: int, itemsize: int, gpu: Gpu) -> SlideExample:
    """The slides' comparison for other lengths, another head_dim `d` and another GPU; `itemsize` in bytes."""
    flops, moved = 4 * queries * keys * d, 4 * queries * keys * itemsize
    binary = moved / (gpu.hbm_bandwidth / 1e12 * TEBI)
    return SlideExample(flops, moved, flops / gpu.fp16_flops, moved / gpu.hbm_bandwidth, binary)


A100_BANDWIDTHS = {
    "A100 40GB, 1.555 TB/s": 1.555e12,
    "rounded, 2.0 TB/s": 2.0e12,
    "A100 80GB SXM, 2.039 TB/s": 2.039e12,
}
"""Bandwidths that people use for an A100; 312 TFLOP/s over the rounded one is the much quoted 156 FLOP/byte. NVIDIA A100 datasheet."""
