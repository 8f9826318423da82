"""What is compiled into the kernels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fixed:
    """What is compiled into a kernel, as one constexpr."""

    BOUND_LEFT: bool
    BOUND_RIGHT: bool
    RAGGED: bool
    """Whether the last key tile is not whole."""
    BLOCK_M: int
    """Queries of a tile: 64 if keys stay, 128 if queries stay."""
    BLOCK_D: int = 256
    BLOCK_N: int = 64
    ROWS: int = 64
    """Rows of a warpgroup: the height of its matrix instruction."""
    STAGES: int = 2
    """Slots for Q, dO and P^T if keys stay; for K if queries stay."""
    COMPUTE_REGISTERS: int = 240
    LOAD_REGISTERS: int = 24
    """Registers of a thread that computes and of one that loads."""
