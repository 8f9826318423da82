"""Areas and bars are to scale."""

import re

import pytest

from kernels.device.gpus import GPUS
from kernels.lessons.memory import matrix_bytes, scores_bytes
from kernels.problem import AttentionProblem
from viz.learn.figures.hierarchy import HBM_SIDE, Bar, bars_html, to_scale_html
from viz.shared import theme


@pytest.mark.parametrize("length", [512, 4096, 65536])
@pytest.mark.parametrize("gpu", GPUS.values(), ids=list(GPUS))
def test_areas_are_to_each_other_as_bytes(length, gpu):
    problem = AttentionProblem(q_len=length, kv_len=length)
    html = to_scale_html(problem, gpu, theme.LIGHT)
    hbm, spot, scores, query, sram = (float(side) for side in re.findall(r'style="width:([\d.]+)px', html))
    assert hbm == HBM_SIDE
    assert spot**2 / hbm**2 == pytest.approx(scores_bytes(problem) / gpu.hbm_bytes, rel=0.05, abs=1e-4)
    assert query**2 / scores**2 == pytest.approx(
        matrix_bytes(problem) / scores_bytes(problem), rel=0.05, abs=1e-5
    )
    assert sram**2 / scores**2 == pytest.approx(
        gpu.shared_bytes_per_sm / scores_bytes(problem), rel=0.05, abs=1e-5
    )


def test_bars_are_to_each_other_as_their_values():
    html = bars_html((Bar("a", 2.0, "2 s", "good"), Bar("b", 8.0, "8 s", "standard", "S")), theme.DARK)
    assert re.findall(r"width:([\d.]+)%", html) == ["25.00", "100.00"]
    assert "sym-S" in html
