"""The exported talk on paper: a page per scene, as the browser prints it."""

from dataclasses import replace

import pytest

from tests.browser.pdf import counted, drawn_pages
from tests.browser.stage import ROOT
from viz.player.scene import read_talk
from viz.player.talk import export_talk, talk_data
from viz.talk.shipped import NAMES, measured, recorded_runs, talk_path

pytestmark = pytest.mark.browser

PAPER = "() => [...document.querySelectorAll('.fa-print-page')].map((page) => page.textContent)"
WIDE_AND_TALL = {"audience": b"/MediaBox [0 0 960 540]", "speaker": b"/MediaBox [0 0 960 720]"}
"""1280 x 720 pixels in points of the PDF; with notes, 960 high."""


@pytest.fixture(params=WIDE_AND_TALL)
def printed(request, visit, talk_files):
    """(whose window, the page, the PDF), printed in the middle of the talk, in dark colours."""
    hash_of = {"audience": "", "speaker": "#speaker"}[request.param]
    opened = visit(talk_files[True] + hash_of, reduced_motion="reduce", color_scheme="dark")
    opened.page.wait_for_function(f"() => {ROOT}.querySelector('.fa-screen-title')?.textContent")
    opened.press("Space", "Space", "Space", "b")
    yield request.param, opened.page, opened.page.pdf(prefer_css_page_size=True)
    opened.assert_clean()


def test_a_scene_is_a_page_and_no_page_is_blank(printed, talk):
    whose, _, pdf = printed
    pages = drawn_pages(pdf)
    assert len(pages) == len(talk["scenes"]) == 6
    for page in pages:
        texts, shapes = counted(page)
        assert texts > 15  # title, sentence, source, labels of the picture
        assert shapes > 60  # tiles or cells
    assert len(set(pages)) == 6
    assert pdf.count(WIDE_AND_TALL[whose]) == 6


def test_what_is_on_paper_is_gone_afterwards_and_the_talk_goes_on(printed):
    _, page, _ = printed
    assert page.evaluate(PAPER) == []
    before = page.evaluate(f"{ROOT}.querySelector('.fa-screen-foot').lastChild.textContent")
    page.keyboard.press("End")
    assert page.evaluate(f"{ROOT}.querySelector('.fa-screen-foot').lastChild.textContent") != before


@pytest.fixture
def paper(visit, talk_files):
    """A function: texts of the pages before they are printed, in the window with that end of its address."""

    def texts(with_speaker, hash_of=""):
        page = visit(talk_files[with_speaker] + hash_of, color_scheme="dark").page
        page.wait_for_function(f"() => {ROOT}.querySelector('.fa-screen-title')?.textContent")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        return page, page.evaluate(PAPER)

    return texts


def test_each_page_has_its_title_its_picture_and_its_last_sentence(paper, talk):
    page, texts = paper(True)
    for scene, text in zip(talk["scenes"], texts, strict=True):
        assert scene["title"] in text
        sentences = [scene["sentence"], *(stop["sentence"] for stop in scene["stops"])]
        if not scene["tells"]:
            assert [words for words in sentences if words][-1] in text
    look = """() => [...document.querySelectorAll('.fa-print-page')].map((page) => {
      const seen = (css) => [...page.querySelectorAll(css)].filter((node) => node.clientWidth > 0);
      const marks = seen('.fa-stage').flatMap((stage) => [...stage.querySelectorAll('rect, path')]);
      return { canvases: seen('canvas').length, picture: marks.length + seen('.fa-cell').length };
    })"""
    for seen in page.evaluate(look):
        assert seen["canvases"] == 0  # all is vectors
        assert seen["picture"] > 60
    assert "max m 0.535 → 1.12" in texts[3]  # what the scene hides first is shown


def test_it_is_printed_in_light_colours(paper):
    page, _ = paper(False)
    background = "getComputedStyle(document.querySelector('.fa-print .fa-screen')).backgroundColor"
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    assert page.evaluate(f"getComputedStyle({ROOT}).display") == "none"


def test_only_the_speakers_window_prints_the_notes(paper, talk):
    notes = [line for text in talk["notes"] for line in text.split("\n") if len(line) > 20]
    _, with_notes = paper(True, "#speaker")
    assert all(any(note in text for text in with_notes) for note in notes)
    for whose in (True, False):
        _, without = paper(whose)
        assert not any(note in text for text in without for note in notes)


def test_notes_that_are_too_long_for_the_page_go_on_at_the_next(visit, talk, tmp_path):
    long = ["\n".join(f"note {line}" for line in range(30)), *talk["notes"][1:]]
    (tmp_path / "long.html").write_text(export_talk(talk | {"notes": long}, True))
    page = visit(f"file://{tmp_path}/long.html#speaker").page
    page.wait_for_function(f"() => {ROOT}.querySelector('.fa-note')?.textContent")
    assert len(drawn_pages(page.pdf(prefer_css_page_size=True))) == 7


def test_a_chart_is_a_page_like_the_others(visit, tmp_path):
    shipped = read_talk(talk_path(NAMES[1]))
    chart = next(number for number, scene in enumerate(shipped.scenes) if scene.chart)
    talk = replace(shipped, scenes=shipped.scenes[chart : chart + 2])
    (tmp_path / "t.html").write_text(export_talk(talk_data(talk, recorded_runs(talk), measured), False))
    opened = visit(f"file://{tmp_path}/t.html", color_scheme="dark")
    opened.page.wait_for_function(f"() => {ROOT}.querySelector('.fa-screen-title')?.textContent")
    pages = drawn_pages(opened.page.pdf(prefer_css_page_size=True))
    assert [counted(page)[0] > 15 for page in pages] == [True, True]
    opened.assert_clean()
