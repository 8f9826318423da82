"""Facts about GPUs, from their makers' documents. Nothing here is measured."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

SHARED, REGISTERS = "shared memory", "registers"
"""The memories of an SM that a program keeps its tiles in."""
SHARED_BYTES_PER_CLOCK = 128
"""What one SM can read from shared memory per clock: 32 banks of 4 bytes."""


@dataclass(frozen=True)
class Gpu:
    """One GPU model. Bandwidth in bytes/s, peak in FLOP/s for dense float16 products with float32 sums."""

    name: str
    hbm_bytes: float
    hbm_bandwidth: float
    l2_bytes: float
    sm_count: int
    fp16_flops: float
    source: str
    shared_bytes_per_sm: int = 228 << 10
    """Most shared memory that all programs on one SM can have together."""
    register_bytes_per_sm: int = 256 << 10
    l1_bytes_per_sm: int = 256 << 10
    """SRAM of one SM, which L1 cache and shared memory share."""
    fp16_flops_per_clock: int = 4096
    """FLOP of one SM's tensor cores per clock, dense float16: a multiply-add is two.

    White papers of the A100 and H100 architectures; Blackwell does twice as many as Hopper (Zadouri et al.
    2026).
    """

    @property
    def balance(self) -> float:
        """FLOP per byte above which a kernel is bound by compute."""
        return self.fp16_flops / self.hbm_bandwidth

    @property
    def shared_bytes_per_program(self) -> int:
        """The system keeps 1 KiB (CUDA tuning guides)."""
        return self.shared_bytes_per_sm - 1024

    @property
    def program_limits(self) -> dict[str, int]:
        """Most bytes of each memory of an SM that one program can have.

        It can have all registers: CUDA C++ Programming Guide, 64 K registers of 32 bits per SM and per block.
        """
        return {SHARED: self.shared_bytes_per_program, REGISTERS: self.register_bytes_per_sm}

    @property
    def sram_bytes(self) -> int:
        """L1 and shared memory of all SMs together."""
        return self.sm_count * self.l1_bytes_per_sm

    @property
    def clock_hz(self) -> float:
        """Clock at which the tensor cores reach the datasheet's peak; derived."""
        return self.fp16_flops / (self.sm_count * self.fp16_flops_per_clock)

    @property
    def sram_bandwidth(self) -> float:
        """Bytes/s that all SMs together read from shared memory at that clock; derived.

        CUDA C++ Programming Guide, shared memory of compute capability 5.0 and later: 32 banks of 4 bytes per
        clock and SM.
        """
        return self.sm_count * SHARED_BYTES_PER_CLOCK * self.clock_hz


_FILE = Path(__file__).with_suffix(".toml")
GPUS = {key: Gpu(**facts) for key, facts in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()}

DEFAULT_GPU = "H200"


def gpu_named(device_name: str) -> Gpu | None:
    """The GPU whose key is part of the device's name, such as "NVIDIA H200"; None if no key is."""
    return next((gpu for key, gpu in GPUS.items() if key in device_name), None)
