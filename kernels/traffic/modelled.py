"""Modelled work and least traffic of attention, all by formula. The docstrings name the sources."""

from __future__ import annotations

import numpy as np

from kernels.device.gpus import Gpu
from kernels.problem import AttentionProblem
from kernels.trace import Trace
from kernels.trace.algorithm import Algorithm

LSE_BYTES = 4
"""lse is float32 whatever the type of the inputs."""
BACKWARD_FLOPS = 2.5
"""Backward over forward: five matrix products instead of two."""


def compulsory_bytes(problem: AttentionProblem, direction: str = "forward") -> int:
    """Least bytes of a pass: every input read once, every result written once.

    Forward: Q, K and V in, O and lse out. Backward: Q, K, V, O, dO and lse in, dQ, dK and dV out.
    """
    rows = problem.heads * problem.q_len
    keys = problem.key_heads * problem.kv_len
    times = 2 if direction == "forward" else 4
    return times * (rows + keys) * problem.head_dim * problem.itemsize + rows * LSE_BYTES


def forward_flops(problem: AttentionProblem) -> int:
    """4 b h q_len kv_len d, half of it if causal: the convention of FlashAttention's benchmarks."""
    flops = 4 * problem.heads * problem.q_len * problem.kv_len * problem.head_dim
    return flops // 2 if problem.is_causal else flops


def attention_flops(problem: AttentionProblem, direction: str) -> float:
    """Floating-point operations of a pass, by FlashAttention's count: backward 2.5 times forward."""
    return forward_flops(problem) * (BACKWARD_FLOPS if direction == "backward" else 1.0)


def step_flops(trace: Trace, algorithm: Algorithm) -> np.ndarray:
    """float64 (steps,): modelled FLOPs of each tile step. Tiles count whole, as they are computed.

    Only products count (2 m n k each), as in FlashAttention's benchmarks. Kernels without a product count
    their few operations per row.
    """
    problem = trace.problem
    rows = problem.block_m * problem.head_dim
    products = np.array([2.0 * kernel.products * problem.block_n * rows for kernel in algorithm.kernels])
    per_row = np.array([float(kernel.row_flops * rows) for kernel in algorithm.kernels])
    visited = (trace.kv_tile >= 0) & (trace.q_tile >= 0)
    return products[trace.kernel] * visited + per_row[trace.kernel]


def modelled_ns(trace: Trace, algorithm: Algorithm, gpu: Gpu) -> np.ndarray:
    """float64 (steps,): the time of each step by a roofline.

    It is the longer of its counted bytes at the GPU's bandwidth and its modelled FLOPs at the GPU's peak.
    """
    moving = (trace.bytes_read + trace.bytes_written) / gpu.hbm_bandwidth
    return 1e9 * np.maximum(moving, step_flops(trace, algorithm) / gpu.fp16_flops)
