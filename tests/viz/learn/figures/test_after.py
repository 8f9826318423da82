"""Charts of the last chapter, on hand-built data."""

import numpy as np

from kernels.device.gpus import GPUS
from kernels.lessons.late_rescale import LateRescale, exp2_errors
from kernels.lessons.low_precision import PrecisionResult
from kernels.lessons.split_kv import Occupancy, SplitRow
from kernels.lessons.units import tile_clocks
from viz.learn.figures import after


def test_every_sm_has_a_square_and_the_rest_of_the_line_none(colors):
    programs = np.array([2] * 40 + [1] * 60 + [0] * 8)
    squares = after.sm_figure(programs, 140, colors).data[0].z
    assert np.nansum(squares) == 140
    assert np.isfinite(squares).sum() == 108
    assert "100 of 108 SMs busy" in after.sm_figure(programs, 140, colors).layout.title.text


def test_steps_mark_the_rule_and_the_choice(colors):
    curve = [Occupancy(1, 8, 4, 132), Occupancy(2, 4, 8, 132), Occupancy(4, 2, 16, 132)]
    figure = after.split_steps_figure(curve, curve[0], curve[2], colors)
    assert list(figure.data[0].y) == [8, 4, 2]
    assert {trace.name: trace.x[0] for trace in figure.data[1:]} == {"the kernel's rule": 4, "shown": 1}


def test_parts_name_their_keys(colors):
    part = np.array([0.25, 0.75])
    row = SplitRow(
        np.array([0, 64]),
        np.array([64, 100]),
        part,
        part,
        part,
        np.ones((2, 3)),
        1.0,
        part,
        np.ones(3),
        np.ones(3),
    )
    figure = after.parts_figure(row, colors)
    assert figure.data[0].hovertext == ("0–63", "64–99")
    assert list(figure.data[0].y) == [0.25, 0.75]


def test_overlapped_clocks_end_at_the_slowest_unit(colors):
    clocks = {key: tile_clocks(key, GPUS[key], 128, 128, 64, 0.25) for key in ("H100", "B200")}
    figure = after.clocks_figure(clocks, colors)
    assert [bar.name for bar in figure.data[:-1]] == ["tensor cores", "exponentials", "polynomial"]
    assert list(figure.data[-1].x) == [1024, 768]
    assert list(figure.data[-1].customdata) == ["tensor cores", "exponentials"]


def test_errors_of_the_formats_are_in_order(colors):
    results = (
        PrecisionResult("float16", 1e-4, 1e-3),
        PrecisionResult("e4m3, one scale per block", 2e-2, 1e-1),
    )
    figure = after.precision_figure(results, colors)
    assert figure.data[0].text == ("1.0e-04", "2.0e-02")
    assert list(figure.data[0].marker.pattern.shape) == ["", "."]


def test_rotation_draws_magnitudes(colors):
    figure = after.rotation_figure(np.array([-9.0, 1.0]), np.array([3.0, -4.0]), colors)
    assert [list(bar.y) for bar in figure.data] == [[9.0, 1.0], [3.0, 4.0]]


def test_late_rescales_are_shares(colors):
    figure = after.late_rescale_figure(
        [LateRescale(0, 10, 20, 1.0, 0.0), LateRescale(8, 0, 20, 9.0, 0.0)], 8, colors
    )
    assert list(figure.data[0].y) == [0.5, 0.0]
    assert list(figure.data[0].marker.line.width) == [0, 3]


def test_the_polynomial_is_drawn_between_the_roundings(colors):
    figure = after.exp2_figure(*exp2_errors(3), 3, colors)
    assert len(figure.layout.shapes) == 4
    assert len(figure.data[0].x) == len(figure.data[0].y)
