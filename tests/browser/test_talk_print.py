"""The exported talk on paper: a page per scene, as the browser prints it."""

import re
from dataclasses import dataclass

import pytest

from tests.browser.stage import Stage, opened
from viz.player.talk.data import export_talk
from viz.shared import theme
from viz.talk.shipped import NAMES, talk_path

pytestmark = pytest.mark.browser

PAPER = "() => [...document.querySelectorAll('.fa-print-page')].map((page) => page.textContent)"
LOOK = """() => [...document.querySelectorAll('.fa-print-page')].map((page) => {
  const seen = (css) => [...page.querySelectorAll(css)].filter((node) => node.clientWidth > 0);
  const background = getComputedStyle(page.closest('.fa-print')).backgroundColor;
  const isDrawn = (canvas) => {
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    return new Set(new Uint32Array(pixels.buffer)).size > 20;
  };
  const finer = seen('canvas:not(.fa-lanes)').map((each) => each.width / each.clientWidth);
  return { finer, drawn: seen('.fa-stage').some(isDrawn) || seen('.fa-chart').length > 0, background };
})"""
PAPER_COLOR = "rgb({}, {}, {})".format(*bytes.fromhex(theme.LIGHT.background[1:]))
POINTS = {"": b"/MediaBox [0 0 960 540]", "#speaker": b"/MediaBox [0 0 960 720]"}
"""1280 x 720 pixels in points of the PDF; with notes, 960 high. By the end of the window's address."""


@dataclass
class Printed:
    """What a window prints in the middle of the talk, in dark colours."""

    end: str
    stage: Stage
    texts: list[str]
    """Of each page, before it is printed."""
    looks: list[dict]
    pdf: bytes


@pytest.fixture(scope="module", params=POINTS)
def printed(request, open_visit, talk_files):
    visit = open_visit(talk_files[True] + request.param, color_scheme="dark")
    stage = opened(visit).press("Space", "Space", "Space", "b")
    page = visit.page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    texts, looks = page.evaluate(PAPER), page.evaluate(LOOK)
    page.emulate_media(media="null")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    return Printed(request.param, stage, texts, looks, page.pdf(prefer_css_page_size=True))


def pages_of(pdf):
    """How many pages a PDF has."""
    return len(re.findall(rb"/Type /Page\b", pdf))


def test_a_scene_is_a_page_of_fine_pixels_in_light_colours_and_no_page_is_blank(printed, talk):
    assert pages_of(printed.pdf) == printed.pdf.count(POINTS[printed.end]) == len(talk["scenes"]) == 6
    for look in printed.looks:
        assert look["background"] == PAPER_COLOR
        assert look["drawn"]
        assert set(look["finer"]) <= {4}


def test_each_page_has_its_title_and_its_last_sentence_and_in_the_speakers_window_its_notes(printed, talk):
    for scene, notes, text in zip(talk["scenes"], talk["notes"], printed.texts, strict=True):
        assert scene["title"] in text
        sentences = [scene["sentence"], *(stop["sentence"] for stop in scene["stops"])]
        assert [words for words in sentences if words][-1] in text
        assert (notes.strip() in text) == bool(printed.end)
    assert "max m = 0.535 → 1.12" in printed.texts[2]


def test_what_is_on_paper_is_gone_afterwards_and_the_talk_goes_on(printed):
    assert printed.stage.page.evaluate(PAPER) == []
    assert printed.stage.press("End").number == 6


def test_notes_that_are_too_long_for_the_page_go_on_at_the_next(visit, talk, tmp_path):
    long = ["\n".join(f"note {line}" for line in range(30)), *talk["notes"][1:]]
    (tmp_path / "long.html").write_text(export_talk(talk | {"notes": long}, True))
    page = opened(visit(f"file://{tmp_path}/long.html#speaker")).page
    assert pages_of(page.pdf(prefer_css_page_size=True)) == 7


def test_a_chart_is_a_page_like_the_others(stage_of):
    scenes = talk_path(NAMES[1]).read_text().split("[[scene]]")
    chart = next(number for number, scene in enumerate(scenes) if "\nchart = " in scene)
    stage = stage_of("[[scene]]".join([scenes[0], scenes[chart], scenes[chart]]), color_scheme="dark")
    assert pages_of(stage.page.pdf(prefer_css_page_size=True)) == 2
