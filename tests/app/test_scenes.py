"""Measure writes what it shows as a scene that a talk reads and shows."""

import pytest

from tests.app.pages import open_page
from viz.player.talk.data import talk_data
from viz.player.talk.read import parse_talk
from viz.talk.shipped import recorded_runs

pytestmark = pytest.mark.usefixtures("stop_the_worker")


def scene_of(app):
    """The scene that the page writes; a talk of it is shown."""
    (toml,) = [code.value for code in app.code if code.value.startswith("[[scene]]")]
    talk = parse_talk('title = "t"\n' + toml, "a.toml")
    talk_data(talk, recorded_runs(talk))
    return talk.scenes[0]


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ({}, ("time", "length", "forward", "full")),
        ({"chart": "memory", "masking": "causal"}, ("memory", "length", "forward", "causal")),
        ({"which": "backward", "chart": "TFLOP/s"}, ("tflops", "length", "backward", "full")),
        ({"axis": "head_dim", "len": 4096}, ("time", "head_dim", "forward", "full")),
    ],
)
def test_measure_writes_the_chart_that_is_shown(query, fields):
    chart = scene_of(open_page("measure", **query)).chart
    assert (chart.metric, chart.axis, chart.direction, chart.mask) == fields
    assert chart.peers[0] == "naive"
    assert "ours" in chart.peers
