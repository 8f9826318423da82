"""What is wrong with a page as a whole: axe-core finds nothing, and nothing is cut off.

On every page, in every window of a talk and in what lies over it: all rules in one appearance, then colours
alone in the other, since the appearance of a browser may change while a page is open. All chapters are drawn
in the same colours, which `tests/viz/shared/test_theme.py` holds apart: half of them are looked at in each
appearance. Pages are visited in one window, which stays in the appearance that it has come to.
"""

import pytest

from tests.browser.stage import ROOT, Stage, opened
from tests.browser.visit import SETTLED
from tests.viz.learn.shown import PARTS
from viz.learn.chapters import CHAPTERS
from viz.player.talk.data import export_talk, talk_data
from viz.player.talk.read import parse_talk
from viz.talk.shipped import NAMES

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
pytestmark = pytest.mark.browser

PAGES = {
    "Measure": "/measure",
    "Check": "/check",
    "Your model": "/model",
    "Several GPUs": "/ranks",
    "Talk": "/talk",
}
"""Their names in the navigation, but for Explore and Learn, and their addresses."""
BACKGROUND = f"""() => getComputedStyle(
  {ROOT} ?? document.querySelector('.stApp') ?? document.body).backgroundColor"""
UNFOLD = """() => {
  const folded = document.querySelectorAll('[data-testid=stExpander] details:not([open]) > summary');
  folded.forEach((each) => each.click());
  return folded.length;
}"""
CUT_OFF = """async (patience = 10000) => {
  const main = document.querySelector('[data-testid=stMain]');
  const scrolls = (e) =>
    e !== main && (getComputedStyle(e).overflowX !== 'visible' || scrolls(e.parentElement));
  const cutOff = () => [...main.querySelectorAll('*')].filter((e) => {
    const box = e.getBoundingClientRect();
    return box.width > 2 && box.right > main.clientWidth + 1 && !scrolls(e.parentElement);
  });
  const end = performance.now() + patience; // tables and figures take their place some moments later
  while (cutOff().length && performance.now() < end) await new Promise((done) => setTimeout(done, 200));
  return cutOff().map((e) => e.outerHTML.slice(0, 80));
}"""
"""What reaches past the right edge of the page and cannot be scrolled to, after so many ms."""
DESK, PHONE = ({"width": width, "height": 800} for width in (1280, 390))


LOOK = """async (options) => (await axe.run(document, options)).violations.flatMap(({ id, nodes }) =>
  nodes.map((n) => `${id}: ${n.html.slice(0, 120)} (${n.failureSummary.slice(0, 200)})`))"""


def axe_findings(page, **options):
    """Each finding as "rule: element (why)"; `options` are those of axe.run, which a page loads once."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(axe.Axe().axe_script)
    return page.evaluate(LOOK, {"resultTypes": ["violations"], **options})


def contrast(page):
    """What axe finds of colours, which alone the appearance changes."""
    return axe_findings(page, runOnly=["color-contrast"])


def findings(page, look=axe_findings):
    """What a look finds, unless it passes: what Streamlit draws anew is pale for a moment."""
    found = look(page)
    for _ in range(8):
        if not found:
            break
        page.wait_for_timeout(700)
        found = look(page)
    return found


def in_the_other(page):
    """The page once the browser has changed to its other appearance, and the page has followed."""
    before = page.evaluate(BACKGROUND)
    is_dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    page.emulate_media(color_scheme="light" if is_dark else "dark")
    page.wait_for_function(f"(before) => ({BACKGROUND})() !== before", arg=before)
    return page


def in_both(page):
    """What is found on a page of the app in both appearances; it stays in the second one."""
    page.evaluate(SETTLED)
    found = findings(page)
    in_the_other(page).evaluate(SETTLED)
    return found + findings(page, contrast)


def unfolded(page):
    """The page once nothing is folded; what a run has drawn anew meanwhile is folded again."""
    while page.evaluate(UNFOLD):
        page.evaluate(SETTLED)
    return page


def cut_off(page, *patience):
    """What is cut off on a desk and on a phone, first at the width that the page has: it keeps the other."""
    found = page.evaluate(CUT_OFF, *patience)
    page.set_viewport_size(PHONE if page.viewport_size["width"] == DESK["width"] else DESK)
    return found + page.evaluate(CUT_OFF, *patience)


@pytest.fixture(scope="module")
def explore(open_visit):
    return open_visit("/", color_scheme="light").wait_for_player("recorded on")


@pytest.fixture
def app(explore):
    """The one window, as wide as on a desk."""
    explore.page.set_viewport_size(DESK)
    return explore.page


def go_to(page, name):
    page.get_by_test_id("stTopNavLink").filter(has_text=name).click()


def test_explore_and_its_tile_in_numbers(app, explore):
    go_to(app, "Explore")
    explore.wait_for_player("recorded on")
    found = findings(app)
    app.get_by_role("button", name="Your own sizes and words").click()
    app.locator("textarea").wait_for()
    app.evaluate(SETTLED)
    found += findings(app)
    app.locator(".fa-player").focus()
    explore.press("z")
    explore.wait_for_url("open=tile")
    found += in_both(app)
    app.locator(".fa-player").focus()
    explore.press("Escape")
    app.wait_for_function("() => !location.search.includes('open=')")
    app.evaluate(SETTLED)
    assert found + findings(app, contrast) == []


@pytest.mark.parametrize("name", PAGES)
def test_every_other_page(app, name):
    go_to(app, name)
    app.wait_for_url(f"**{PAGES[name]}*")
    app.locator("[data-testid=stMarkdownContainer] p").first.wait_for()
    assert in_both(app) == []


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.slug)
def test_every_chapter_and_on_a_phone_nothing_of_its_parts_is_cut_off(app, chapter):
    if "/learn" not in app.url:
        go_to(app, "Learn")
        app.wait_for_url("**/learn*")
    app.evaluate(SETTLED)  # a click while the page is drawn anew would be lost
    app.locator(".st-key-chapters button", has_text=f" {chapter.title}").click()
    app.get_by_role("heading", name=chapter.question).wait_for()
    app.evaluate(SETTLED)
    if CHAPTERS.index(chapter) == len(CHAPTERS) // 2:
        in_the_other(app).evaluate(SETTLED)
    found = findings(app) + cut_off(unfolded(app))  # it is as narrow as a phone from here on
    parts = app.locator(f".st-key-{PARTS.get(chapter.slug)} button")
    for number in range(1, parts.count()):
        parts.nth(number).click()
        app.evaluate(SETTLED)
        found += [f"part {number}: {each}" for each in unfolded(app).evaluate(CUT_OFF)]
    assert (parts.count() > 1) == (chapter.slug in PARTS)
    assert found == []


@pytest.mark.parametrize("window", ["stage in the app", "speaker"])
def test_the_windows_of_a_talk(visit, window, talk_files):
    url = f"{talk_files[True]}#speaker" if window == "speaker" else f"/talk?name={NAMES[0]}"
    shown = visit(url, color_scheme="light")
    opened(shown)
    found = findings(shown.page)
    assert found + findings(in_the_other(shown.page), contrast) == []


def test_a_chart_on_the_stage(visit, tmp_path):
    talk = parse_talk('title = "t"\n[[scene]]\ntitle = "c"\nsentence = "s"\nchart = {}\n', "t.toml")
    (tmp_path / "t.html").write_text(export_talk(talk_data(talk, {}), False))
    page = visit(f"file://{tmp_path}/t.html", color_scheme="light").page
    assert findings(page) + findings(in_the_other(page), contrast) == []


def test_the_exported_talk_and_what_lies_over_it(visit, talk_files):
    page = visit(talk_files[True], color_scheme="dark").page
    stage, found = Stage(page), []
    for look in (axe_findings, contrast):
        found += findings(page, look)
        for keys in (["?"], ["?", "o"], ["Escape", "g"], ["Escape", "b"], ["Escape", "Escape"]):
            found += findings(stage.press(*keys).page, look)
        stage.press("F5")
        for scene in "123456":
            stage.press(scene, "Enter")
            if look is axe_findings:
                found += findings(page)
            found += findings(stage.press("Space").page, contrast)
        in_the_other(stage.press("Escape").page)
    assert sorted(set(found)) == []


# --- these looks can fail ---


def page_of(visit, style, words):
    page = visit("about:blank", color_scheme="light").page
    page.set_content(
        f'<html lang="en" style="color-scheme: light dark"><title>t</title>{style}{words}</html>'
    )
    return page


def test_a_defect_is_found(visit):
    found = axe_findings(page_of(visit, "", "<main><h1>t</h1><button></button></main>"))
    assert [each.split(":")[0] for each in found] == ["button-name"]


def test_words_that_are_pale_in_the_dark_alone_are_found(visit):
    body = '<body style="background: light-dark(#fff, #222)">'
    page = page_of(visit, body, '<main><h1 style="color: light-dark(#000, #333)">words</h1></main>')
    assert axe_findings(page) == []
    assert [each.split(":")[0] for each in contrast(in_the_other(page))] == ["color-contrast"]


def test_what_is_cut_off_is_found(visit):
    page = page_of(
        visit, "", '<main data-testid="stMain"><h1>t</h1><div style="width: 3000px">wide</div></main>'
    )
    assert any("wide" in each for each in cut_off(page, 300))
