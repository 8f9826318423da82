""" "What if?" on the stage of the app: a key and two digits run the kernel, and the scene goes on with it."""

import pytest

from tests.browser.stage import BEATS, ROOT, opened, speaker_of
from viz.talk.shipped import NAMES

pytestmark = pytest.mark.browser

FOOT = f"{ROOT}.querySelector('.fa-screen-foot').textContent"


@pytest.fixture(scope="module")
def stage_in_app(open_visit):
    visit = open_visit(f"/talk?name={NAMES[0]}")
    stage = opened(visit)
    visit.page.locator("[data-test-script-state=notRunning]").wait_for(state="attached", timeout=60_000)
    return stage


@pytest.fixture
def live(stage_in_app):
    """The stage, at the scene that is marked live, with nothing picked."""
    return stage_in_app.press("Escape", "Escape", "Escape", "F5", "5", "Enter")


def wait_for(stage, words):
    stage.page.wait_for_function(f"(words) => {FOOT}.includes(words)", arg=words, timeout=60_000)


def test_another_length_and_mask_are_run_and_no_other_scene_changes(live):
    elsewhere = [live.press(number, "Enter").text(".fa-screen-foot") for number in "12346"]
    live.press("5", "Enter", "w")
    assert live.shows(".fa-over-what")
    live.press("1", "4")
    assert not live.shows(".fa-over-what")
    wait_for(live, "128 × 128")
    assert "run here" in live.text(".fa-screen-foot")
    assert "28 of 64 tiles" in live.text(".fa-screen-sentence")
    live.press("w", "3", "1")
    wait_for(live, "128 × 128, head_dim 32, float16, full")
    assert "0 of 64 tiles" in live.text(".fa-screen-sentence")
    assert [live.press(number, "Enter").text(".fa-screen-foot") for number in "12346"] == elsewhere
    live.press("5", "Enter", "w", "0")
    wait_for(live, "FlashAttention-2, 64 × 64")
    assert "recorded" in live.text(".fa-screen-foot")


def test_the_stage_goes_on_while_the_kernel_runs_and_the_speaker_sees_the_same(live, talk):
    speaker, prepared = speaker_of(live), talk["notes"][4].strip()
    said = f"(notes) => {ROOT}.querySelector('.fa-note').textContent === notes"
    speaker.page.wait_for_function(said, arg=prepared)
    live.press("w", "1", "2", "Home")
    assert [live.place, *(live.press("Space").place for _ in BEATS[1:])] == BEATS
    speaker.press("5", "Enter")
    for window in (live, speaker):
        window.page.wait_for_function(f"() => {FOOT}.includes('run here')", timeout=60_000)
    note = speaker.text(".fa-note")
    assert note.endswith(prepared)
    assert note != prepared  # it warns of the old numbers
    speaker.page.close()


def test_the_curtain_leads_to_the_list_of_talks(live):
    live.press("Escape")
    live.page.locator(".fa-curtain a").click()
    live.page.get_by_text("On stage").first.wait_for(timeout=60_000)
    assert live.page.url.endswith("/talk")
