"""Chooses the backend once, when this file is imported. BACKEND and DEVICE are read from here.

Import it before triton, which reads TRITON_INTERPRET only once. Importing this file imports torch and triton.
Raises RuntimeError without triton.
"""

import contextlib
import warnings
from collections.abc import Iterator

import numpy as np
import torch

from kernels.device.backend import choose_backend, triton_missing

if missing := triton_missing():
    raise RuntimeError(f"No kernel can run here: {missing}.")
BACKEND = choose_backend()
DEVICE = "cuda" if BACKEND == "cuda" else "cpu"
"""Where the kernels' tensors live."""
INTERPRETED = BACKEND == "interpreter"

if INTERPRETED:
    from kernels.device.interpreter import quicken

    quicken()


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
