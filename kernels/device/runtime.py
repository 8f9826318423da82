"""Chooses the backend once, when this file is imported. BACKEND and DEVICE are read from here.

Import it before triton, which reads TRITON_INTERPRET only once. Importing this file imports torch and triton.
"""

from __future__ import annotations

from kernels.device.backend import choose_backend

BACKEND = choose_backend()
""""cuda", "interpreter", or "compiler" in a process that runs no kernel."""
DEVICE = "cuda" if BACKEND == "cuda" else "cpu"
"""Where the kernels' tensors live."""
INTERPRETED = BACKEND == "interpreter"
WITHOUT_GPU = BACKEND != "cuda"

if INTERPRETED:
    from kernels.device.interpreter import patch_once_per_launch

    patch_once_per_launch()
