"""The keys of a talk and what its stage shows, in a real browser. One page is opened for all of it."""

import re

import pytest

from tests.browser.stage import BEATS, ROOT
from viz.talk.shipped import NAMES

pytestmark = pytest.mark.browser


def test_keys_that_go_on_and_back(stage):
    places = [stage.place]
    for _ in BEATS[1:]:
        places.append(stage.press("Space").place)
    assert places == BEATS
    assert stage.press("Space").text(".fa-curtain h1") == "FlashAttention in 5 minutes"
    assert stage.press("ArrowRight").shows(".fa-curtain")  # behind the last stop
    assert stage.press("PageUp").place == BEATS[-1]
    assert not stage.shows(".fa-curtain")
    for _ in BEATS[1:]:
        places.append(stage.press("PageUp").place)
    assert places[len(BEATS) :] == BEATS[-2::-1]
    for key in ("PageDown", "ArrowRight", "ArrowDown", "n", "N"):
        assert stage.press("Home", key).place == (1, 2), key
    for key in ("ArrowLeft", "ArrowUp", "p", "P", "Shift+Space", "Backspace"):
        assert stage.press("4", "Enter", key).place == (3, 5), key


@pytest.mark.parametrize("keys", [(), ("2", "Enter")], ids=["the-first", "another"])
def test_a_scene_opens_in_motion_without_a_key(stage_of, keys):
    stage = stage_of(NAMES[0], reduced_motion="no-preference").press(*keys)
    words = f"{ROOT}.querySelector('.fa-player .fa-byte-words').textContent"
    before = stage.page.evaluate(words)
    stage.page.wait_for_function(f"(before) => {words} !== before", arg=before)
    assert stage.place[1] == 1


def test_next_on_the_way_ends_the_walk_and_then_goes_on(stage_of):
    stage = stage_of(NAMES[0], reduced_motion="no-preference").press("2", "Enter")
    places = [stage.press("Space").place for _ in range(4)]
    assert places == [(2, 1), (2, 2), (2, 2), (2, 3)]


def test_bars_have_one_scale_and_say_their_numbers(stage):
    stage.press("6", "Enter", "Space", "Space")
    bars = stage.page.locator(".fa-chart rect")
    widths = [bar.bounding_box()["width"] for bar in bars.all()]
    said = stage.page.locator(".fa-chart svg").get_attribute("aria-label")
    numbers = [float(each) for each in re.findall(r" ([\d.]+)\sµs", said)]
    assert widths[1] / widths[0] == pytest.approx(numbers[1] / numbers[0], rel=0.01)


def test_the_end_says_what_was_shown(stage, talk):
    assert stage.press("End", *["Space"] * 3).shows(".fa-curtain")
    for scene in talk["scenes"]:
        assert scene["title"] in stage.text(".fa-curtain ol")


def test_home_end_and_the_list_of_all_scenes_which_takes_a_number(stage):
    assert stage.press("End").place == (6, 1)
    assert stage.press("Home").place == (1, 1)
    for key, number in (("o", "5"), ("g", "4")):
        assert stage.press(key).page.locator(".fa-over-prompt li").count() == 6
        assert stage.press(number, "Enter").place == (int(number), 1)
        assert not stage.shows(".fa-over-prompt")
    assert stage.press("2", "Enter").place == (2, 1)
    assert stage.press("9", "9", "Backspace", "9", "Enter").place == (6, 1)  # the last
    assert stage.press("g", "3", "Escape").place == (6, 1)
    assert not stage.shows(".fa-over-prompt")
    stage.press("Home", "g", "n", "b", "Space", "F5")  # while it asks, other keys do nothing
    assert stage.place == (1, 1)
    assert not stage.shows(".fa-black")


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
    assert stage.page.locator(".fa-curtain a").count() == 0  # a file has no list of talks
    stage.press("Shift+F5")
    assert not stage.shows(".fa-curtain")
    assert stage.place == (3, 1)
    stage.press("Escape", "F5")
    assert not stage.shows(".fa-curtain")
    assert stage.place == (1, 1)
    assert stage.page.evaluate("window.mark") == "same page"


def test_escape_closes_what_is_open_first(stage):
    for key, shown in (("?", ".fa-over-help"), ("b", ".fa-black"), ("o", ".fa-over-prompt")):
        assert stage.press(key).shows(shown)
        assert not stage.press("Escape").shows(shown)
        assert not stage.shows(".fa-curtain")


def test_full_screen_goes_on_and_off(stage):
    stage.press("f")
    stage.page.wait_for_function("() => document.fullscreenElement !== null")
    stage.press("f")
    stage.page.wait_for_function("() => document.fullscreenElement === null")


def test_a_swipe_goes_on_and_back(stage):
    swipe = f"""([from, to]) => {{
      const touch = (x) => new Touch({{ identifier: 1, target: {ROOT}, clientX: x, clientY: 300 }});
      const say = (name, own) => {ROOT}.dispatchEvent(new TouchEvent(name, {{ bubbles: true, ...own }}));
      say('touchstart', {{ touches: [touch(from)], changedTouches: [touch(from)] }});
      say('touchend', {{ touches: [], changedTouches: [touch(to)] }});
    }}"""
    for ends, place in (([600, 300], (1, 2)), ([300, 600], (1, 1)), ([300, 310], (1, 1))):
        stage.page.evaluate(swipe, ends)
        assert stage.place == place


# --- of every shipped talk ---


DRAWN = """
  window.drawn = [];
  const fill = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (words, x, y, ...rest) {
    const { a, b, f } = this.getTransform();
    const scale = Math.hypot(a, b);
    const size = (parseFloat(/([\\d.]+)px/.exec(this.font)[1]) * scale) / devicePixelRatio;
    const wide = this.measureText(words).width;
    const left = { right: x - wide, center: x - wide / 2 }[this.textAlign] ?? x;
    const isTurned = Math.abs(b) > Math.abs(a); // upwards, from its place on
    const [from, end, room] = isTurned
      ? [f - wide * scale, f, this.canvas.height]
      : [left * scale, (left + wide) * scale, this.canvas.width];
    const isCut = from < -1 || end > room + 1;
    if (words && this.canvas.height) window.drawn.push({ words: String(words), size, isCut });
    return fill.call(this, words, x, y, ...rest);
  };"""
WRITTEN = """() => [...document.querySelectorAll('.fa-screen *')]
  .filter((n) => [...n.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim()))
  .filter((n) => n.checkVisibility())
  .map((n) => ({ words: n.textContent.slice(0, 40),
    size: parseFloat(getComputedStyle(n).fontSize) * (n.getScreenCTM?.().a ?? 1) }))"""


@pytest.mark.parametrize(("name", "height"), [*((name, 720) for name in NAMES), (NAMES[0], 1440)])
def test_words_are_large_and_not_cut(stage_of, talks, name, height):
    stage = stage_of(name, size=(height * 16 // 9, height), before=DRAWN)
    scale, before = height / 720, None
    while stage.place != before:
        before = stage.place
        drawn, written = stage.page.evaluate("window.drawn.splice(0)"), stage.page.evaluate(WRITTEN)
        assert not [each for each in drawn + written if each["size"] < 18 * scale - 0.01], before
        assert not [each for each in drawn if each["isCut"]], before
        stage.press("Space")
    assert before[0] == len(talks[name]["scenes"])


# --- a chart ---

CHART = """title = "t"
[[scene]]
title = "A run"
sentence = "s"
problem = "tiny"
[[scene]]
title = "A chart"
sentence = "{naive} and {ours} at {last}"
chart = { peers = ["naive", "sdpa_flash", "ours"] }
step = "1"
stops = ["3"]
[[scene]]
title = "Another run"
sentence = "s"
problem = "gpt2"
"""


@pytest.mark.parametrize("size", [(1280, 720), (1024, 768)])
def test_curves_appear_stop_by_stop_inside_of_the_picture_and_the_player_comes_back(stage_of, size):
    stage = stage_of(CHART, size=size)
    curves = stage.page.locator(".fa-chart polyline[stroke-width='4']")
    picture, chart = stage.page.locator(".fa-stage").first, stage.page.locator(".fa-chart")
    assert picture.is_visible()
    stage.press("Space")
    assert (stage.place, curves.count(), picture.is_visible()) == ((2, 1), 1, False)
    stage.press("Space")
    assert curves.count() == 3
    assert stage.text(".fa-screen-sentence").endswith("at 16,384")
    assert "recorded on NVIDIA H200" in stage.text(".fa-screen-foot")
    boxes = [each.bounding_box() for each in chart.locator("text").all()]
    assert len(boxes) > 10
    for box in boxes:
        assert 0 <= box["x"] < box["x"] + box["width"] <= size[0]
        assert 0 <= box["y"] < box["y"] + box["height"] <= size[1]
    stage.press("z", "w", "Space")
    assert (stage.place, picture.is_visible(), chart.is_visible()) == ((3, 1), True, False)
