"""The keys of a talk, in a real browser."""

import pytest

from tests.browser.stage import BEATS, ROOT

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("key", ["PageDown", "Space", "ArrowRight", "ArrowDown", "n", "N"])
def test_keys_that_go_on(stage, key):
    places = [stage.place]
    for _ in BEATS[1:]:
        places.append(stage.press(key).place)
    assert places == BEATS
    assert stage.press(key).place == BEATS[-1]  # there is no more


@pytest.mark.parametrize("key", ["PageUp", "ArrowLeft", "ArrowUp", "p", "P", "Shift+Space", "Backspace"])
def test_keys_that_go_back(stage, key):
    stage.press("End", "Space")
    places = [stage.place]
    for _ in BEATS[1:]:
        places.append(stage.press(key).place)
    assert places == BEATS[::-1]
    assert stage.press(key).place == (1, 1)


def test_home_end_and_numbers(stage):
    assert stage.press("End").place == (6, 1)
    assert stage.press("Home").place == (1, 1)
    assert stage.press("g", "4", "Enter").place == (4, 1)
    assert stage.press("2", "Enter").place == (2, 1)
    assert stage.press("9", "9", "Enter").place == (6, 1)  # the last
    assert stage.press("g", "3", "Escape").place == (6, 1)
    assert not stage.shows(".fa-over-prompt")


def test_keys_are_the_inputs_own_while_one_has_the_focus(stage):
    stage.press("g", "n", "b", "Space")
    assert stage.place == (1, 1)
    assert not stage.shows(".fa-black")
    assert stage.press("F5").place == (1, 1)  # the page was not loaded anew
    assert stage.page.evaluate("performance.getEntriesByType('navigation')[0].type") == "navigate"


@pytest.mark.parametrize("key", ["b", "B", ".", "v"])
def test_black_and_back(stage, key):
    assert stage.press(key).shows(".fa-black")
    assert not stage.press(key).shows(".fa-black")
    assert stage.press(key, "Space").place == (1, 2)
    assert not stage.shows(".fa-black")


def test_f5_begins_and_escape_ends_and_neither_loads_the_page(stage):
    stage.page.evaluate("window.mark = 'same page'")
    stage.press("3", "Enter", "Escape")
    assert stage.shows(".fa-curtain")
    assert stage.place == (3, 1)
    stage.press("Shift+F5")
    assert not stage.shows(".fa-curtain")
    assert stage.place == (3, 1)
    stage.press("Escape", "F5")
    assert not stage.shows(".fa-curtain")
    assert stage.place == (1, 1)
    stage.press("End", "F5")
    assert stage.place == (1, 1)
    assert stage.page.evaluate("window.mark") == "same page"


def test_escape_closes_what_is_open_first(stage):
    stage.press("?")
    assert stage.shows(".fa-over-help")
    stage.press("Escape")
    assert not stage.shows(".fa-over-help")
    assert not stage.shows(".fa-curtain")
    stage.press("b", "Escape")
    assert not stage.shows(".fa-black")
    assert not stage.shows(".fa-curtain")
    assert stage.press("?", "?").shows(".fa-over-help") is False


def test_the_overview_chooses_a_scene(stage):
    stage.press("o")
    assert stage.shows(".fa-over-overview")
    tiles = stage.page.locator(".fa-over-overview > button")
    assert tiles.count() == 6
    stage.press("ArrowRight", "ArrowRight", "ArrowLeft", "Enter")
    assert stage.place == (2, 1)
    assert not stage.shows(".fa-over-overview")
    stage.press("o")
    tiles.nth(4).click()
    assert stage.place == (5, 1)
    assert stage.number == 5
    stage.press("o", "Escape")
    assert not stage.shows(".fa-over-overview")
    assert not stage.shows(".fa-curtain")


def test_full_screen_goes_on_and_off(stage):
    stage.press("f")
    stage.page.wait_for_function("() => document.fullscreenElement !== null")
    stage.press("f")
    stage.page.wait_for_function("() => document.fullscreenElement === null")


def test_the_laser_shows_while_its_key_is_held(stage):
    stage.page.mouse.move(320, 360)
    stage.page.keyboard.down("l")
    assert stage.shows(".fa-laser")
    stage.page.mouse.move(640, 180)
    assert stage.page.evaluate(f"{ROOT}.querySelector('.fa-laser').style.left") == "50%"
    stage.page.keyboard.up("l")
    assert not stage.shows(".fa-laser")


def test_a_swipe_goes_on_and_back(stage):
    swipe = f"""([from, to]) => {{
      const touch = (x) => new Touch({{ identifier: 1, target: {ROOT}, clientX: x, clientY: 300 }});
      const say = (name, own) => {ROOT}.dispatchEvent(new TouchEvent(name, {{ bubbles: true, ...own }}));
      say('touchstart', {{ touches: [touch(from)], changedTouches: [touch(from)] }});
      say('touchend', {{ touches: [], changedTouches: [touch(to)] }});
    }}"""
    stage.page.evaluate(swipe, [600, 300])
    assert stage.place == (1, 2)
    stage.page.evaluate(swipe, [300, 600])
    assert stage.place == (1, 1)
    stage.page.evaluate(swipe, [300, 310])
    assert stage.place == (1, 1)


# --- what is hidden ---


def test_the_answer_is_hidden_until_the_next_key(stage):
    stage.press("4", "Enter")
    assert "What are m, α and l after this tile?" in stage.text(".fa-given")
    assert stage.text(".fa-truth") == ""
    assert stage.text(".fa-state") == ""
    stage.press("Space")
    assert stage.place == (4, 2)
    assert stage.text(".fa-truth").startswith("m = 1.12, α = 0.558, l = 2.82.")
    stage.press("Space")
    assert "max m 0.535 → 1.12" in stage.text(".fa-state")
