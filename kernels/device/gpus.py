"""Facts about GPUs, from their makers' documents. Nothing here is measured."""

from __future__ import annotations

from dataclasses import dataclass

SHARED_BYTES_PER_CLOCK = 128
"""32 banks of 4 bytes: what one SM can read from shared memory in one clock."""


@dataclass(frozen=True)
class Gpu:
    """One GPU model. Bandwidth in bytes/s, peak in FLOP/s for dense float16 products with float32 sums."""

    name: str
    hbm_bytes: float
    hbm_bandwidth: float
    l2_bytes: float
    sm_count: int
    shared_bytes_per_sm: int
    """Most shared memory that kernels can use on one SM."""
    register_bytes_per_sm: int
    fp16_flops: float
    source: str
    l1_bytes_per_sm: int = 256 << 10
    """SRAM of one SM that L1 cache and shared memory divide between them."""
    fp16_flops_per_clock: int = 4096
    """FLOP that the tensor cores of one SM do in one clock: dense float16, a multiplication and an addition counted as two.

    White papers of the A100 and H100 architectures; Blackwell does twice Hopper's (Zadouri et al. 2026)."""

    @property
    def balance(self) -> float:
        """FLOP per byte above which a kernel is bound by compute."""
        return self.fp16_flops / self.hbm_bandwidth

    @property
    def shared_bytes_per_program(self) -> int:
        """Most shared memory that one program can have: the system keeps 1 KiB (CUDA tuning guides of Ampere, Hopper, Blackwell)."""
        return self.shared_bytes_per_sm - 1024

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

        32 banks of 4 bytes a clock and SM (CUDA C++ Programming Guide, shared memory of compute capability 5.0 and later).
        """
        return self.sm_count * SHARED_BYTES_PER_CLOCK * self.clock_hz


GPUS = {
    "A100": Gpu(
        "A100 80GB SXM", 80e9, 2.039e12, 40e6, 108, 164 << 10, 256 << 10, 312e12,
        "NVIDIA A100 datasheet (2188504); CUDA C++ Programming Guide, compute capability 8.0",
        l1_bytes_per_sm=192 << 10, fp16_flops_per_clock=2048,
    ),
    "H100": Gpu(
        "H100 SXM", 80e9, 3.35e12, 50e6, 132, 228 << 10, 256 << 10, 989e12,
        "NVIDIA H100 datasheet; CUDA C++ Programming Guide, compute capability 9.0",
    ),
    "H200": Gpu(
        "H200 SXM", 141e9, 4.8e12, 50e6, 132, 228 << 10, 256 << 10, 989e12,
        "NVIDIA H200 datasheet; CUDA C++ Programming Guide, compute capability 9.0",
    ),
    "B200": Gpu(
        "B200", 192e9, 8.0e12, 126e6, 148, 228 << 10, 256 << 10, 2250e12,
        "NVIDIA Blackwell architecture brief; CUDA C++ Programming Guide, compute capability 10.0",
        fp16_flops_per_clock=8192,
    ),
}  # fmt: skip

DEFAULT_GPU = "H200"


def gpu_named(device_name: str) -> Gpu:
    """The GPU whose key stands in a device's name ("NVIDIA H200" gives the H200), else the default one."""
    return next((gpu for key, gpu in GPUS.items() if key in device_name), GPUS[DEFAULT_GPU])
