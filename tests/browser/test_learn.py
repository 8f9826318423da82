"""Learn in a browser: terms and figures light each other, the way through the chapters starts at the top."""

import pytest

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


def test_the_way_from_the_landing_page_through_the_chapters_starts_at_the_top(visit):
    page = visit("/").page
    page.get_by_role("link", name="Start here").click(timeout=60_000)
    page.locator(".to-scale").wait_for(timeout=60_000)
    page.get_by_role("button", name="Next: 2 Softmax").click()
    page.get_by_text(CHAPTERS[1].question).first.wait_for(timeout=60_000)
    page.get_by_role("button", name="Go on: 2.").click(timeout=60_000)
    page.wait_for_url("**/learn?chapter=softmax&softmax_part=Just+add")
    page.wait_for_function(f"({SCROLLED})() === 0", timeout=60_000)
