"""What is wrong with a page as a whole: axe-core finds nothing, text stands out, nothing is cut off.

On every page, in every window of a talk and in what lies over it, light and then dark: the appearance of a
browser may change while a page is open.
"""

import pytest

from tests.browser.looks import CUT_OFF, FAINT
from tests.browser.stage import ROOT, Stage
from tests.browser.visit import Visit
from viz.learn.chapters import CHAPTERS
from viz.player.scene import parse_talk
from viz.player.talk import export_talk, talk_data
from viz.talk.shipped import NAMES

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
pytestmark = pytest.mark.browser

PAGES = ["/", "/?open=tile", "/measure", "/check", "/talk"]
PAGES += [f"/learn?chapter={chapter.slug}" for chapter in CHAPTERS]
PAGES += ["/learn?chapter=after&after_topic=FlashAttention-3"]
PALE_LOOKED_FOR = ("/", "/measure", f"/learn?chapter={CHAPTERS[0].slug}")
"""Elsewhere words lie on the thumb of a slider or on a bar; this look sees only what their parents lie on."""
STAGES = [f"/talk?name={NAMES[0]}", f"/talk?name={NAMES[0]}&speaker=true"]


def pale(page):
    """Texts that hardly stand out, those in shadow trees and behind several layers included."""
    return page.evaluate(FAINT)


def axe_findings(page, **options):
    """Each finding as "rule: element (why)"; `options` are those of axe.run."""
    violations = (
        axe.Axe().run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
    )
    return [
        f"{each['id']}: {node['html'][:120]} ({node['failureSummary'][:200]})"
        for each in violations
        for node in each["nodes"]
    ]


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


def wait_for_page(page):
    page.locator("[data-testid=stMarkdownContainer] p").first.wait_for(timeout=60_000)
    page.locator("[data-test-script-state=notRunning]").wait_for(timeout=60_000)
    page.wait_for_timeout(500)  # what is drawn anew fades in


def in_the_dark(visit):
    """The page once the browser has changed to its dark appearance, and the page has followed."""
    visit.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    visit.page.wait_for_timeout(300)
    return visit.page


@pytest.mark.parametrize("path", PAGES)
def test_every_page(browser, url, path):
    visit = Visit(browser, url + path, color_scheme="light", reduced_motion="reduce")
    wait_for_page(visit.page)
    found = findings(visit.page)
    if path in PALE_LOOKED_FOR:
        found += findings(visit.page, pale)
    wait_for_page(in_the_dark(visit))
    found += findings(visit.page, contrast)
    if path in PALE_LOOKED_FOR:
        found += findings(visit.page, pale)
    if "chapter" in path:
        found += cut_off(visit.page)
    visit.context.close()
    assert found == []


def cut_off(page, *patience):
    """What is cut off on a desk and on a phone."""
    found = page.evaluate(CUT_OFF, *patience)
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(500)
    return found + page.evaluate(CUT_OFF, *patience)


@pytest.mark.parametrize("path", STAGES)
def test_the_windows_of_a_talk(browser, url, path):
    visit = Visit(browser, url + path, color_scheme="light", reduced_motion="reduce")
    visit.page.wait_for_function(
        f"() => {ROOT}?.querySelector('.fa-screen-title')?.textContent", timeout=60_000
    )
    found = findings(visit.page)
    stage = Stage(visit.page).press("5", "Enter", "w")  # "What if?"
    assert stage.shows(".fa-over-what")
    found += findings(stage.press("1").page)
    found += findings(in_the_dark(visit), contrast)
    visit.context.close()
    assert found == []


def test_a_chart_on_the_stage(browser, tmp_path):
    talk = parse_talk('title = "t"\n[[scene]]\ntitle = "c"\nsentence = "s"\nchart = {}\n', "t.toml")
    (tmp_path / "t.html").write_text(export_talk(talk_data(talk, {}), False))
    visit = Visit(browser, f"file://{tmp_path}/t.html", color_scheme="light")
    found = findings(visit.page) + findings(in_the_dark(visit), contrast)
    visit.context.close()
    assert found == []


# Both appearances and both files once; they have nothing to do with each other.
@pytest.mark.parametrize(("with_speaker", "scheme"), [(True, "dark"), (False, "light")])
def test_the_exported_talk_and_what_lies_over_it(browser, talk_files, with_speaker, scheme):
    visit = Visit(browser, talk_files[with_speaker], color_scheme=scheme, reduced_motion="reduce")
    stage = Stage(visit.page)
    found = findings(visit.page)
    for keys in (["?"], ["?", "o"], ["Escape", "g"], ["Escape", "b"], ["Escape", "Escape"], ["F5"]):
        found += findings(stage.press(*keys).page)
    for _ in range(20):
        found += findings(stage.press("Space").page)
    visit.context.close()
    assert sorted(set(found)) == []


def test_a_defect_is_found(browser):
    visit = Visit(browser, "about:blank")
    visit.page.set_content('<html lang="en"><title>t</title><main><h1>t</h1><button></button></main></html>')
    found = findings(visit.page)
    visit.context.close()
    assert [each.split(":")[0] for each in found] == ["button-name"]


def test_words_that_are_pale_in_the_dark_alone_are_found(browser):
    visit = Visit(browser, "about:blank", color_scheme="light")
    visit.page.set_content(
        '<html lang="en" style="color-scheme: light dark"><title>t</title>'
        '<body style="background: light-dark(#fff, #222)">'
        '<main><h1 style="color: light-dark(#000, #333)">words</h1></main></html>'
    )
    light, dark = findings(visit.page), findings(in_the_dark(visit), contrast)
    visit.context.close()
    assert light == []
    assert [each.split(":")[0] for each in dark] == ["color-contrast"]


def test_pale_text_and_what_is_cut_off_are_found(browser):
    visit = Visit(browser, "about:blank")
    visit.page.set_content(
        '<html lang="en"><title>t</title><main data-testid="stMain"><h1>t</h1>'
        '<p style="color: #aaa">pale</p><div style="width: 3000px">wide</div></main></html>'
    )
    found = [*pale(visit.page), *cut_off(visit.page, 300)]
    visit.context.close()
    assert [any(word in each for each in found) for word in ("pale", "wide")] == [True, True]
