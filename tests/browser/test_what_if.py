""" "What if?" on the stage of the app: a key and two digits run the kernel, and the scene goes on with it."""

import pytest

from tests.browser.stage import BEATS, ROOT, Stage, speaker_of
from viz.talk.shipped import NAMES

pytestmark = pytest.mark.browser

FOOT = f"{ROOT}.querySelector('.fa-screen-foot').textContent"


@pytest.fixture
def live(visit):
    """The stage, at the scene that is marked live."""
    opened = visit(f"/talk?name={NAMES[0]}", reduced_motion="reduce")
    opened.page.wait_for_function(
        f"() => {ROOT}?.querySelector('.fa-screen-title')?.textContent", timeout=60_000
    )
    opened.page.locator("[data-test-script-state=notRunning]").wait_for(state="attached", timeout=60_000)
    stage = Stage(opened.page)
    yield stage.press("5", "Enter")
    # Streamlit looks for its health page below /talk first
    assert [error for error in opened.errors if "404" not in error] == []


def wait_for(stage, words):
    stage.page.wait_for_function(f"(words) => {FOOT}.includes(words)", arg=words, timeout=60_000)


def test_another_length_and_mask_are_run_and_no_other_scene_changes(live):
    elsewhere = [live.press(number, "Enter").text(".fa-screen-foot") for number in "12346"]
    live.press("5", "Enter", "w")
    assert live.shows(".fa-over-what")
    live.press("1", "1")
    assert not live.shows(".fa-over-what")
    wait_for(live, "256 × 256")
    assert "run here" in live.text(".fa-screen-foot")
    assert "The mask skips 6 of 16 tiles." in live.text(".fa-screen-sentence")
    live.press("w", "3", "1")
    wait_for(live, "256 × 256, head_dim 64, float16, full")
    assert "The mask skips 0 of 16 tiles." in live.text(".fa-screen-sentence")
    assert [live.press(number, "Enter").text(".fa-screen-foot") for number in "12346"] == elsewhere
    live.press("5", "Enter", "w", "0")
    wait_for(live, "1024 × 1024")
    assert "recorded" in live.text(".fa-screen-foot")


def test_the_stage_goes_on_while_the_kernel_runs_and_the_speaker_sees_the_same(live):
    speaker = speaker_of(live)
    live.press("w", "4", "2", "Home")
    assert [live.place, *(live.press("Space").place for _ in BEATS[1:])] == BEATS
    speaker.press("5", "Enter")
    assert "prepared" not in speaker.text(".fa-note")
    for window in (live, speaker):
        window.page.wait_for_function(f"() => {FOOT}.includes('run here')", timeout=60_000)
    assert "these notes have the numbers of the run that was prepared" in speaker.text(".fa-note")


def test_why_there_is_no_run_is_said_and_the_recorded_run_stays(live):
    live.page.evaluate(
        """window.addEventListener('flash-attention-ask', (event) => {
          event.stopImmediatePropagation();
          const detail = { id: event.detail.id, failed: 'It would take about 99 s here.' };
          window.dispatchEvent(new CustomEvent('flash-attention-answer', { detail }));
        }, { capture: true })"""
    )
    live.press("w", "4", "1")
    words = f"() => {ROOT}.querySelector('.fa-what-line').textContent.includes('stays as it was')"
    live.page.wait_for_function(words, timeout=60_000)
    assert "1024 × 1024" in live.text(".fa-screen-foot")
    assert "recorded" in live.text(".fa-screen-foot")
    assert not live.press("Home").shows(".fa-what-line")


def test_a_run_that_is_given_up_delays_no_other_and_its_line_goes_with_the_scene(live):
    live.press("w", "1", "4")
    assert "Running it here" in live.text(".fa-what-line")
    assert not live.press("6", "Enter").shows(".fa-what-line")
    live.press("5", "Enter")
    assert "Running it here" in live.text(".fa-what-line")
    live.press("w", "1", "1")
    wait_for(live, "256 × 256")
    assert not live.shows(".fa-what-line")
    live.press("o")
    tile = live.page.locator(".fa-over-overview > button").nth(4)
    assert "256 × 256" in tile.text_content()


def test_a_wrong_digit_is_said_and_the_words_go_with_the_panel(live):
    live.press("w", "9")
    assert live.text(".fa-what-line") == "9 is not a choice: press 1 to 4 for what changes, 0 to go back."
    assert live.shows(".fa-over-what")
    assert not live.press("Escape").shows(".fa-what-line")
    live.press("w", "3", "8")
    assert "press 1 to 3 for a mask" in live.text(".fa-what-line")
    assert not live.press("End").shows(".fa-what-line")


def test_a_file_says_that_it_needs_the_app(stage):
    stage.press("5", "Enter", "w")
    assert not stage.shows(".fa-over-what")
    assert "needs the app" in stage.text(".fa-what-line")
    assert stage.press("Space").place == (5, 2)


def test_the_curtain_leads_to_the_list_of_talks(live):
    live.press("Escape")
    live.page.locator(".fa-curtain a").click()
    live.page.get_by_text("On stage").first.wait_for(timeout=60_000)
    assert live.page.url.endswith("/talk")
