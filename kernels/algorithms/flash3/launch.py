"""Launches the Hopper kernel, and decides when it runs instead of the plain one."""

import torch

from kernels.algorithms.flash3.kernel import _attn_fwd_hopper
from kernels.algorithms.flash3.rings import Beside, Fixed
from kernels.algorithms.flash3.work import work_of
from kernels.oracle.naive import group_size
from kernels.primitives.launch import TileConfig, can_use_tma, cases_of, launch_info, on_device, sm_count
from kernels.primitives.marks import LaneBuffers
from kernels.primitives.numbers import LOG2E
from kernels.primitives.recorder import Recorder
from kernels.primitives.replay import launch
from kernels.primitives.tuning import HOPPER_KERNEL, hopper_config
from kernels.problem import Band
from kernels.trace import LaunchInfo

import triton
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

GLUON_DTYPES = {torch.float16: gl.float16, torch.bfloat16: gl.bfloat16}


def can_run_hopper(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether the kernel can run on these tensors, on this device.

    It needs compute capability 9.0, a Triton whose Gluon is known, 16-bit inputs of head_dim 40 to 256 (a
    multiple of 8), and strides that descriptors can address.
    """
    if not HOPPER_KERNEL or torch.cuda.get_device_capability() != (9, 0):
        return False
    head_dim = query.shape[3]
    rows_fit = 32 < head_dim <= 256 and head_dim * query.element_size() % 16 == 0  # those of O as well
    return rows_fit and query.dtype in GLUON_DTYPES and can_use_tma(TileConfig(64, 64), query, key, value)


def chosen_config(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, band: Band
) -> TileConfig | None:
    """The tiles that this kernel should run with; None if the plain kernel should run.

    The plain kernel runs if this one cannot, if the tuned table does not list the shape, or if the shape
    keeps fewer than three quarters of the SMs busy. Of 18 such small shapes measured on an H200 (batch 1, 8
    or 16 heads, 256 to 1024 keys; before the warpgroups took turns), the plain kernel with its smaller tiles
    was faster in 14, by 6 to 75 %, and slower in three (full mask, head_dim 128), by 8 to 16 %.
    """
    batch, q_heads, q_len, head_dim = query.shape
    config = hopper_config(head_dim, query.dtype, band.masks, band.kv_len)
    if config is None or not can_run_hopper(query, key, value):
        return None
    units = batch * q_heads * triton.cdiv(q_len, config.block_m)
    return config if 4 * units >= 3 * sm_count() else None


def tile_descriptor(tensor: torch.Tensor, rows: int, block_d: int) -> TensorDescriptor:
    """Of tiles (rows, block_d) of a tensor (batch, heads, length, head_dim)."""
    block = [1, 1, rows, block_d]
    layout = gl.NVMMASharedLayout.get_default_for(block, GLUON_DTYPES[tensor.dtype])
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), block, layout)


def flash_forward_hopper(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    band: Band,
    scale: float,
    config: TileConfig,
    recorder: Recorder | None = None,
    lanes: LaneBuffers | None = None,
) -> tuple[torch.Tensor, torch.Tensor, LaunchInfo]:
    """Launch `_attn_fwd_hopper`; arguments and results are those of `flash_forward`.

    The tensors must be such as `can_run_hopper` accepts. `config.block_m` is 128 or 192: 64 rows per
    warpgroup that computes; with head_dim over 128 it is 128, and `config.block_n` 64. `config.num_warps`
    is 12 or 16: it includes the warpgroup of the warp that loads.
    """
    batch, q_heads, q_len, head_dim = query.shape
    out = torch.empty_like(query)
    lse = torch.empty(query.shape[:3], dtype=torch.float32, device=query.device)
    fixed = Fixed(
        **cases_of(band, config.block_n),
        BLOCK_N=config.block_n,
        BLOCK_D=max(triton.next_power_of_2(head_dim), 64),
        GROUPS=config.block_m // Fixed.ROWS,
        STAGES=config.num_stages,
        TRACE=recorder is not None,
        LANES=lanes is not None,
    )
    programs = min(sm_count(), batch * q_heads * triton.cdiv(q_len, config.block_m))
    work = work_of(query, key, config.block_m, band, programs)
    counter = (torch.zeros if work.claims else torch.empty)(1, dtype=torch.int32, device=query.device)
    blocks = ((query, fixed.ROWS), (key, config.block_n), (value, config.block_n), (out, fixed.ROWS))
    written = (recorder.buffers, recorder.max_steps) if recorder else (lanes, 0)
    with on_device(query, config):
        compiled = launch(
            _attn_fwd_hopper,
            (programs,),
            *(tile_descriptor(tensor, rows, fixed.BLOCK_D) for tensor, rows in blocks),
            beside=Beside(lse, scale * LOG2E.value, counter, *written),
            group_size=group_size(query, key),
            **band._asdict(),
            **work.arguments(),
            FIXED=fixed,
            num_warps=4,
        )
    return out, lse, launch_info(config, compiled)
