"""Figures of the Check page on results made by hand."""

import math

import numpy as np
import pytest

from kernels.check.result import ErrorMap
from kernels.problem import AttentionProblem
from viz.check.verdict import LEAST_SHARE, share_figure
from viz.shared import theme

PROBLEM = AttentionProblem(q_len=4, kv_len=6, block_m=4, block_n=4, mask="causal")
VALUES = np.array([[0.5, 0.0], [2.0, 0.0], [0.1, 0.0], [0.0, 0.2]], np.float32)
MAP = ErrorMap("weights", VALUES, 0, 1, 4, 4, 6)
COLORS = theme.LIGHT


def test_a_map_is_warning_red_exactly_above_what_is_allowed():
    heat = share_figure(MAP, PROBLEM, COLORS).data[0]

    def color_of(share):
        place = (math.log10(share) - heat.zmin) / (heat.zmax - heat.zmin)
        return [color for stop, color in heat.colorscale if stop <= place][-1]

    assert color_of(1.01) == COLORS.bad != color_of(0.99)
    assert heat.customdata[1][0] == 2.0
    assert heat.z[2][1] == pytest.approx(math.log10(LEAST_SHARE))
    assert heat.z[0][0] == pytest.approx(math.log10(0.5))
