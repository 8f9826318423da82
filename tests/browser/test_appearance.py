"""The system goes from light to dark while a page is open."""

import pytest

from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from tests.browser.stage import Stage, speaker_of
from tests.viz.player.runs import GPU
from viz.player.data import player_data
from viz.player.html_page import export_html
from viz.shared.theme import palettes_for_player

pytestmark = pytest.mark.browser

LIGHT, DARK = (palettes_for_player()[name]["background"] for name in ("light", "dark"))
BACKGROUNDS = """(css) => {
  const all = [...document.querySelectorAll("*")].flatMap((each) => [each, each.shadowRoot ?? []]).flat();
  const shown = new Set(all.flatMap((each) => [...each.querySelectorAll(css)]));
  return [...new Set([...shown].map((each) => each.style.getPropertyValue("--fa-background")))];
}"""


def backgrounds(page):
    """The colours that the stage and all players of a page are drawn on."""
    return page.evaluate(BACKGROUNDS, ".fa-talk, .fa-player")


def test_an_exported_player_follows_and_keeps_its_place(visit, tmp_path):
    trace = recorded_run(PRESETS["tiny"].problem, "flash2").trace
    (tmp_path / "p.html").write_text(export_html(player_data(trace, "here", GPU), {"step": "7"}))
    page = visit(f"file://{tmp_path}/p.html", color_scheme="light").page
    assert backgrounds(page) == [LIGHT]
    page.locator(".fa-player").focus()
    page.keyboard.press("ArrowRight")
    drawn = page.locator(".fa-stage").screenshot()
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"() => ({BACKGROUNDS})('.fa-player')[0] === '{DARK}'", timeout=5_000)
    assert page.locator(".fa-count").text_content() == "step 8 / 64"
    assert page.locator(".fa-stage").screenshot() != drawn


def test_both_windows_of_an_exported_talk_follow_in_all_their_screens(visit, talk_files):
    page = visit(talk_files[True], color_scheme="light").page
    stage = Stage(page).press("5", "Enter", "1", "Enter", "o", "o")
    speaker = speaker_of(stage)
    for window in (page, speaker.page):
        window.emulate_media(color_scheme="dark")
        window.wait_for_timeout(300)
        assert backgrounds(window) == [DARK]
    assert stage.place == (1, 1)
