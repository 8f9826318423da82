"""Tests of the whole project; each folder mirrors one of `kernels/` or `viz/`."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUGGY_KERNEL = ROOT / "examples" / "buggy_kernel.py"
