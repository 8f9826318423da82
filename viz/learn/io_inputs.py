"""What the reader chooses in the Traffic chapter."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from kernels.device.gpus import GPUS, Gpu
from kernels.problem import AttentionProblem
from viz.learn.controls import gpu_choice, slider

LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
HEAD_DIMS = (16, 32, 64, 128, 256)
MEMORIES_KIB = (16, 32, 64, 96, 128, 163, 192, 227, 256)
BLOCK_ROWS = (16, 32, 64, 128)


@dataclass(frozen=True)
class TrafficInputs:
    """One head, T queries and T keys, float16, no mask; on-chip memory M; a GPU."""

    problem: AttentionProblem
    memory_bytes: int
    gpu: Gpu

    @property
    def length(self) -> int:
        """T."""
        return self.problem.q_len

    @property
    def d(self) -> int:
        """head_dim."""
        return self.problem.head_dim

    @property
    def memory(self) -> int:
        """M in elements."""
        return self.memory_bytes // self.problem.itemsize


def traffic_inputs() -> TrafficInputs:
    """The controls, and what they say."""
    with st.container(horizontal=True, gap="medium"):
        length = slider("length T", LENGTHS, 1024, "io_t")
        d = slider("head_dim d", HEAD_DIMS, 64, "io_d")
        memory = slider("SRAM M, KiB", MEMORIES_KIB, 64, "io_m", "On-chip memory that one program may use.")
        block_m = slider("BLOCK_M", BLOCK_ROWS, 64, "io_bm", "Rows of a query tile, |I| in the formulas.")
        block_n = slider("BLOCK_N", BLOCK_ROWS, 64, "io_bn", "Rows of a key tile, |J| in the formulas.")
        gpu = GPUS[gpu_choice("io_gpu", 130)]
    problem = AttentionProblem(q_len=length, kv_len=length, head_dim=d, block_m=block_m, block_n=block_n)
    return TrafficInputs(problem, memory << 10, gpu)
