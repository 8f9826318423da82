"""Figures of the Check page on results made by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from kernels.check.result import ErrorMap
from kernels.problem import AttentionProblem
from viz.check.figures.maps import LEAST_SHARE, pickable_tiles, share_figure
from viz.shared import theme

PROBLEM = AttentionProblem(q_len=4, kv_len=6, block_m=4, block_n=4, mask="causal")
VALUES = np.array([[[0.5, 0.0], [2.0, 0.0], [0.1, 0.0], [0.0, 0.2]]], np.float32)
MAP = ErrorMap("weights", VALUES, np.array([0]), 1, 4, 4, 6, -VALUES)
COLORS = theme.LIGHT


def test_a_map_is_warning_red_exactly_above_what_is_allowed_and_blank_where_nothing_is_seen():
    codes = np.array([[[0, 1], [2, 3], [0, 0], [0, 0]]], np.uint8)
    heat = share_figure(replace(MAP, codes=codes), 0, PROBLEM, COLORS).data[0]

    def color_of(share):
        place = (math.log10(share) - heat.zmin) / (heat.zmax - heat.zmin)
        return [color for stop, color in heat.colorscale if stop <= place][-1]

    assert color_of(1.01) == COLORS.bad != color_of(0.99)
    assert list(heat.customdata[1][0]) == [2.0, -2.0]
    assert np.isnan(heat.z[0][1])  # row 0 sees the keys 0 to 2
    assert heat.z[2][1] == pytest.approx(math.log10(LEAST_SHARE))  # row 2 sees key 4: an error of 0 is drawn
    assert heat.z[0][0] == pytest.approx(math.log10(0.5))
    assert "NaN" in heat.text[1][1]


def test_every_tile_can_be_picked_and_the_chosen_one_is_outlined():
    assert pickable_tiles(MAP, PROBLEM) == [(0, 0), (0, 1)]
    figure = share_figure(MAP, 0, PROBLEM, COLORS, (0, 1))
    points = figure.data[-1]
    assert list(zip(points.x, points.y, strict=True)) == [(1.5, 1.5), (5.5, 1.5)]
    outline = figure.layout.shapes[-1]
    assert (outline.x0, outline.x1, outline.y0, outline.y1) == (3.5, 5.5, -0.5, 3.5)
    many = AttentionProblem(q_len=4096, kv_len=4096, block_m=4, block_n=4)
    assert pickable_tiles(replace(MAP, column_step=64, rows=4096, columns=4096), many) == []
