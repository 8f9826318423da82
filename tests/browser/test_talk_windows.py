"""The windows of a talk in a real browser: the speaker's, the exported file's, and the stage in the app."""

import pytest

from tests.browser.stage import BEATS, ROOT, Stage, speaker_of
from tests.browser.visit import PLAYER
from viz.talk.shipped import NAMES

pytestmark = pytest.mark.browser

GRID_OF_TINY = """title = "t"
[[scene]]
title = "One"
sentence = "s"
problem = "tiny"
step = "20"
notes = "n"
"""
IS_OPEN = f"() => Boolean({ROOT}.querySelector('.fa-shows-tile'))"


def test_a_tile_that_is_clicked_shows_its_numbers_in_both_windows(stage_of):
    stage = stage_of(GRID_OF_TINY)
    speaker = speaker_of(stage)
    picture = stage.page.locator(".fa-stage").first
    box = picture.bounding_box()
    stage.page.mouse.click(box["x"] + box["width"] / 5, box["y"] + box["height"] / 2)
    for window in (stage, speaker):
        window.page.wait_for_function(IS_OPEN)
    pointed = picture.get_attribute("title")
    assert pointed.startswith("query tile ")
    assert "follow" not in pointed  # a row, which a click on a page does
    tiles = [window.text(".fa-screen-foot span").split(" · ")[0] for window in (stage, speaker)]
    assert tiles[0] == tiles[1]
    speaker.press("Escape")
    stage.page.wait_for_function(f"() => !({IS_OPEN})()")
    assert not stage.shows(".fa-curtain")


def test_a_key_opens_a_tile_and_goes_through_its_phases_and_on_to_the_next(stage_of):
    stage = stage_of(GRID_OF_TINY)
    seen = [stage.press("z").text(".fa-screen-foot span").split(",")[:2]]
    said = [stage.text(".fa-screen-sentence")]
    while seen[-1] == seen[0]:
        seen.append(stage.press("z").text(".fa-screen-foot span").split(",")[:2])
        said.append(stage.text(".fa-screen-sentence"))
    assert len(set(said)) == len(said) > 4
    assert not stage.press("Escape").shows(".fa-shows-tile")


def test_a_key_opens_no_tile_that_the_scene_has_not_come_to(stage_of):
    stage = stage_of(GRID_OF_TINY.replace('step = "', 'row = "0.31"\nstep = "', 1)).press("z")
    assert stage.text(".fa-screen-foot span").startswith("Query tile 2, key tile 3")


def test_a_run_without_numbers_opens_no_tile_and_says_why(stage_of):
    stage = stage_of(GRID_OF_TINY.replace("tiny", "gpt2")).press("z")
    assert not stage.shows(".fa-shows-tile")
    assert stage.shows(".fa-notice")


def test_the_speaker_has_the_notes_and_the_audience_never(stage_of, talk):
    stage = stage_of(NAMES[0])
    notes = [line for text in talk["notes"] for line in text.split("\n") if len(line) > 20]
    speaker = speaker_of(stage)
    for number in range(1, 7):
        stage.press(str(number), "Enter")
        held = stage.page.evaluate("document.documentElement.outerHTML")
        assert not [line for line in notes if line in held]
        speaker.page.wait_for_function(
            f"(notes) => {ROOT}.querySelector('.fa-note').textContent === notes",
            arg=talk["notes"][number - 1].strip(),
        )
    speaker.press("Home", "b")
    stage.page.wait_for_function(
        f"() => location.hash === '#1.1' && !{ROOT}.querySelector('.fa-black').hidden"
    )
    speaker.press("Escape", "Escape")
    stage.page.wait_for_function(f"() => !{ROOT}.querySelector('.fa-curtain').hidden")


def test_a_window_that_is_loaded_again_or_opens_late_stands_where_the_talk_stands(stage_of):
    stage = stage_of(NAMES[0]).press("6", "Enter", "Space")
    stage.page.reload()
    stage.page.wait_for_function(f"() => {ROOT}?.querySelector('.fa-screen-title')?.textContent")
    for window in (speaker_of(stage), stage):
        window.page.wait_for_function(
            f"() => {ROOT}.querySelector('.fa-screen-foot').textContent.endsWith('6\\u00a0/\\u00a06')"
        )


# --- take away ---


def test_the_exported_file_runs_without_a_network_and_without_notes(visit, talk_files, talk):
    shown = visit(talk_files[False], offline=True)
    stage = Stage(shown.page)
    assert stage.shows(".fa-curtain")  # with the title
    assert [stage.press("Space").place, *(stage.press("Space").place for _ in BEATS[1:])] == BEATS
    held = shown.page.content()
    assert not [text for text in talk["notes"] if text.strip()[:30] in held]
    stage.press("s")
    assert len(shown.context.pages) == 1  # there is no speaker's window


# --- in the app ---


def test_the_list_opens_a_stage_without_navigation_and_its_speaker_window(visit, talk):
    opened = visit()
    opened.page.get_by_role("link", name="Talk").click()
    opened.page.locator("[data-test-script-state=notRunning]").wait_for(state="attached", timeout=60_000)
    stages = opened.page.get_by_text("On stage")
    stages.nth(len(NAMES) - 1).wait_for()  # the first on the page may not be the first that came
    stages.first.click()
    opened.page.wait_for_function(
        f"() => {ROOT}?.querySelector('.fa-screen-title')?.textContent", timeout=60_000
    )
    stage = Stage(opened.page).press("Home")
    assert "name=" in opened.page.url
    opened.page.wait_for_function(
        "() => !document.querySelector('[data-testid=stHeader]')?.checkVisibility()"
    )
    opened.page.evaluate("document.fonts.ready.then(() => true)")
    asked = []
    opened.page.on("request", lambda request: asked.append(request.url))
    opened.page.on("websocket", lambda socket: asked.append(socket.url))
    assert [stage.place, *(stage.press("Space").place for _ in BEATS[1:])] == BEATS
    assert [url for url in asked if not url.startswith("blob:")] == []  # a blob lies in the browser
    speaker = speaker_of(stage)
    said = f"(notes) => {ROOT}.querySelector('.fa-note').textContent === notes"
    speaker.page.wait_for_function(said, arg=talk["notes"][-1].strip())
    speaker.press("Home")
    opened.page.wait_for_function("() => location.hash === '#1.1'")
    assert not [text for text in talk["notes"] if text.strip()[:30] in opened.page.content()]
    assert stage.press("Escape").page.locator(".fa-curtain a").get_attribute("href") == "/talk"


def test_an_embedded_page_shows_the_player_alone(visit):
    from playwright.sync_api import expect

    opened = visit("/?algorithm=flash2&embed=true&step=40")
    opened.page.wait_for_function(
        f"() => {PLAYER}?.querySelector('.fa-count')?.textContent.includes('40 / 136')"
    )
    opened.page.locator("[data-test-script-state=notRunning]").wait_for(timeout=60_000)
    for part in ("stHeader", "stSidebar", "stMetric", "stHeading", "stTopNavLink"):
        shown = opened.page.locator(f"[data-testid={part}]").filter(visible=True)
        expect(shown).to_have_count(0, timeout=20_000)  # the page's style may be put in anew for a moment
    opened.page.keyboard.press("ArrowRight")
    assert opened.step()[0] == 41
