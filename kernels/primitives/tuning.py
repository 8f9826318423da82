"""Which tiles a kernel runs with: a table per architecture, and a rule for shapes that are not in it.

`python -m kernels.tune` makes the table. Nothing is tuned while a page or a model runs.
"""

import functools
import json
from pathlib import Path

import torch

from kernels.device.runtime import BACKEND
from kernels.file_format import format_mismatch
from kernels.primitives.launch import TileConfig, config_for_blocks

import triton

FOLDER = Path(__file__).parent / "tuned"
FORMAT = "flash-attention-tiles"
FORMAT_VERSION = 1
KERNELS = ("forward", "forward_hopper", "dk_dv", "dq")
GLUON_VERSIONS = ("3.6.", "3.7.")
SHORT_LENGTH = 2048
"""Sequences up to this length are a class of their own: a program has few steps, so its start and end take a
larger share of its time."""


def shape_class(kernel: str, head_dim: int, itemsize: int, masked: bool, length: int) -> str:
    """The key of the table: "forward-d64-2B-causal-short"."""
    width = next(size for size in (32, 64, 128, 256) if head_dim <= size)
    mask, size = "causal" if masked else "full", "short" if length <= SHORT_LENGTH else "long"
    return f"{kernel}-d{width}-{itemsize}B-{mask}-{size}"


@functools.cache
def tuned_table(architecture: str) -> dict[str, TileConfig]:
    """The table of an architecture such as "sm90"; empty if it has none.

    Raises ValueError for a file of another format or version.
    """
    path = FOLDER / f"{architecture}.json"
    if not path.exists():
        return {}
    document = json.loads(path.read_text())
    if mismatch := format_mismatch(document, (FORMAT,), FORMAT_VERSION):
        raise ValueError(f"{path.name} is {mismatch}. Make it again with python -m kernels.tune.")
    return {key: TileConfig(**entry["config"]) for key, entry in document["classes"].items()}


@functools.cache
def architecture() -> str:
    """ "sm90" for compute capability 9.0; "interpreter" without a GPU."""
    if BACKEND != "cuda":
        return "interpreter"
    major, minor = torch.cuda.get_device_capability()
    return f"sm{major}{minor}"


@functools.lru_cache(maxsize=1024)
def choose_config(kernel: str, head_dim: int, dtype: torch.dtype, masked: bool, length: int) -> TileConfig:
    """Tiles of "forward", "dk_dv" or "dq" for a shape; `length` is that of the sequence that is streamed."""
    itemsize = dtype.itemsize
    tuned = tuned_table(architecture()).get(shape_class(kernel, head_dim, itemsize, masked, length))
    return tuned or fallback_config(kernel, head_dim, itemsize)


def gluon_is_known() -> bool:
    """Whether the Hopper kernel can be imported and compiled.

    It is written in Gluon, which is experimental: Triton 3.9 renamed parts of it.
    """
    return triton.__version__.startswith(GLUON_VERSIONS)


HOPPER_KERNEL = BACKEND == "cuda" and gluon_is_known()
"""Whether kernels for Hopper can be imported, and launched if the GPU is one; no interpreter runs Gluon."""


@functools.lru_cache(maxsize=1024)
def hopper_config(head_dim: int, dtype: torch.dtype, masked: bool, length: int) -> TileConfig | None:
    """Tiles of the Hopper kernel for a shape; None if the plain kernel is faster or the only one."""
    name = shape_class("forward_hopper", head_dim, dtype.itemsize, masked, length)
    return tuned_table(architecture()).get(name)


def fallback_config(kernel: str, head_dim: int, itemsize: int) -> TileConfig:
    """Tiles that fit every GPU: 64 x 64, smaller if rows are long or float32."""
    if itemsize == 4:
        return TileConfig(32, 32, 4, 1)
    if kernel == "forward":
        return config_for_blocks(64, 64 if head_dim <= 128 else 32, head_dim, itemsize)
    return TileConfig(64, 64, 4, 2) if head_dim <= 128 else TileConfig(32, 32, 4, 1)


def split_config(rows: int, head_dim: int, itemsize: int) -> TileConfig:
    """Tiles of split-KV decoding for `rows` packed rows.

    Key tiles are so large that one program uses all of its SM's share of the memory bandwidth.
    """
    block_m = next((block for block in (16, 32, 64) if rows <= block), 64)
    if itemsize == 4:
        return TileConfig(block_m, 32, 4, 3)
    return TileConfig(block_m, 128 if head_dim <= 128 else 64, 4, 3)
