"""Triton FlashAttention kernels, their traces and their measurements.

Names are loaded on first use, and torch and triton with them.
"""

import importlib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
"""The project's folder, in which child processes are started."""

_HOMES = {
    "AttentionProblem": "kernels.problem",
    "InvalidProblem": "kernels.problem",
    "Measurement": "kernels.measure.measurement",
    "Trace": "kernels.trace",
    "MultiHeadAttention": "kernels.attention.layer",
    "flash_attention": "kernels.attention.flash_attention",
    "make_inputs": "kernels.problem.inputs",
    "naive_attention": "kernels.oracle.naive",
    "run_traced": "kernels.algorithms",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kernels' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
