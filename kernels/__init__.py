"""Triton FlashAttention kernels, their traces and their measurements.

Names are loaded on first use, and torch and triton with them.
"""

import functools
import importlib
import importlib.util
from pathlib import Path
from pkgutil import extend_path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
"""The project's folder, in which child processes are started."""

__path__ = extend_path(__path__, __name__)
"""Behind our folder that of Hugging Face's package `kernels`, if it is installed: transformers imports from
it by this name, which in this project's folder is ours. No module of one has the name of one of the other."""

_HOMES = {
    "AttentionProblem": "kernels.problem",
    "InvalidProblem": "kernels.problem",
    "Measurement": "kernels.measure.measurement",
    "Trace": "kernels.trace",
    "flash_attention": "kernels.attention.flash_attention",
    "make_inputs": "kernels.problem.inputs",
    "naive_attention": "kernels.oracle.naive",
    "run_traced": "kernels.algorithms",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name.startswith("_") or name not in _namesake():
        raise AttributeError(f"module 'kernels' has no attribute {name!r}")
    return _namesake()[name]


@functools.cache
def _namesake() -> dict[str, Any]:
    """What Hugging Face's package has by its own name; empty without it."""
    others = (
        Path(folder, "__init__.py") for folder in __path__ if not Path(__file__).parent.samefile(folder)
    )
    for file in others:
        spec = importlib.util.spec_from_file_location(f"{__name__}._namesake", file)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return vars(module)
    return {}
