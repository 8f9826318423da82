"""Recorded sweeps as scenes: what is accepted, what the stage is given, and what its words may use."""

import math
from collections import defaultdict

import msgspec
import pytest

from kernels.measure.measurement import DIRECTIONS
from kernels.measure.series import peer_curves
from kernels.recordings import recorded_document
from viz.measure.sources import recorded_source
from viz.player.talk.chart import (
    METRICS,
    Chart,
    InvalidChart,
    chart_curves,
    chart_data,
    chart_figures,
    fullest_last,
    recorded_curves,
)
from viz.player.talk.data import talk_data
from viz.player.talk.read import parse_talk

SCENE = 'title = "t"\n[[scene]]\ntitle = "One"\nsentence = "{ours} at {last}"\n'


def test_points_are_those_of_the_recording():
    chart = Chart(peers=("naive", "ours"))
    data = chart_data(chart)
    curves = peer_curves("recorded", fullest_last(recorded_document("sweeps").measurements), chart.view)
    (ours,) = [curve for curve in curves if (curve.peer, curve.direction) == ("ours", "forward")]
    drawn = {math.exp(x): math.exp(y) for x, y in data["series"][1]["points"]}
    assert {round(x): y for x, y in drawn.items()} == pytest.approx(ours.values("time"))
    assert [each["name"] for each in data["series"]] == ["standard (torch)", "our FlashAttention"]
    assert "H200" in data["source"]
    assert "causal" in data["source"]


def test_the_factor_of_a_curve_is_that_of_the_values_where_it_and_the_first_end():
    chart = Chart(peers=("naive", "sdpa_flash", "ours"))
    naive, flash, ours = chart_data(chart)["series"]
    values = [math.exp(each["points"][-1][1]) for each in (naive, flash, ours)]
    assert naive["factor"] == ""
    for curve, value in zip((flash, ours), values[1:], strict=True):
        assert float(curve["factor"].removesuffix("× faster")) == pytest.approx(values[0] / value, rel=0.05)


def test_a_curve_above_the_first_is_not_called_faster_or_less():
    for metric in ("time", "memory"):
        low, high = chart_data(Chart(metric=metric, peers=("ours", "naive")))["series"]
        assert (low["factor"], high["factor"]) == ("", "")


def doubled():
    """Problem to its measurements, of each problem that the recording holds more than once."""
    by_problem = defaultdict(list)
    for measurement in recorded_document("sweeps").measurements:
        by_problem[measurement.problem].append(measurement)
    return {problem: found for problem, found in by_problem.items() if len(found) > 1}


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_shape_that_was_measured_twice_has_the_values_of_measure_and_of_its_fullest_run(direction):
    assert len(doubled()) == 12
    for problem, found in doubled().items():
        fields = {"mask": problem.mask, "head_dim": problem.head_dim, "dtype": problem.dtype}
        chart = Chart(direction=direction, **fields)
        chart = msgspec.structs.replace(chart, peers=tuple(recorded_curves(chart)))
        on_page = recorded_source().curves(chart.view)
        shown = {curve.peer: curve.timings[problem.q_len] for curve in chart_curves(chart)}
        page = {curve.peer: curve.timings for curve in on_page if curve.direction == direction}
        assert shown == {peer: timings[problem.q_len] for peer, timings in page.items()}
        fullest = max(found, key=lambda measurement: len(measurement.results))
        for peer in ("naive", "ours", "sdpa_flash", "sdpa_cudnn", "fa4"):
            assert shown[peer] == fullest.result(peer, direction).timing
        assert "flex" in shown  # which the fullest run does not have
        assert fullest.result("flex", direction) is None


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_every_metric_has_a_chart(metric, direction):
    data = chart_data(Chart(metric, direction=direction))
    assert len(data["series"]) == (2 if metric == "speedup" else 3)
    for each in data["series"]:
        assert all(math.isfinite(x) and math.isfinite(y) for x, y in each["points"])


def test_a_speed_up_needs_standard_attention_but_does_not_have_to_show_it():
    (ours,) = chart_data(Chart("speedup", peers=("ours",)))["series"]
    assert ours["name"] == "our FlashAttention"
    with pytest.raises(InvalidChart, match="has no speed-up"):
        chart_data(Chart("speedup", peers=("naive",)))


def test_what_was_not_recorded_is_refused():
    with pytest.raises(InvalidChart, match="nothing of this chart was recorded"):
        chart_data(Chart(head_dim=96))
    with pytest.raises(InvalidChart, match=r"sdpa_math was not recorded .*; recorded are .*naive"):
        chart_data(Chart(peers=("ours", "sdpa_math")))
    assert recorded_curves(Chart(head_dim=96)) == {}


def test_words_have_the_numbers_of_the_last_common_point():
    figures = chart_figures(Chart(peers=("naive", "ours")))
    assert figures["last"] == "16,384"
    data = chart_data(Chart(peers=("naive", "ours")))
    assert [figures["naive"], figures["ours"]] == [each["last"] for each in data["series"]]


def test_a_scene_with_a_chart_has_no_run_and_the_numbers_of_its_chart():
    data = talk_data(parse_talk(SCENE + 'chart = { metric = "memory" }\n', "a.toml"), {})
    assert data["runs"] == {}
    assert data["scenes"][0]["sentence"].endswith("at 16,384")
