"""Triton FlashAttention kernels, their traces and their measurements. Names are loaded on first use, torch and triton with them."""

from __future__ import annotations

import importlib

_HOMES = {
    "AttentionProblem": "kernels.problem",
    "InvalidProblem": "kernels.problem",
    "Measurement": "kernels.measurement",
    "Trace": "kernels.trace",
    "MultiHeadAttention": "kernels.layer",
    "flash_attention": "kernels.attention",
    "make_inputs": "kernels.inputs",
    "naive_attention": "kernels.reference",
    "run_traced": "kernels.trace",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'kernels' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
