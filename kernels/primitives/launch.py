"""What every launcher needs: tiles, descriptors or pointers, arguments, and the choice of the device."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kernels.device.runtime import BACKEND
from kernels.oracle.naive import group_size
from kernels.primitives.numbers import LOG2E
from kernels.primitives.recorder import Recorder
from kernels.problem import AttentionProblem, Band, InvalidProblem
from kernels.trace import LaunchInfo

import triton
import triton.language as tl
from triton.runtime.errors import OutOfResources
from triton.tools.tensor_descriptor import TensorDescriptor

TRITON_DTYPES = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}

Arguments = dict[str, Any]
"""Arguments of a kernel by keyword: numbers, tuples, types and trace buffers."""


@dataclass(frozen=True)
class TileConfig:
    """Rows of a query tile and of a key tile, warps per program, and stages of the load pipeline."""

    block_m: int
    block_n: int
    num_warps: int = 4
    num_stages: int = 2


def config_for_blocks(block_m: int, block_n: int, head_dim: int, itemsize: int) -> TileConfig:
    """Warps and stages for the tiles that the user chose.

    8 warps for 128 rows or more, else 4; as many stages, from 1 to 3, as fit in 160 KiB.
    """
    tile_bytes = triton.next_power_of_2(head_dim) * itemsize
    stages = (160 * 1024 - block_m * tile_bytes) // (2 * block_n * tile_bytes)
    return TileConfig(
        block_m, block_n, num_warps=8 if block_m >= 128 else 4, num_stages=min(max(stages, 1), 3)
    )


def config_of(problem: AttentionProblem) -> TileConfig:
    """The problem's own tiles."""
    return config_for_blocks(problem.block_m, problem.block_n, problem.head_dim, problem.itemsize)


def tile_arguments(
    tensors: Sequence[torch.Tensor], block_rows: Sequence[int], use_tma: bool
) -> list[torch.Tensor | TensorDescriptor]:
    """The tensors as a kernel takes them: as descriptors of (1, 1, rows, head_dim) tiles, or as they are."""
    if not use_tma:
        return list(tensors)
    block_d = triton.next_power_of_2(tensors[0].shape[-1])
    blocks = zip(tensors, block_rows, strict=True)
    return [
        TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), [1, 1, rows, block_d])
        for tensor, rows in blocks
    ]


def can_use_tma(config: TileConfig, *tensors: torch.Tensor) -> bool:
    """Whether tensor descriptors can address all tensors.

    Columns must be adjacent, and every other stride a multiple of 16 bytes. A GPU must have compute
    capability 9.0 and tiles of 16 rows or more: smaller ones gave wrong results on an H200 (Triton 3.6).
    """
    if BACKEND == "cuda":
        too_old = torch.cuda.get_device_capability()[0] < 9
        if too_old or min(config.block_m, config.block_n) < 16:
            return False
    for tensor in tensors:
        steps = [stride * tensor.element_size() for stride in tensor.stride()[:-1]]
        if tensor.stride(-1) != 1 or tensor.data_ptr() % 16 or any(step % 16 or step == 0 for step in steps):
            return False
    return True


def band_arguments(query: torch.Tensor, key: torch.Tensor, band: Band, scale: float) -> Arguments:
    """Arguments of every attention kernel, in Triton and in Gluon: heads, mask and scale.

    A bound that hides no key is left out of the compiled code.
    """
    return {
        "group_size": group_size(query, key),
        "band": band,
        "scale_log2": scale * LOG2E.value,
        "BOUND_LEFT": band.bounds_left,
        "BOUND_RIGHT": band.bounds_right,
    }


def problem_arguments(query: torch.Tensor, key: torch.Tensor, band: Band, scale: float) -> Arguments:
    """`band_arguments`, and the types and widths that the Triton kernels compile in."""
    head_dim = query.shape[3]
    return band_arguments(query, key, band, scale) | {
        "DTYPE": TRITON_DTYPES[query.dtype],
        "HEAD_DIM": head_dim,
        "BLOCK_D": triton.next_power_of_2(head_dim),
        "PRECISION": "ieee" if query.dtype == torch.float32 else "tf32",
    }


def config_arguments(config: TileConfig, recorder: Recorder | None) -> Arguments:
    """Tiles, warps and stages of a kernel, and the buffers of its trace."""
    return {
        "BLOCK_M": config.block_m,
        "BLOCK_N": config.block_n,
        "num_warps": config.num_warps,
        "num_stages": config.num_stages,
        "trace": recorder.buffers if recorder else None,
        "max_steps": recorder.max_steps if recorder else 0,
        "TRACE": recorder is not None,
        "TRACE_ACC": recorder is not None and recorder.with_acc,
    }


def launch_info(config: TileConfig, compiled: Any) -> LaunchInfo:
    """Facts about a launch; `compiled` is what Triton's launch returns, None in the interpreter."""
    if compiled is None:
        return LaunchInfo(config.num_warps, config.num_stages)
    return LaunchInfo(config.num_warps, config.num_stages, compiled.metadata.shared, compiled.n_regs)


INTERPRETER_SMS = 8
"""Streaming multiprocessors that the interpreter is assumed to have."""


@functools.cache
def sm_count() -> int:
    """Streaming multiprocessors of the current device."""
    if BACKEND != "cuda":
        return INTERPRETER_SMS
    return torch.cuda.get_device_properties().multi_processor_count


@contextlib.contextmanager
def running_on(tensor: torch.Tensor) -> Iterator[None]:
    """Make the tensor's GPU current.

    In the interpreter NumPy's warnings are off: a GPU does not warn about infinities either.
    """
    if tensor.is_cuda:
        with torch.cuda.device(tensor.device):
            yield
    else:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN", RuntimeWarning)
            yield


@contextlib.contextmanager
def on_device(tensor: torch.Tensor, config: TileConfig) -> Iterator[None]:
    """`running_on`; raises InvalidProblem for tiles that need more shared memory than the GPU has."""
    try:
        with running_on(tensor):
            yield
    except OutOfResources as error:
        needs = (
            f"{config.block_m}x{config.block_n} tiles of this head_dim and dtype need {error.required} bytes "
            f"of {error.name}, the GPU has {error.limit}"
        )
        raise InvalidProblem("block_n", config.block_n, needs, "Choose smaller blocks.") from error
