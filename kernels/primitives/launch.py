"""What every launcher needs: tiles, descriptors or pointers, arguments, and the choice of the device."""

import contextlib
import functools
import itertools
from collections import namedtuple
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernels.device.runtime import BACKEND, running_on
from kernels.primitives.mods import NO_PATTERN, Compiled, mods_of
from kernels.primitives.numbers import LOG2E
from kernels.primitives.recorder import Recorder
from kernels.primitives.replay import launch
from kernels.problem import AttentionProblem, Band, InvalidProblem, Pattern, tiles
from kernels.trace import LaunchInfo

import triton
import triton.language as tl
from triton.runtime.errors import OutOfResources
from triton.tools.tensor_descriptor import TensorDescriptor

TRITON_DTYPES = {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}


@functools.cache
def _strides_by_name(*names: str) -> Any:
    return namedtuple("Strides", names)


def strides_of(**tensors: torch.Tensor) -> tuple[tuple[int, ...], ...]:
    """The strides (batch, head, row, column) of tensors, each by its name: `strides.q`."""
    return _strides_by_name(*tensors)(*(tensor.stride() for tensor in tensors.values()))


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
    return config_for_blocks(problem.block_m, problem.block_n, problem.head_dim, problem.itemsize)


def asked_of(problem: AttentionProblem) -> dict[str, Any]:
    """The problem's mask, scores, scale and tiles, as the launchers of plain kernels take them."""
    asked = {"band": problem.band, "scale": problem.scale, "config": config_of(problem)}
    return asked | ({"pattern": problem.pattern} if problem.pattern else {})


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


@dataclass(frozen=True)
class Fixed:
    """What is compiled into a plain kernel, its constexpr FIXED: types, widths and cases.

    A case that cannot occur is left out of the compiled code.
    """

    DTYPE: tl.dtype
    """Type of Q, K, V, O and their gradients."""
    HEAD_DIM: int
    BLOCK_D: int
    """Columns of a tile: head_dim, padded to a power of two."""
    BLOCK_M: int
    BLOCK_N: int = 0
    BOUND_LEFT: bool = False
    BOUND_RIGHT: bool = False
    """Whether the left and the right bound of the band hide a key."""
    RAGGED: bool = False
    """Whether the last key tile is not whole."""
    USE_TMA: bool = False
    """Whether tiles are addressed by tensor descriptors (launch.can_use_tma), or by pointers."""
    PATTERN: Compiled = NO_PATTERN
    """What of a pattern beside the band there is."""

    TRACE: bool = False

    @property
    def HAS_PART(self) -> tuple[bool, bool, bool]:  # noqa: N802 (named like the constexprs beside it)
        """Whether there can be key tiles in each of `traversal.part_of_tiles`."""
        before, after = self.PATTERN.CUTS
        return self.BOUND_LEFT or before, True, self.BOUND_RIGHT or self.RAGGED or after

    @property
    def PRECISION(self) -> str:  # noqa: N802
        """How products multiply float32."""
        return "ieee" if self.DTYPE == tl.float32 else "tf32"

    @property
    def ITEMSIZE(self) -> int:  # noqa: N802
        """Bytes of an element of DTYPE."""
        return self.DTYPE.primitive_bitwidth // 8


def cases_of(band: Band, block_n: int) -> dict[str, bool]:
    """The cases of a band that are compiled into a kernel with key tiles of so many rows."""
    ragged = band.kv_len % block_n != 0
    return {"BOUND_LEFT": band.bounds_left, "BOUND_RIGHT": band.bounds_right, "RAGGED": ragged}


def fixed_of(
    query: torch.Tensor,
    config: TileConfig,
    recorder: Recorder | None,
    band: Band | None = None,
    use_tma: bool = False,
    pattern: Compiled = NO_PATTERN,
) -> Fixed:
    """What is compiled into a kernel on such tensors. A bound that hides no key is left out of the code."""
    head_dim = query.shape[3]
    return Fixed(
        DTYPE=TRITON_DTYPES[query.dtype],
        HEAD_DIM=head_dim,
        BLOCK_D=triton.next_power_of_2(head_dim),
        BLOCK_M=config.block_m,
        BLOCK_N=config.block_n,
        USE_TMA=use_tma,
        TRACE=recorder is not None,
        PATTERN=pattern,
        **(cases_of(band, config.block_n) if band else {}),
    )


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


KEY_TILES = frozenset({"k", "v", "dk", "dv"})
"""Names of tensors that are cut into tiles of block_n rows; all others have block_m."""


def launch_on_tiles(
    kernel: Any,
    grid: Sequence[int],
    tensors: Mapping[str, torch.Tensor],
    *others: Any,
    band: Band,
    scale: float,
    config: TileConfig,
    recorder: Recorder | None = None,
    described: Collection[str] | None = None,
    pattern: Pattern | None = None,
    per_head: Mapping[str, torch.Tensor] | None = None,
    **own: Any,
) -> LaunchInfo:
    """Launch a plain attention kernel; `own` are the arguments that do not follow from the others.

    Its first arguments are `tensors` (batch, heads, rows, head_dim), Q as "q" and K as "k" among them, and it
    takes their strides by these names. Those of `described` (all, if it is None) are tensor descriptors if
    these can address them; the rest are pointers. A kernel that knows a `pattern` takes it as `mods`;
    `per_head` are its slopes and sinks, if they are not those of the pattern. Raises InvalidProblem if the
    tiles do not fit the GPU.
    """
    query = tensors["q"]
    described = tensors if described is None else described
    use_tma = bool(described) and can_use_tma(config, *(tensors[name] for name in described))
    axis = 2 if "dk" in tensors else 1
    of_pattern, mods = mods_of(pattern, scale, config.block_m, config.block_n, query.device, axis)
    fixed = fixed_of(query, config, recorder, band, use_tma, of_pattern)

    def argument(name: str, tensor: torch.Tensor) -> torch.Tensor | TensorDescriptor:
        if not (use_tma and name in described):
            return tensor
        block = [1, 1, config.block_n if name in KEY_TILES else config.block_m, fixed.BLOCK_D]
        return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), block)

    (batch, q_heads), kv_heads = query.shape[:2], tensors["k"].shape[1]
    in_turn = tiles.heads_in_turn(batch * q_heads, band.bounds_right or of_pattern.PLANNED)
    numbers = {"scale": scale, "q_heads": q_heads, "kv_heads": kv_heads, "heads_in_turn": in_turn}
    numbers["group_size"] = q_heads // kv_heads
    own |= {name: number for name, number in numbers.items() if name in kernel.arg_names}
    if "mods" in kernel.arg_names:
        own["mods"] = mods._replace(**per_head) if mods and per_head else mods  # type: ignore[arg-type]
    with on_device(query, config):
        compiled = launch(
            kernel,
            grid,
            *itertools.starmap(argument, tensors.items()),
            *others,
            strides=strides_of(**tensors),
            band=band,
            scale_log2=scale * LOG2E.value,
            trace=recorder.buffers if recorder else None,
            max_steps=recorder.max_steps if recorder else 0,
            FIXED=fixed,
            num_warps=config.num_warps,
            num_stages=config.num_stages,
            **own,
        )
    return launch_info(config, compiled)
