"""Tensors of the tests of the public call."""

import sys
from types import ModuleType

import pytest
import torch

from kernels.device.runtime import DEVICE


def draw(*shape, dtype=torch.float32, seed=0, requires_grad=False):
    """Standard normal numbers."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(DEVICE, dtype).requires_grad_(requires_grad)


@pytest.fixture
def qkv():
    return [draw(1, 2, 12, 16, seed=seed) for seed in range(3)]


@pytest.fixture
def leaves():
    return [draw(1, 2, 33, 32, seed=seed, requires_grad=True) for seed in range(3)]


@pytest.fixture(autouse=True)
def main_is_no_page(monkeypatch):
    """Processes run the main module again: a page of Streamlit that a test before ran may be gone."""
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
