"""Facts about GPUs, from their makers' documents. Nothing here is measured."""

from __future__ import annotations

from dataclasses import dataclass


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

    @property
    def balance(self) -> float:
        """FLOP per byte above which a kernel is bound by compute."""
        return self.fp16_flops / self.hbm_bandwidth


GPUS = {
    "A100": Gpu(
        "A100 80GB SXM", 80e9, 2.039e12, 40e6, 108, 164 << 10, 256 << 10, 312e12,
        "NVIDIA A100 datasheet (2188504); CUDA C++ Programming Guide, compute capability 8.0",
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
    ),
}  # fmt: skip

DEFAULT_GPU = "H200"


def gpu_named(device_name: str) -> Gpu:
    """The GPU whose key stands in a device's name ("NVIDIA H200" gives the H200), else the default one."""
    return next((gpu for key, gpu in GPUS.items() if key in device_name), GPUS[DEFAULT_GPU])
