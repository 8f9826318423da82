"""Arithmetic intensity of attention's steps, with and without a perfect L2 cache, and their least time."""

from dataclasses import dataclass

from kernels.algorithms.standard.traffic import standard_stages
from kernels.device.gpus import Gpu
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import LSE_BYTES

L2_CASES = ("perfect", "none")
"""Every re-read of K and V hits the L2 cache, or none does: compulsory bytes, or requested ones."""


@dataclass(frozen=True)
class Step:
    """One kernel: the bytes that it asks for, in one of L2_CASES, and its work."""

    name: str
    moved: str
    """`elements` as a formula, LaTeX: N queries, M keys, t_q query tiles, t_k key tiles."""
    elements: int
    itemsize: int
    flops: int
    lse_bytes: int = 0
    """lse, float32, if the step stores it. `elements` leaves it out."""

    @property
    def bytes(self) -> int:
        return self.elements * self.itemsize + self.lse_bytes

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes

    def seconds(self, gpu: Gpu) -> float:
        """The least time that the datasheet allows: that of moving or of computing, whichever is longer."""
        return max(self.memory_seconds(gpu), self.compute_seconds(gpu))

    def memory_seconds(self, gpu: Gpu) -> float:
        """Least time to move the bytes, at the datasheet's bandwidth."""
        return self.bytes / gpu.hbm_bandwidth

    def compute_seconds(self, gpu: Gpu) -> float:
        """Least time to do the work, at the datasheet's peak."""
        return self.flops / gpu.fp16_flops

    def bound_by(self, gpu: Gpu) -> str:
        """ "memory" or "compute": which of the two takes longer."""
        return "memory" if self.intensity < gpu.balance else "compute"


def steps(problem: AttentionProblem, l2: str) -> tuple[Step, Step, Step, Step]:
    """S = Q K^T, softmax, P V, and all of it fused; `l2` is one of L2_CASES. One head, no mask.

    The two tables of MSRA SH Triton Study Group 2025: a 100% L2 cache hit ratio, and no L2 cache. In two rows
    of the second table Q crosses the bus once, and not once for every key tile: a program of ours keeps its
    query tile, and the fused one its part of O too. So the bytes of "none" are those that our kernels
    request, and the bytes of "perfect" are the compulsory ones of each kernel. The fused kernel stores lse.
    """
    queries, keys, size = problem.q_len, problem.kv_len, problem.itemsize
    flops = [stage.flops for stage in standard_stages(problem.with_(batch=1, q_heads=1, kv_heads=1))]
    times, t = (1, "") if l2 == "perfect" else (problem.q_tiles, "t_q ")
    square, rows, keys_moved = queries * keys, queries * problem.head_dim, times * keys * problem.head_dim
    return (
        Step("S = QKᵀ", f"Nd+{t}Md+NM", rows + keys_moved + square, size, flops[0]),
        Step("softmax", "2NM", 2 * square, size, flops[1]),
        Step("O = PV", f"NM+{t}Md+Nd", square + keys_moved + rows, size, flops[2]),
        Step("fused", f"2Nd+2{t}Md", 2 * rows + 2 * keys_moved, size, sum(flops), queries * LSE_BYTES),
    )


def memory_against_compute(problem: AttentionProblem) -> Step:
    """S and P, each written and read, and both products: 4 N M elements against 4 N M d FLOPs.

    Chu, Liu and Lin 2026, "Memory Versus Computation".
    """
    squares = 4 * problem.q_len * problem.kv_len
    return Step("S and P", "4NM", squares, problem.itemsize, squares * problem.head_dim)


NORM_FLOPS = 8
"""Operations per element of a layer norm: mean 1, variance 3, normalise 2, scale and shift 2."""
KERNEL_SIDE = 3


def other_operations(problem: AttentionProblem) -> tuple[Step, ...]:
    """Operations beside attention on the same N queries of d features, each tensor moved once.

    An elementwise operation, a layer norm, a convolution of N positions from d to d channels, and the plain
    product N x d by d x 4d of the layer after attention.
    """
    rows, d, size = problem.q_len, problem.head_dim, problem.itemsize
    kernel = KERNEL_SIDE**2 * d
    return (
        Step("elementwise", r"2Nd", 2 * rows * d, size, rows * d),
        Step("layer norm", r"2Nd+2d", 2 * rows * d + 2 * d, size, NORM_FLOPS * rows * d),
        Step("convolution 3 × 3", r"2Nd+9d^2", 2 * rows * d + kernel * d, size, 2 * rows * d * kernel),
        Step("plain product", r"5Nd+4d^2", 5 * rows * d + 4 * d * d, size, 8 * rows * d * d),
    )
