"""The windows of a talk in a real browser: the speaker's, the exported file's, and the stage in the app."""

import random

import pytest

from tests.browser.stage import BEATS, ROOT, Stage, speaker_of
from tests.browser.visit import PLAYER, Visit
from viz.player.scene import parse_talk, read_talk
from viz.player.talk import export_talk, talk_data
from viz.talk.shipped import NAMES, measured, recorded_runs, talk_path

pytestmark = pytest.mark.browser

GRID_OF_TINY = """title = "t"
[[scene]]
title = "One"
sentence = "s"
problem = "tiny"
step = "20"
notes = "n"
"""


def test_a_tile_that_is_clicked_shows_its_numbers_in_both_windows(visit, tmp_path):
    talk = parse_talk(GRID_OF_TINY, "t.toml")
    (tmp_path / "t.html").write_text(export_talk(talk_data(talk, recorded_runs(talk)), True))
    stage = Stage(visit(f"file://{tmp_path}/t.html", reduced_motion="reduce").page)
    speaker = speaker_of(stage)
    opens = f"() => Boolean({ROOT}.querySelector('.fa-shows-tile'))"
    box = stage.page.locator(".fa-stage").first.bounding_box()
    stage.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    for window in (stage, speaker):
        window.page.wait_for_function(opens)
    pointed = stage.page.locator(".fa-stage").first.get_attribute("title")
    assert pointed.startswith("query tile ")
    assert "follow" not in pointed  # a row, which a click on a page does
    tiles = [window.text(".fa-screen-foot span").split(" · ")[0] for window in (stage, speaker)]
    assert tiles[0].startswith("Query tile ")
    assert tiles[0] == tiles[1]
    speaker.press("Escape")
    stage.page.wait_for_function(f"() => !({opens})()")
    assert not stage.shows(".fa-curtain")


def test_keys_alone_open_a_tile_and_go_to_its_neighbours(visit, tmp_path):
    talk = parse_talk(GRID_OF_TINY, "t.toml")
    (tmp_path / "t.html").write_text(export_talk(talk_data(talk, recorded_runs(talk)), True))
    opened = visit(f"file://{tmp_path}/t.html", reduced_motion="reduce")
    stage = Stage(opened.page)
    tiles = []
    for key in ("z", "]", "[", "["):
        tiles.append(stage.press(key).text(".fa-screen-foot span").split(",")[:2])
    assert tiles[1] not in (tiles[0], tiles[3])
    assert tiles[0] == tiles[2] != tiles[3]
    assert not stage.press("z").shows(".fa-shows-tile")
    assert not stage.press("]").shows(".fa-shows-tile")
    opened.assert_clean()


@pytest.mark.parametrize(
    ("field", "shown", "said"),
    [
        ('problem = "tiny"\nrow = "0.21"', "Query tile 5, key tile 3, explained for row 21", ""),
        ('problem = "gpt2"', "", "recorded without the numbers of its tiles"),
        ('problem = "tiny"\nversus = { algorithm = "flash1" }\nstep = "steps:20"', "", "no tile to open"),
    ],
)
def test_z_opens_the_tile_of_the_picked_row_or_says_why_it_opens_none(visit, tmp_path, field, shown, said):
    step = "" if "step" in field else 'step = "20"\n'
    text = f'title = "t"\n[[scene]]\ntitle = "One"\nsentence = "s"\n{step}{field}\n'
    talk = parse_talk(text, "t.toml")
    (tmp_path / "t.html").write_text(export_talk(talk_data(talk, recorded_runs(talk)), True))
    opened = visit(f"file://{tmp_path}/t.html", reduced_motion="reduce")
    stage = Stage(opened.page).press("z")
    assert stage.shows(".fa-shows-tile") == bool(shown)
    if shown:
        assert stage.text(".fa-screen-foot").startswith(shown)
    assert said in stage.text(".fa-what-line")
    assert stage.shows(".fa-what-line") == bool(said)
    opened.assert_clean()


def test_both_windows_stand_in_step_after_100_random_keys(stage):
    speaker = speaker_of(stage)
    keys = ["Space", "PageUp", "n", "p", "Home", "End", "b", ".", "F5", "Shift+F5", "Escape", "ArrowRight"]
    random.seed(14)
    for _ in range(100):
        random.choice([stage, speaker]).press(random.choice(keys))
    stage.page.wait_for_timeout(500)
    look = f"""() => {{
      const find = (css) => {ROOT}.querySelector(css);
      return [find('.fa-screen-foot').lastChild.textContent, find('.fa-screen-sentence').textContent];
    }}"""
    assert stage.page.evaluate(look) == speaker.page.evaluate(look)
    said = speaker.text(".fa-status")
    assert said == (
        "The talk is ended."
        if stage.shows(".fa-curtain")
        else "The audience sees black."
        if stage.shows(".fa-black")
        else ""
    )


def test_the_speaker_has_the_notes_and_the_audience_never(stage, talk):
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
    assert speaker.text(".fa-left-time").endswith("left")
    speaker.press("Home")
    stage.page.wait_for_function("() => location.hash === '#1.1'")


def test_a_window_that_opens_late_stands_where_the_talk_stands(stage):
    stage.press("5", "Enter", "Space")
    speaker = speaker_of(stage)
    speaker.page.wait_for_function(
        f"() => {ROOT}.querySelector('.fa-screen-foot').textContent.endsWith('5 / 6')"
    )


def test_a_window_that_opens_after_the_stage_was_reloaded_stands_where_the_talk_stands(stage):
    stage.press("5", "Enter", "Space")
    stage.page.reload()
    stage.page.wait_for_function(f"() => {ROOT}?.querySelector('.fa-screen-title')?.textContent")
    speaker = speaker_of(stage)
    at_five = f"() => {ROOT}.querySelector('.fa-screen-foot').textContent.endsWith('5 / 6')"
    speaker.page.wait_for_function(at_five)
    stage.page.wait_for_function(at_five)


# --- take away ---


def test_the_exported_file_runs_without_a_network_and_without_notes(browser, talk_files, talk):
    visit = Visit(browser, "about:blank", offline=True)
    visit.page.goto(talk_files[False])
    stage = Stage(visit.page)
    assert [stage.place, *(stage.press("Space").place for _ in BEATS[1:])] == BEATS
    held = visit.page.content()
    assert not [text for text in talk["notes"] if text.strip()[:30] in held]
    stage.press("s")
    visit.page.wait_for_timeout(200)
    assert len(visit.context.pages) == 1  # there is no speaker's window
    visit.assert_clean()
    visit.context.close()


# --- readable ---


@pytest.mark.parametrize("size", [(1280, 720), (3840, 2160)])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_tile_labels_is_smaller_than_18_px(browser, tmp_path, name, size):
    shipped = read_talk(talk_path(name))
    data = talk_data(shipped, recorded_runs(shipped), measured)
    (tmp_path / "talk.html").write_text(export_talk(data, False))
    visit = Visit(browser, "about:blank", size=size)
    visit.page.add_init_script("""
      window.sizes = [];
      const fill = CanvasRenderingContext2D.prototype.fillText;
      CanvasRenderingContext2D.prototype.fillText = function (words, ...rest) {
        const size = parseFloat(/([\\d.]+)px/.exec(this.font)[1]) * this.getTransform().a / devicePixelRatio;
        if (this.canvas.width && this.canvas.height) window.sizes.push([size, String(words)]);
        return fill.call(this, words, ...rest);
      };""")
    visit.page.goto(f"file://{tmp_path}/talk.html")
    scale = size[1] / 720
    smallest = """() => [...document.querySelectorAll('.fa-screen *')]
      .filter((n) => [...n.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim()))
      .filter((n) => n.checkVisibility() && !n.classList.contains('fa-cell'))
      .map((n) => [parseFloat(getComputedStyle(n).fontSize), n.textContent.slice(0, 40), n.className])
      .concat(window.sizes.splice(0)).sort((a, b) => a[0] - b[0])[0]"""
    stage = Stage(visit.page)
    for _ in range(60):
        found = visit.page.evaluate(smallest)
        assert found[0] >= 18 * scale - 0.01, (stage.place, found)
        code = "parseFloat(getComputedStyle(document.querySelector('.fa-screen-code')).fontSize)"
        assert visit.page.evaluate(code) >= 28 * scale - 0.01
        before = stage.place
        if stage.press("Space").place == before:
            break
    assert stage.place[0] == len(data["scenes"])
    visit.assert_clean()
    visit.context.close()


# --- in the app ---


def test_the_list_opens_a_stage_without_navigation_and_its_speaker_window(visit, talk):
    opened = visit()
    opened.page.get_by_role("link", name="Talk").click()
    opened.page.locator("[data-test-script-state=notRunning]").wait_for(state="attached", timeout=60_000)
    opened.page.get_by_text("On stage").first.click()
    opened.page.wait_for_function(
        f"() => {ROOT}?.querySelector('.fa-screen-title')?.textContent", timeout=60_000
    )
    stage = Stage(opened.page)
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
    speaker.page.wait_for_function(said, arg=talk["notes"][5].strip())
    speaker.press("Home")
    opened.page.wait_for_function("() => location.hash === '#1.1'")
    assert not [text for text in talk["notes"] if text.strip()[:30] in opened.page.content()]
    opened.assert_clean()


def test_an_embedded_page_shows_the_player_alone(visit):
    from playwright.sync_api import expect

    opened = visit("/?embed=true&step=40")
    opened.page.wait_for_function(
        f"() => {PLAYER}?.querySelector('.fa-count')?.textContent.includes('40 / 136')"
    )
    opened.page.locator("[data-test-script-state=notRunning]").wait_for(timeout=60_000)
    for part in ("stHeader", "stSidebar", "stMetric", "stHeading", "stTopNavLink"):
        shown = opened.page.locator(f"[data-testid={part}]").filter(visible=True)
        expect(shown).to_have_count(0, timeout=20_000)  # the page's style may be put in anew for a moment
    opened.page.keyboard.press("ArrowRight")
    assert opened.step()[0] == 41
    opened.assert_clean()
