"""Clocks that each unit of one SM needs for one tile of attention. Modelled.

With every generation of GPUs the tensor cores get faster, and exponentials do not keep up (Shah et al. 2024,
section 3; Zadouri et al. 2026). Rates per clock and SM: CUDA C++ Programming Guide, throughput of arithmetic
instructions, compute capability 8.0, 9.0 and 10.0.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.device.gpus import Gpu

EXPONENTIALS_PER_CLOCK = 16
FMAS_PER_CLOCK = {"A100": 64, "H100": 128, "H200": 128, "B200": 128}
"""float32 multiply-adds per clock and SM."""


@dataclass(frozen=True)
class TileClocks:
    """Clocks of each unit for one tile."""

    tensor_cores: float
    exponentials: float
    polynomial: float

    @property
    def in_turn(self) -> float:
        """One unit at a time."""
        return self.tensor_cores + self.exponentials + self.polynomial

    @property
    def overlapped(self) -> float:
        """All at once, each on another tile: the clocks of the slowest unit."""
        return max(self.tensor_cores, self.exponentials, self.polynomial)


def tile_clocks(
    gpu_key: str,
    gpu: Gpu,
    block_m: int,
    block_n: int,
    head_dim: int,
    polynomial_share: float = 0.0,
    degree: int = 3,
) -> TileClocks:
    """QK^T and PV on the tensor cores, and block_m x block_n exponentials.

    A share of these, `polynomial_share`, is computed with `degree` multiply-adds each, the rest by the unit
    for exponentials. Loads, masks, maxima, sums and the additions around the polynomial are left out.
    """
    scores = block_m * block_n
    return TileClocks(
        tensor_cores=4 * scores * head_dim / gpu.fp16_flops_per_clock,
        exponentials=(1 - polynomial_share) * scores / EXPONENTIALS_PER_CLOCK,
        polynomial=polynomial_share * scores * degree / FMAS_PER_CLOCK[gpu_key],
    )
