"""A chart on the stage, between scenes with runs, at two sizes."""

import pytest

from tests.browser.stage import Stage
from viz.player.scene import parse_talk
from viz.player.talk import export_talk, talk_data
from viz.talk.shipped import recorded_runs

pytestmark = pytest.mark.browser

TALK = """title = "t"
[[scene]]
title = "A run"
sentence = "s"
problem = "tiny"
[[scene]]
title = "A chart"
sentence = "{naive} and {ours} at {last}"
chart = { peers = ["naive", "sdpa_flash", "ours"] }
step = "1"
stops = ["3"]
[[scene]]
title = "Another run"
sentence = "s"
problem = "gpt2"
"""
SHOWN = "(css) => document.querySelector(css).checkVisibility()"


@pytest.fixture
def stage(visit, tmp_path):
    talk = parse_talk(TALK, "t.toml")
    (tmp_path / "t.html").write_text(export_talk(talk_data(talk, recorded_runs(talk)), False))
    opened = visit(f"file://{tmp_path}/t.html", reduced_motion="reduce")
    yield Stage(opened.page)
    opened.assert_clean()


def lines(stage):
    return stage.page.locator(".fa-chart polyline[stroke-width]").count() // 2  # each has a leader


def test_curves_appear_stop_by_stop_and_the_player_comes_back(stage):
    assert stage.page.evaluate(SHOWN, ".fa-stage")
    stage.press("Space")
    assert stage.place == (2, 1)
    assert lines(stage) == 1
    assert not stage.page.evaluate(SHOWN, ".fa-stage")
    stage.press("Space")
    assert lines(stage) == 3
    assert stage.text(".fa-screen-sentence").endswith("at 16,384")
    assert "recorded on NVIDIA H200" in stage.text(".fa-screen-foot")
    stage.press("z", "w", "Space")
    assert stage.place == (3, 1)
    assert stage.page.evaluate(SHOWN, ".fa-stage")
    assert not stage.page.evaluate(SHOWN, ".fa-chart")


@pytest.mark.parametrize("size", [(1280, 720), (3840, 2160)])
def test_its_words_are_inside_and_large(stage, size):
    stage.page.set_viewport_size({"width": size[0], "height": size[1]})
    stage.press("2", "Enter", "Space")
    stage.page.wait_for_timeout(300)
    boxes = stage.page.evaluate(
        """() => [...document.querySelectorAll('.fa-chart text')].map((n) => {
          const { left, right, top, bottom } = n.getBoundingClientRect();
          return [left, right, top, bottom, parseFloat(getComputedStyle(n).fontSize)];
        })"""
    )
    scale = size[1] / 720
    assert len(boxes) > 10
    for left, right, top, bottom, font in boxes:
        assert 0 <= left < right <= size[0]
        assert 0 <= top < bottom <= size[1]
        assert font >= 18 * scale
