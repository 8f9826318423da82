"""Back undoes one act of the reader, and pages keep what was chosen on them."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.visit import PLAYER, SETTLED

pytestmark = pytest.mark.browser

SHAPE = "q_len=40&kv_len=40&block_m=16&block_n=16&head_dim=16"


def settled(page, url):
    page.wait_for_url(re.compile(url))
    page.evaluate(SETTLED)


def steps(page):
    return page.evaluate("history.length")


def number(page, name="N, queries"):
    return page.get_by_role("spinbutton", name=name, exact=True)


def go_to(page, name, url):
    page.get_by_test_id("stTopNavLink").filter(has_text=name).click()
    settled(page, url)


def test_back_between_pages_with_the_same_controls_keeps_the_problem_of_each(visit):
    page = visit(f"/?{SHAPE}", reduced_motion="no-preference").wait_for_player().page
    go_to(page, "Check", "/check.*q_len=40")
    for name, value, in_url in (("N, queries", "24", "q_len=24"), ("seed", "5", "seed=5")):
        number(page, name).fill(value)
        page.keyboard.press("Enter")
        settled(page, in_url)
    expect(page.get_by_role("heading", name="PASSES")).to_be_visible(timeout=60_000)
    page.evaluate(SETTLED)  # a run of the page that begins now would swallow Back
    for act, url, q_len, seed in (
        (page.go_back, "/check.*q_len=24", "24", "0"),
        (page.go_back, "/check.*q_len=40", "40", "0"),
        (page.go_back, r"/\?.*q_len=40", "40", "0"),
        (lambda: page.evaluate("history.go(3)"), "/check.*q_len=24.*seed=5", "24", "5"),
    ):
        act()
        expect(number(page)).to_have_value(q_len, timeout=30_000)
        expect(number(page, "seed")).to_have_value(seed, timeout=30_000)
        settled(page, url)  # the URL that the browser had at once stays


def test_back_leads_to_the_choice_before_where_the_player_was_left_and_no_step_is_one(visit):
    shown = visit(f"/?algorithm=flash2&{SHAPE}").wait_for_player()
    page = shown.page
    before = steps(page)
    shown.press(*["ArrowRight"] * 3).wait_for_url("step=2.P")
    assert steps(page) == before
    page.locator("[data-testid=stSelectbox]", has_text="Algorithm").first.get_by_role("combobox").click()
    page.get_by_role("option", name="FlashAttention-1").click()
    settled(page, "algorithm=flash1")
    page.evaluate("document.activeElement.blur()")
    shown.press("ArrowLeft").wait_for_url("step=1.P")
    number(page).fill("24")
    page.keyboard.press("Enter")
    settled(page, "q_len=24")
    assert (steps(page), shown.step()[0]) == (before + 2, 0)
    for act, url, name, step in (
        (page.go_back, "flash1.*q_len=40.*step=1.P|q_len=40.*step=1.P.*flash1", "FlashAttention-1, 40", 2),
        (page.go_back, "flash2.*step=2.P", "FlashAttention-2, 40", 3),
        (page.go_forward, "step=1.P", "FlashAttention-1, 40", 2),
    ):
        act()
        told = f"(name) => {PLAYER}?.getAttribute('aria-label')?.includes(name)"
        page.wait_for_function(told, arg=name, timeout=60_000)
        settled(page, url)
        assert shown.step()[0] == step
        settled(page, url)  # the player leaves it alone


def test_the_navigation_opens_a_page_as_it_was_left_and_back_undoes_a_link_of_a_lesson_in_one_step(visit):
    page = visit(f"/?algorithm=flash1&step=3&{SHAPE}").page
    page.evaluate(SETTLED)
    go_to(page, "Learn", "/learn$")
    page.locator(".st-key-chapters button").nth(2).click()
    settled(page, "chapter=tiling")
    before = steps(page)
    go_to(page, "Explore", r"/\?.*step=3")
    assert "algorithm=flash1" in page.url
    expect(number(page)).to_have_value("40", timeout=30_000)
    go_to(page, "Learn", "/learn.chapter=tiling")
    assert steps(page) == before + 2
    page.evaluate("document.activeElement.blur()")
    page.get_by_text("1 of 8").first.wait_for()  # the value, and the end of the scale
    page.keyboard.press("ArrowRight")
    page.get_by_text("2 of 8").wait_for()
    page.evaluate(SETTLED)
    before = steps(page)
    page.get_by_role("link", name=re.compile("The kernel at work")).click()
    settled(page, r"/\?algorithm=flash2&q_len=8&.*block_m=")
    assert steps(page) == before + 1
    page.go_back()
    settled(page, "learn.chapter=tiling")
