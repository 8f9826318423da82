"""Chooses the backend, once, when it is imported. Import it before triton: Triton reads TRITON_INTERPRET only once.

Whatever launches a kernel takes BACKEND and DEVICE from here. Importing this file imports torch and triton.
"""

from __future__ import annotations

from kernels.device.backend import choose_backend

BACKEND = choose_backend()
""""cuda" or "interpreter"."""
DEVICE = "cuda" if BACKEND == "cuda" else "cpu"
"""Where the kernels' tensors live."""
INTERPRETED = BACKEND == "interpreter"

if INTERPRETED:
    from kernels.device.interpreter import patch_once_per_launch

    patch_once_per_launch()
