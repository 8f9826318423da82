"""Fixtures of the kernel tests."""

import pytest

from kernels.device.runtime import DEVICE
from kernels.measure import roofline as ceilings
from kernels.measure import sweep
from kernels.problem import AttentionProblem


@pytest.fixture
def quick_points(monkeypatch):
    """Two small points instead of the sweep, and ceilings of small tensors."""
    peers = ("naive", "sdpa" if DEVICE == "cpu" else "ours")
    problem = AttentionProblem(head_dim=16, dtype="float32", block_m=32, block_n=32)
    points = [sweep.SweepPoint(problem.with_(q_len=length, kv_len=length), peers) for length in (32, 64)]
    monkeypatch.setattr(sweep, "BUDGET_S", 0.01)
    monkeypatch.setattr(sweep, "sweep_points", lambda: points)
    monkeypatch.setattr(ceilings, "COPY_BYTES", dict.fromkeys(("cpu", "cuda"), 1 << 20))
    monkeypatch.setattr(ceilings, "PRODUCT_SIZE", dict.fromkeys(("cpu", "cuda"), 64))
    monkeypatch.setattr(ceilings, "BUDGET_S", 0.01)
    return points
