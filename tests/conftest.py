"""Fixtures that every test may use. `gpu` tests are skipped on machines without CUDA."""

import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import pytest

from kernels.backend import choose_backend

choose_backend()  # before any test module: some parts of torch import triton, which reads TRITON_INTERPRET only once


def pytest_collection_modifyitems(items):
    if not any("gpu" in item.keywords for item in items):
        return
    import torch

    if torch.cuda.is_available():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="no CUDA GPU"))


@pytest.fixture
def poisoned():
    """Fresh tensors start as NaN, so that an element no kernel wrote is seen."""
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)
