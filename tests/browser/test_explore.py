"""The page and the player in a real browser: Debian's Chromium through Playwright."""

import re

import pytest

from tests.browser.visit import PLAYER, SETTLED
from viz.shared import theme

pytestmark = pytest.mark.browser

SMALL = "?q_len=128&kv_len=128&block_m=32&block_n=32&mask=full"
"""16 steps in the interpreter."""
TINY = "?q_len=32&kv_len=32&head_dim=16&block_m=4&block_n=4&mask=full"
"""64 tiles; every algorithm was recorded for it."""
IS_DARK = f"() => {PLAYER}.style.getPropertyValue('--fa-background') === '{theme.DARK.background}'"


@pytest.fixture(scope="module")
def causal(open_visit):
    """A recorded run of 136 steps, opened once."""
    return open_visit("/?algorithm=flash2&mask=causal").wait_for_player("recorded on NVIDIA H200")


def test_two_racing_runs_are_seen_at_once_on_a_phone_with_the_bytes_that_they_requested(visit):
    page = visit(f"/{TINY}&algorithm=flash2&versus=flash1&place=bytes:500", size=(390, 844)).wait_for_player()
    boxes = f"""() => {{
      {PLAYER}.scrollIntoView();
      const parts = {PLAYER}.querySelectorAll(".fa-stage, .fa-bytes, .fa-transport");
      return [...parts].map((part) => part.getBoundingClientRect().toJSON());
    }}"""
    shown = page.page.evaluate(boxes)
    assert len(shown) == 4
    assert max(box["bottom"] for box in shown) - min(box["top"] for box in shown) < 844 - 60  # the header's
    assert min(box["width"] for box in shown) > 150
    assert "kB" in page.text(".fa-byte-words")


def test_a_run_is_a_recording_that_steps_by_keys_and_fits_a_phone(causal):
    page = causal
    assert page.step() == (0, 136)
    plays = f"{PLAYER}.querySelector('[aria-label^=play]').ariaPressed"
    assert page.page.evaluate(plays) == "false"
    page.press("ArrowRight")
    assert page.step() == (1, 136)
    page.click("[data-name=gpu]")
    page.press(*["ArrowRight"] * 4)
    assert re.search(r"^\d+ tiles in progress, by the GPU's clock", page.text(".fa-said"))
    page.wait_for_url("step=gpu%3A4")
    page.page.get_by_label("N, queries", exact=True).click()
    before = page.text(".fa-count")
    page.press("Home", "ArrowRight", "f")  # keys in a field are the field's
    assert page.text(".fa-count") == before
    page.page.set_viewport_size({"width": 390, "height": 844})
    fits = f"() => {PLAYER}.scrollWidth <= {PLAYER}.clientWidth && document.body.scrollWidth <= 390"
    page.page.wait_for_function(fits)
    page.page.set_viewport_size({"width": 1280, "height": 720})


def test_a_number_out_of_range_stays_and_the_range_is_said(causal):
    """Streamlit hides its words on the range from the eye: a style of the app shows them below the number."""
    page = causal.page
    field = page.get_by_label("N, queries", exact=True)
    field.fill("99999999")
    field.press("Enter")
    said = page.locator("[data-testid=stNumberInput] [role=alert]")
    said.wait_for()
    assert "between 1 and 1048576" in said.text_content()
    fits = """(words) => {
      const said = words.getBoundingClientRect();
      const own = words.closest("[data-testid=stNumberInput]").getBoundingClientRect();
      return said.height > 15 && said.width > 0.7 * own.width && said.bottom <= own.bottom + 1;
    }"""
    page.wait_for_function(fits, arg=said.element_handle())  # and nothing cuts it off
    assert field.input_value() == "99999999"
    assert said.evaluate("(said) => getComputedStyle(said, '::after').content").startswith('" Until then')


def test_a_change_of_the_problem_runs_it_and_starts_from_the_first_step(causal):
    page = causal
    page.click("[data-name=one]")
    page.page.locator(".fa-player").focus()
    page.press("End")
    assert page.step() == (136, 136)
    page.page.get_by_label("N, queries", exact=True).fill("256")
    page.page.get_by_label("N, queries", exact=True).press("Enter")
    page.wait_for_player("run here")
    assert page.step()[0] == 0
    page.wait_for_url("q_len=256")


@pytest.fixture(scope="module")
def small(open_visit):
    """A run of 16 steps in the interpreter, opened once, in light colours."""
    return open_visit("/" + SMALL, color_scheme="light").wait_for_player("run here")


def test_a_rerun_and_a_theme_change_leave_the_step_alone(small):
    small.press(*["ArrowRight"] * 5)
    small.wait_for_url("step=4.P")
    before = small.step()
    assert before == (5, 16)
    small.page.evaluate(f"{PLAYER}.dataset.mark = 'same element'")
    small.page.emulate_media(color_scheme="dark")
    small.page.wait_for_function(IS_DARK)
    assert small.step() == before
    assert small.page.evaluate(f"{PLAYER}.dataset.mark") == "same element"


def test_a_tile_that_is_opened_and_closed_twice_leaves_the_address(visit):
    page = visit(f"/{TINY}&step=9").wait_for_player("recorded on")
    for _ in range(2):
        page.press("z").wait_for_url("open=tile")
        page.page.evaluate(SETTLED)  # what the page knew before it, or knows now, is not what was told last
        page.press("Escape")
        page.page.wait_for_function("() => !location.search.includes('open=')")


def test_the_exported_page_plays_from_a_file_without_a_server(small, visit, tmp_path):
    small.page.evaluate(SETTLED)  # a click in a rerun, such as that of another theme, would be lost
    with small.page.expect_download(timeout=60_000) as download:
        small.page.get_by_role("button", name="Player as one HTML file").click()
    path = tmp_path / "player.html"
    download.value.save_as(path)
    alone = visit(path.as_uri(), color_scheme="light").wait_for_player("run here")
    alone.press("Home", "ArrowRight", "ArrowRight")
    alone.page.emulate_media(color_scheme="dark")
    alone.page.wait_for_function(IS_DARK)
    assert alone.step() == (2, 16)
    alone.press("]", "]", "]", "Space")
    alone.page.wait_for_function(
        f"() => {PLAYER}.querySelector('.fa-count').textContent === 'step 16 / 16'", timeout=60_000
    )


def test_another_algorithm_keeps_the_step_and_the_picked_row(visit):
    page = visit(f"/{TINY}&step=9.2&unit=phase&row=0.20").wait_for_player("recorded on")
    assert page.step()[0] == 10  # in progress
    page.page.get_by_role("button", name="Details").click()
    assert page.text(".fa-right .fa-head").startswith("row 20 (picked")
    choice = page.page.locator("[data-testid=stSelectbox]", has_text="Algorithm").first
    choice.get_by_role("combobox").click()
    page.page.get_by_role("option", name="FlashAttention-1").click()
    page.page.wait_for_function(
        f"() => {PLAYER}.getAttribute('aria-label').includes('FlashAttention-1')", timeout=60_000
    )
    assert page.step()[0] == 10  # in progress
    assert page.text(".fa-right .fa-head").startswith("row 20 (picked")
    page.page.evaluate("document.activeElement.blur()")  # keys go to the list while it has the focus
    page.press("ArrowRight")
    page.wait_for_url("step=9.3")
    page.click("[data-name=tile]")
    page.page.wait_for_function("() => !location.search.includes('unit=')", timeout=60_000)
