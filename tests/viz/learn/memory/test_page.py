"""The Memory chapter: areas and bars to scale, and the share of S that fits on the chip."""

import re

import pytest

from kernels.algorithms.standard.traffic import matrix_bytes
from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from viz.learn.memory.page import HBM_SIDE, areas, bars
from viz.learn.roofline.maths import memory_against_compute
from viz.shared import theme


def problem(length, head_dim=64):
    return AttentionProblem(q_len=length, kv_len=length, head_dim=head_dim)


@pytest.mark.parametrize(("length", "gpu"), [(512, "A100"), (65536, "B200")])
def test_areas_are_to_each_other_as_bytes(length, gpu):
    html = areas(problem(length), GPUS[gpu], theme.LIGHT)
    hbm, spot, scores, query, sram = (float(side) for side in re.findall(r'style="width:([\d.]+)px', html))
    s_bytes, sram_bytes = matrix_bytes(problem(length)), GPUS[gpu].shared_bytes_per_sm
    assert hbm == HBM_SIDE
    assert spot**2 / hbm**2 == pytest.approx(s_bytes / GPUS[gpu].hbm_bytes, rel=0.05, abs=1e-4)
    assert query**2 / scores**2 == pytest.approx(64 / length, rel=0.05, abs=1e-5)
    assert sram**2 / scores**2 == pytest.approx(sram_bytes / s_bytes, rel=0.05, abs=1e-5)


def test_bars_are_to_each_other_as_their_values_and_moving_takes_longer_than_computing():
    html = bars(theme.DARK, ("a", 2.0, "2 s", ""), ("b", 8.0, "8 s", "S"))
    assert re.findall(r"width:([\d.]+)%", html) == ["25.00", "100.00"]
    assert "sym-S" in html
    times = memory_against_compute(problem(4096, 256))
    assert all(times.memory_seconds(gpu) > times.compute_seconds(gpu) for gpu in GPUS.values())
