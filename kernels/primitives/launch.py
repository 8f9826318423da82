"""What every launcher needs: tile configurations, the choice between descriptors and pointers, the device guard."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from kernels.primitives.softmax import BACKEND, LOG2E
from kernels.problem import InvalidProblem
from kernels.trace.trace import LaunchInfo

import triton
import triton.language as tl
from triton.runtime.errors import OutOfResources
from triton.tools.tensor_descriptor import TensorDescriptor

if TYPE_CHECKING:
    from kernels.primitives.recorder import Recorder

TRITON_DTYPES = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}


@dataclass(frozen=True)
class TileConfig:
    """Rows of a query tile and of a key tile, warps a program, and stages of the load pipeline."""

    block_m: int
    block_n: int
    num_warps: int = 4
    num_stages: int = 2


def config_for_blocks(block_m: int, block_n: int, head_dim: int, itemsize: int) -> TileConfig:
    """Warps and stages for tiles that the user chose: 8 warps for 128 rows, and as many stages as fit in 160 KiB."""
    tile_bytes = triton.next_power_of_2(head_dim) * itemsize
    stages = (160 * 1024 - block_m * tile_bytes) // (2 * block_n * tile_bytes)
    return TileConfig(
        block_m, block_n, num_warps=8 if block_m >= 128 else 4, num_stages=min(max(stages, 1), 3)
    )


def tile_arguments(
    tensors: Sequence[torch.Tensor], block_rows: Sequence[int], block_d: int, use_tma: bool
) -> list:
    """The tensors as a kernel takes them: descriptors of (1, 1, rows, block_d) tiles, or the tensors themselves."""
    if not use_tma:
        return list(tensors)
    blocks = zip(tensors, block_rows, strict=True)
    return [
        TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), [1, 1, rows, block_d])
        for tensor, rows in blocks
    ]


def can_use_tma(config: TileConfig, *tensors: torch.Tensor) -> bool:
    """True when tensor descriptors can address all tensors: unit column stride, everything else a multiple of 16 bytes.

    On a GPU also compute capability 9.0, and tiles of 16 rows or more: smaller ones came out wrong on an H200 (Triton 3.6).
    """
    if BACKEND == "cuda" and (
        torch.cuda.get_device_capability()[0] < 9 or min(config.block_m, config.block_n) < 16
    ):
        return False
    for tensor in tensors:
        steps = [stride * tensor.element_size() for stride in tensor.stride()[:-1]]
        if tensor.stride(-1) != 1 or tensor.data_ptr() % 16 or any(step % 16 or step == 0 for step in steps):
            return False
    return True


def band_arguments(query: torch.Tensor, key: torch.Tensor, left: int, right: int, scale: float) -> dict:
    """Arguments by keyword that every attention kernel takes, in Triton and in Gluon: lengths, the band, and which bounds are compiled in.

    A bound that no key reaches is left out of the compiled code.
    """
    q_len, kv_len = query.shape[2], key.shape[2]
    unbounded = q_len + kv_len
    return {
        "group_size": query.shape[1] // key.shape[1], "q_len": q_len, "kv_len": kv_len, "left": left, "right": right,
        "scale_log2": scale * LOG2E.value, "BOUND_LEFT": left < unbounded, "BOUND_RIGHT": right < unbounded,
    }  # fmt: skip


def problem_arguments(query: torch.Tensor, key: torch.Tensor, left: int, right: int, scale: float) -> dict:
    """`band_arguments`, and the types and widths that the Triton kernels compile in."""
    head_dim = query.shape[3]
    return band_arguments(query, key, left, right, scale) | {
        "DTYPE": TRITON_DTYPES[query.dtype], "HEAD_DIM": head_dim, "BLOCK_D": triton.next_power_of_2(head_dim),
        "PRECISION": "ieee" if query.dtype == torch.float32 else "tf32",
    }  # fmt: skip


def config_arguments(config: TileConfig, recorder: Recorder | None) -> dict:
    """Arguments by keyword of a kernel with one loop: its tiles, warps and stages, and the buffers of its trace."""
    traced = recorder is not None
    return {
        "BLOCK_M": config.block_m, "BLOCK_N": config.block_n, "num_warps": config.num_warps, "num_stages": config.num_stages,
        "trace": recorder.buffers if traced else None, "max_steps": recorder.max_steps if traced else 0,
        "TRACE": traced, "TRACE_ACC": traced and recorder.with_acc,
    }  # fmt: skip


def launch_info(config: TileConfig, compiled: object | None) -> LaunchInfo:
    """Facts about a launch; `compiled` is what Triton's launch returns, None in the interpreter."""
    if compiled is None:
        return LaunchInfo(config.num_warps, config.num_stages)
    return LaunchInfo(config.num_warps, config.num_stages, compiled.metadata.shared, compiled.n_regs)


INTERPRETER_SMS = 8
"""Streaming multiprocessors that rules reckon with in the interpreter, which has none."""


@functools.cache
def sm_count() -> int:
    """Streaming multiprocessors of the current device."""
    return torch.cuda.get_device_properties().multi_processor_count if BACKEND == "cuda" else INTERPRETER_SMS


@contextlib.contextmanager
def on_device(tensor: torch.Tensor, config: TileConfig):
    """Make the tensor's GPU current.

    In the interpreter: no NumPy warnings, since arithmetic with infinities is as silent on a GPU. Raises InvalidProblem
    for tiles that need more shared memory than the GPU has.
    """
    if not tensor.is_cuda:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN", RuntimeWarning)
            yield
        return
    try:
        with torch.cuda.device(tensor.device):
            yield
    except OutOfResources as error:
        tile = f"{config.block_m}x{config.block_n}"
        needs = f"{tile} tiles of this head_dim and dtype need {error.required} bytes of {error.name}, the GPU has {error.limit}"
        raise InvalidProblem("block_n", config.block_n, needs, "Choose smaller blocks.") from error
