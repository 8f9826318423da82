"""Figures of the Check page on results made by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from kernels.check.case.cases import CheckCase
from kernels.check.result import CheckResult, ErrorMap, SensitivityPoint, TensorCheck
from kernels.device.backend import DeviceInfo
from kernels.problem import AttentionProblem
from viz.check.figures.errors import blocks_figure, errors_figure, scales_figure, ulps_figure
from viz.check.figures.maps import LEAST_SHARE, codes_figure, pickable_tiles, share_figure
from viz.shared import theme

PROBLEM = AttentionProblem(q_len=4, kv_len=6, block_m=4, block_n=4, mask="causal")
ULPS = {"ulps": (60, 4) + (0,) * 8, "naive_ulps": (50, 14) + (0,) * 8}
TENSOR = TensorCheck(
    *("O", 1e-3, 1e-4, 2e-3, 1e-4, 4e-3, (0, 0, 1, 2), 0.5, 0.499, 0, 0, 64), **ULPS, reference="float16"
)
DEVICE = DeviceInfo("interpreter", "cpu", "2", "3", "3.12")
RESULT = CheckResult(CheckCase(PROBLEM), "ours", DEVICE, "2026-01-01", 0.1, (TENSOR,))
VALUES = np.array([[[0.5, 0.0], [2.0, 0.0], [0.1, 0.0], [0.0, 0.2]]], np.float32)
MAP = ErrorMap("weights", VALUES, np.array([0]), 1, 4, 4, 6, VALUES)
COLORS = theme.LIGHT


def named(figure):
    return {trace.name: trace for trace in figure.data if trace.name}


def test_errors_stand_beside_what_is_allowed():
    failing = replace(TENSOR, name="dQ", max_error=1.0)
    figure = errors_figure(replace(RESULT, tensors=(TENSOR, failing)), COLORS)
    assert list(named(figure)["this kernel"].x) == [1.0, 1e-3]
    assert list(named(figure)["allowed"].y) == ["dQ", "O"]
    assert [trace.line.color for trace in figure.data if trace.mode == "lines"] == [COLORS.bad, COLORS.good]


@pytest.mark.parametrize(("error", "color"), [(math.inf, COLORS.bad), (0.0, COLORS.good)])
def test_what_no_log_axis_can_show_is_written(error, color):
    tensor = replace(TENSOR, max_error=error, wrong_nonfinite=12)
    figure = errors_figure(replace(RESULT, tensors=(tensor,)), COLORS)
    (words,) = figure.layout.annotations
    assert words.font.color == color
    assert ("12" in words.text) == (error > 0)
    assert len(named(figure)["this kernel"].x) == 0


def test_ulps_are_shares_of_all_elements():
    figure = ulps_figure(TENSOR, COLORS)
    assert named(figure)["this kernel"].y[0] == 60 / 64
    assert sum(named(figure)["low-precision reference"].y) == 1


def test_a_map_is_warning_red_exactly_above_what_is_allowed_and_blank_where_nothing_is_seen():
    heat = share_figure(MAP, 0, PROBLEM, COLORS).data[0]

    def color_of(share):
        place = (math.log10(share) - heat.zmin) / (heat.zmax - heat.zmin)
        return [color for stop, color in heat.colorscale if stop <= place][-1]

    assert color_of(1.01) == COLORS.bad != color_of(0.99)
    assert heat.customdata[1][0] == 2.0
    assert np.isnan(heat.z[0][1])  # row 0 sees the keys 0 to 2
    assert heat.z[2][1] == pytest.approx(math.log10(LEAST_SHARE))  # row 2 sees key 4: an error of 0 is drawn
    assert heat.z[0][0] == pytest.approx(math.log10(0.5))


def test_every_tile_can_be_picked_and_the_chosen_one_is_outlined():
    assert pickable_tiles(MAP, PROBLEM) == [(0, 0), (0, 1)]
    figure = share_figure(MAP, 0, PROBLEM, COLORS, (0, 1))
    points = figure.data[-1]
    assert list(zip(points.x, points.y, strict=True)) == [(1.5, 1.5), (5.5, 1.5)]
    outline = figure.layout.shapes[-1]
    assert (outline.x0, outline.x1, outline.y0, outline.y1) == (3.5, 5.5, -0.5, 3.5)
    many = AttentionProblem(q_len=4096, kv_len=4096, block_m=4, block_n=4)
    assert pickable_tiles(replace(MAP, column_step=64, rows=4096, columns=4096), many) == []


def test_nan_and_infinity_are_told_apart():
    found = replace(MAP, kind="O", codes=np.array([[[0, 1], [2, 3], [0, 0], [0, 0]]], np.uint8))
    heat = codes_figure(found, 0, COLORS).data[0]
    assert "NaN" in heat.customdata[1][1]
    assert (heat.zmin, heat.zmax) == (0, 3)


def test_sensitivity_shows_zero_nan_and_refusals():
    points = (
        SensitivityPoint("2^0", 1e-3, 4e-3, 2e-3, 0, 0, 5.0),
        SensitivityPoint("2^4", 0.0, 4e-3, 2e-3, 0, 0, 80.0),
        SensitivityPoint("2^9", math.inf, 4e-3, 2e-3, 7, 3, 2e3),
    )
    figure = named(scales_figure(points, COLORS))
    kernel = figure["this kernel"]
    assert list(kernel.x) == [0, 4, 9]
    assert (kernel.y[0], kernel.y[2], kernel.customdata[1][0]) == (1e-3, None, 0)
    assert 0 < kernel.y[1] < 1e-3
    assert list(figure["NaN: this kernel"].customdata) == [7]
    assert figure["reference"].y[2] is None  # not a line to an error that leaves the NaN out
    refused = SensitivityPoint("128 x 128", math.inf, 0.0, 0.0, 0, 0, refused="too large")
    assert list(named(blocks_figure((points[0], refused), COLORS))["allowed"].x) == ["2^0"]


def test_the_worst_share_is_over_all_tensors():
    assert RESULT.worst_share == 0.25
    infinite = replace(TENSOR, max_error=1.0, tolerance=0.0)
    assert replace(RESULT, tensors=(TENSOR, infinite)).worst_share == math.inf
