"""Facts about GPUs, from their makers' documents. Nothing here is measured."""

from __future__ import annotations

from dataclasses import dataclass

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
    shared_bytes_per_sm: int
    """Most shared memory that all programs on one SM can have together."""
    register_bytes_per_sm: int
    fp16_flops: float
    source: str
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
        """Most shared memory that one program can have: the system keeps 1 KiB (CUDA tuning guides)."""
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


GPUS = {
    "A100": Gpu(
        name="A100 80GB SXM",
        hbm_bytes=80e9,
        hbm_bandwidth=2.039e12,
        l2_bytes=40e6,
        sm_count=108,
        shared_bytes_per_sm=164 << 10,
        register_bytes_per_sm=256 << 10,
        fp16_flops=312e12,
        source="NVIDIA A100 datasheet (2188504); CUDA C++ Programming Guide, compute capability 8.0",
        l1_bytes_per_sm=192 << 10,
        fp16_flops_per_clock=2048,
    ),
    "H100": Gpu(
        name="H100 SXM",
        hbm_bytes=80e9,
        hbm_bandwidth=3.35e12,
        l2_bytes=50e6,
        sm_count=132,
        shared_bytes_per_sm=228 << 10,
        register_bytes_per_sm=256 << 10,
        fp16_flops=989e12,
        source="NVIDIA H100 datasheet; CUDA C++ Programming Guide, compute capability 9.0",
    ),
    "H200": Gpu(
        name="H200 SXM",
        hbm_bytes=141e9,
        hbm_bandwidth=4.8e12,
        l2_bytes=50e6,
        sm_count=132,
        shared_bytes_per_sm=228 << 10,
        register_bytes_per_sm=256 << 10,
        fp16_flops=989e12,
        source="NVIDIA H200 datasheet; CUDA C++ Programming Guide, compute capability 9.0",
    ),
    "B200": Gpu(
        name="B200",
        hbm_bytes=192e9,
        hbm_bandwidth=8.0e12,
        l2_bytes=126e6,
        sm_count=148,
        shared_bytes_per_sm=228 << 10,
        register_bytes_per_sm=256 << 10,
        fp16_flops=2250e12,
        source="NVIDIA Blackwell architecture brief; CUDA C++ Programming Guide, compute capability 10.0",
        fp16_flops_per_clock=8192,
    ),
}

DEFAULT_GPU = "H200"


def gpu_named(device_name: str) -> Gpu | None:
    """The GPU whose key is part of the device's name, such as "NVIDIA H200"; None if no key is."""
    return next((gpu for key, gpu in GPUS.items() if key in device_name), None)
