"""Implementations of attention that are measured beside each other."""

from __future__ import annotations

import contextlib
import functools
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from kernels.problem import AttentionProblem

if TYPE_CHECKING:
    import torch

    from kernels.primitives.launch import TileConfig

    Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

FLASH_ATTENTION_4 = "flash-attn-4"
"""The package of FlashAttention-4, on PyPI as a prerelease."""


@dataclass(frozen=True)
class Peer:
    label: str
    backends: tuple[str, ...]
    make: Callable[[AttentionProblem], Attention]
    differentiable: bool = True
    by_default: bool = True
    """Whether it is measured if no peers are named. FlexAttention compiles too long for that."""
    package: str = ""
    """The package that it needs beside torch and triton; without that it is refused."""
    library_version: Callable[[], str] = str
    """Gives the version of a library that is not a package of its own; "" if torch's own version says it."""

    @property
    def is_installed(self) -> bool:
        """Whether its package is installed, or it needs none."""
        return not self.package or package_version(self.package) != ""

    @property
    def version(self) -> str:
        """Version of what it is from; "" if torch's own version says it."""
        return package_version(self.package) if self.package else self.library_version()


@functools.cache  # pages ask at every redraw
def package_version(package: str) -> str:
    """The version of a package, which is not imported; "" if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _cudnn_version() -> str:
    import torch

    number = torch.backends.cudnn.version() or 0  # 9.19.0 is 91900
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number else ""


def _naive(problem: AttentionProblem) -> Attention:
    from kernels.oracle.naive import naive_attention

    return functools.partial(naive_attention, scale=problem.scale, band=problem.rule)


def _ours(problem: AttentionProblem) -> Attention:
    from kernels.attention.flash_attention import flash_attention

    return functools.partial(flash_attention, **call_options(problem))


def call_options(problem: AttentionProblem) -> dict[str, Any]:
    """The options of `flash_attention` for a problem, on the device at hand."""
    options: dict[str, Any] = {"is_causal": problem.is_causal, "window": problem.window, "enable_gqa": True}
    if pattern := problem.pattern:
        import torch

        for name, values in (("alibi_slopes", pattern.slopes), ("sinks", pattern.sinks)):
            options[name] = torch.tensor(values, device=_device()) if values else None
        options |= {
            "mask": problem.mask_words,
            "documents": pattern.documents or None,
            "softcap": pattern.softcap,
        }
    return options


def _ours_with_the_problems_tiles(problem: AttentionProblem) -> Attention:
    from kernels.algorithms.flash2.forward import flash_forward
    from kernels.primitives.launch import config_of

    return _output_of(flash_forward, problem, config_of(problem))


def _output_of(forward: Callable, problem: AttentionProblem, config: TileConfig) -> Attention:
    asked: dict[str, Any] = {"band": problem.band, "scale": problem.scale, "config": config}
    attend = functools.partial(forward, **asked | ({"pattern": problem.pattern} if problem.pattern else {}))
    return lambda query, key, value: attend(query, key, value)[0]


def _hopper_with_its_own_tiles(problem: AttentionProblem) -> Attention:
    from kernels.algorithms import ensure_runs, named

    entry = named("flash3")
    own = entry.with_own_tiles(problem)
    ensure_runs(entry, own)
    from kernels.algorithms.flash3.launch import flash_forward_hopper
    from kernels.algorithms.flash3.run import own_config

    return _output_of(flash_forward_hopper, own, own_config(own))


def _sdpa(backend: str, problem: AttentionProblem) -> Attention:
    """`backend` is the name of one of SDPBackend; "" leaves the choice to torch."""
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    options = _sdpa_mask(problem)
    if problem.group_size > 1:
        options["enable_gqa"] = True

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(getattr(SDPBackend, backend)) if backend else contextlib.nullcontext():
            return F.scaled_dot_product_attention(query, key, value, **options)

    return attend


def _sdpa_mask(problem: AttentionProblem) -> dict:
    """is_causal for equal lengths, a bias for unequal ones, a bool mask for a window.

    torch aligns is_causal to the top left, so it is another mask if the lengths differ.
    """
    if pattern := problem.pattern:
        if pattern.softcap or pattern.slopes or pattern.sinks or pattern.by_head:
            raise NotImplementedError("torch takes no softcap, ALiBi, sink logit or mask per head here")
    elif problem.mask == "full":
        return {}
    elif problem.is_causal and problem.q_len == problem.kv_len:
        return {"is_causal": True}
    elif problem.is_causal:
        from torch.nn.attention.bias import causal_lower_right

        return {"attn_mask": causal_lower_right(problem.q_len, problem.kv_len)}
    from kernels.oracle.naive import visible_mask

    return {"attn_mask": visible_mask(problem.rule, device=_device())}


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _flex(problem: AttentionProblem) -> Attention:
    from kernels.measure.flex import flex_attention_of

    return flex_attention_of(problem)


def _flash_attention_4(problem: AttentionProblem) -> Attention:
    if not package_version(FLASH_ATTENTION_4):
        raise NotImplementedError(f"its package is not installed: pip install --pre {FLASH_ATTENTION_4}")
    os.environ.setdefault("FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED", "1")  # it compiles for some seconds
    warnings.filterwarnings("ignore", message="Argument aux_data")  # of its own code, at each compilation
    from flash_attn.cute import flash_attn_func

    if problem.pattern:
        raise NotImplementedError("its masks and scores beyond a window are not timed here")

    mask = {"causal": problem.is_causal, "window_size": problem.window or (None, None)}

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        # Its tensors are (batch, length, heads, head_dim), of any strides.
        tensors = (tensor.transpose(1, 2) for tensor in (query, key, value))
        out, _ = flash_attn_func(*tensors, softmax_scale=problem.scale, **mask)
        return out.transpose(1, 2)

    return attend


GPU, EVERYWHERE = ("cuda",), ("cuda", "interpreter")
PEERS = {
    "naive": Peer("standard (torch)", EVERYWHERE, _naive),
    "ours": Peer("our kernels, tiles tuned for a full GPU", GPU, _ours),
    "flash2": Peer("our kernel, these tiles", GPU, _ours_with_the_problems_tiles, differentiable=False),
    "flash3": Peer("our Hopper kernel, own tiles", GPU, _hopper_with_its_own_tiles, differentiable=False),
    "sdpa_math": Peer("SDPA math", EVERYWHERE, functools.partial(_sdpa, "MATH"), by_default=False),
    "sdpa": Peer("torch fused (CPU)", ("interpreter",), functools.partial(_sdpa, "")),
    "sdpa_flash": Peer("SDPA flash", GPU, functools.partial(_sdpa, "FLASH_ATTENTION")),
    "sdpa_efficient": Peer("SDPA efficient", GPU, functools.partial(_sdpa, "EFFICIENT_ATTENTION")),
    "sdpa_cudnn": Peer(
        "SDPA cuDNN", GPU, functools.partial(_sdpa, "CUDNN_ATTENTION"), library_version=_cudnn_version
    ),
    "fa4": Peer("FlashAttention-4", GPU, _flash_attention_4, package=FLASH_ATTENTION_4),
    "flex": Peer("FlexAttention", GPU, _flex, by_default=False),
}
