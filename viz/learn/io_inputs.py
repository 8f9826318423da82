"""What the reader chooses in the Traffic chapter."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from kernels.device.gpus import DEFAULT_GPU, GPUS, Gpu
from kernels.problem import AttentionProblem
from viz.learn.controls import HEAD_DIMS, TILE_SIZES, gpu_choice, slider
from viz.shared.formats import format_kib

LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
TILE = 64
"""BLOCK_M and BLOCK_N at first."""
MEMORIES_KIB = (16, 32, 64, 96, 128, 163, 192, 227, 256)


@dataclass(frozen=True)
class TrafficInputs:
    """One head, N queries and N keys, float16, no mask; SRAM of one program; a GPU."""

    problem: AttentionProblem
    memory_bytes: int
    gpu: Gpu

    @property
    def length(self) -> int:
        """N."""
        return self.problem.q_len

    @property
    def d(self) -> int:
        """head_dim."""
        return self.problem.head_dim

    @property
    def memory(self) -> int:
        """SRAM of one program, in elements."""
        return self.memory_bytes // self.problem.itemsize


def traffic_inputs(tiles: bool = True) -> TrafficInputs:
    """The controls, and what they say.

    Without `tiles`, they and the GPU have no controls, and the tiles stay as chosen last.
    """
    with st.container(horizontal=True, gap="medium"):
        length = slider("N, queries and keys", LENGTHS, 1024, "io_t")
        d = slider("d, head_dim", HEAD_DIMS, 64, "io_d")
        memory = slider(
            "SRAM, KiB",
            MEMORIES_KIB,
            64,
            "io_m",
            "What one program may keep on the chip, in shared memory and registers together. On the "
            f"{GPUS[DEFAULT_GPU].name} it can have {_room(GPUS[DEFAULT_GPU])}; less shows better what tiles "
            "do.",
        )
        if tiles:
            block_m = slider("BLOCK_M", TILE_SIZES, TILE, "io_bm", "Queries per tile.")
            block_n = slider("BLOCK_N", TILE_SIZES, TILE, "io_bn", "Keys per tile.")
            gpu = GPUS[gpu_choice("io_gpu", 130)]
        else:
            block_m, block_n, gpu = _chosen_last("io_bm"), _chosen_last("io_bn"), GPUS[DEFAULT_GPU]
    problem = AttentionProblem(q_len=length, kv_len=length, head_dim=d, block_m=block_m, block_n=block_n)
    return TrafficInputs(problem, memory << 10, gpu)


def _room(gpu: Gpu) -> str:
    """What one program can have, by memory."""
    return " and ".join(f"{format_kib(limit)} of {memory}" for memory, limit in gpu.program_limits.items())


def _chosen_last(key: str) -> int:
    """The tile size of a slider that is not drawn."""
    text = str(st.session_state.get(key, st.query_params.get(key)))
    return int(text) if text in map(str, TILE_SIZES) else TILE
