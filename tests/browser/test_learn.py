"""Learn in a browser: terms and figures light each other, the way through the chapters starts at the top."""

import pytest

from tests.browser.visit import PLAYER, SETTLED
from viz.learn.chapters import CHAPTERS

pytestmark = pytest.mark.browser

SCROLLED = "() => document.querySelector('[data-testid=stMain]').scrollTop"


def outline(page, selector):
    return page.locator(selector).first.evaluate("(e) => getComputedStyle(e).outlineStyle")


def test_a_term_lights_its_matrix_and_the_matrix_its_term(visit):
    page = visit("/learn?chapter=tiling&tiling_part=Softmax+in+between").page
    term, matrix = "dfn.sym-S", ".matrices figure.sym-S"
    page.locator(matrix).first.wait_for(timeout=60_000)
    assert outline(page, matrix) == "none"
    page.locator(term).first.focus()
    assert outline(page, matrix) == "solid"
    words = page.locator(term).first.evaluate("(e) => getComputedStyle(e, '::after').content")
    assert "Dot product of a query and a key" in words
    page.locator("body").press("Escape")
    page.locator(term).first.evaluate("(e) => e.blur()")
    page.locator(matrix).first.hover()
    assert outline(page, term) == "solid"


def test_the_way_from_the_landing_page_starts_at_the_top_and_a_prediction_stays_as_it_was_typed(visit):
    page = visit("/").wait_for_player("recorded on").page
    page.locator("[data-test-script-state=notRunning]").wait_for(state="attached", timeout=60_000)
    page.get_by_role("link", name="Why it works").click(timeout=60_000)
    page.locator(".to-scale").wait_for(timeout=60_000)
    page.get_by_role("button", name="Next: 2 Softmax").click()
    page.get_by_text(CHAPTERS[1].question).first.wait_for(timeout=60_000)
    page.get_by_role("button", name="Go on: 2.").click(timeout=60_000)
    page.wait_for_url("**/learn?chapter=softmax&softmax_part=Old+sums+go+wrong")
    page.wait_for_function(f"({SCROLLED})() === 0", timeout=60_000)
    page.evaluate(SETTLED)
    page.locator(".st-key-softmax_part button", has_text="One pass").click()
    field = page.get_by_label("α", exact=True)
    field.wait_for(timeout=60_000)
    field.fill("0.0498")
    page.get_by_role("button", name="Check", exact=True).click()
    page.get_by_text("not yet").or_(page.locator(".stMarkdownBadge")).first.wait_for(timeout=60_000)
    assert field.input_value() == "0.0498"


REACHES = f"""() => {{
  const canvas = {PLAYER}.querySelector('canvas.fa-rows');
  const from = Math.round((canvas.width * 100) / canvas.clientWidth);
  const {{ data, width }} = canvas.getContext('2d').getImageData(
    from, 0, canvas.width - from, canvas.height);
  const before = (window.atTheStart ??= data);
  let last = -1;
  for (let i = 0; i < data.length; i += 4) {{
    const x = (i / 4) % width;
    const isDrawn = [0, 1, 2].some((c) => Math.abs(data[i + c] - before[i + c]) > 12);
    if (isDrawn) last = Math.max(last, x / width);
  }}
  return last;
}}"""
"""How far to the right the curves of a row differ from how they were at the first call, 0 to 1; -1 for
nowhere."""


def test_the_kernel_chapter_tells_each_phase_and_the_curves_of_a_row_end_at_the_present_step(visit):
    shown = visit("/learn?chapter=kernel").wait_for_player()
    assert shown.page.evaluate(REACHES) == -1
    for told in ("how well a query", "m is the largest", "A raw weight is e"):
        shown.page.wait_for_function(
            f"(words) => {PLAYER}.querySelector('.fa-caption').textContent.includes(words)", arg=told
        )
        shown.click("button[aria-label^='step forward']")
    shown.page.get_by_role("button", name="tile", exact=True).click()
    reached = 0
    for _ in range(3):
        shown.click("button[aria-label^='step forward']")
        shown.page.wait_for_function(f"(before) => ({REACHES})() > before", arg=reached)
        reached = shown.page.evaluate(REACHES)
    assert reached < 0.6
