"""The keys of a talk, in a real browser."""

import pytest

from tests.browser.stage import BEATS, ROOT, Stage
from viz.player.scene import parse_talk, read_talk
from viz.player.talk import export_talk, talk_data
from viz.talk.shipped import NAMES, measured, recorded_runs, talk_path

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
    assert stage.page.locator(".fa-curtain a").count() == 0  # a file has no list of talks
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
    stage.press("o", "Home", "ArrowDown")  # four in a row
    assert tiles.nth(4).get_attribute("aria-pressed") == "true"
    assert stage.press("ArrowUp", "Enter").place == (1, 1)
    stage.press("o", "Escape")
    assert not stage.shows(".fa-over-overview")
    assert not stage.shows(".fa-curtain")


def test_the_overview_goes_away_if_a_number_or_f5_goes_to_another_place(stage):
    stage.press("o", "3", "Enter")
    assert stage.place == (3, 1)
    assert not stage.shows(".fa-over-overview")
    for keys in (["F5"], ["F5"], ["1", "Enter"]):  # also where the talk stands already
        stage.press("o", *keys)
        assert stage.place == (1, 1)
        assert not stage.shows(".fa-over-overview")


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


HIDDEN = """title = "t"
[[scene]]
title = "One"
sentence = "s"
problem = "tiny"
view = "numbers"
row = "0.0"
step = "1.2"
stops = ["3.2", { step = "3.4", sentence = "Its own." }, "3.5"]
hidden = ["state"]
tells = true
"""


def test_the_picture_keeps_its_size_when_the_answer_appears(stage):
    figure = stage.page.locator(".fa-figure:visible")
    stage.press("4", "Enter")
    asked = figure.bounding_box()
    assert stage.text(".fa-truth") == ""
    stage.press("Space")
    assert stage.text(".fa-truth") != ""
    assert figure.bounding_box() == asked


def test_what_was_answered_is_not_asked_again_at_a_later_stop_that_the_picture_glides_to(visit, tmp_path):
    talk = parse_talk(HIDDEN, "t.toml")
    (tmp_path / "t.html").write_text(export_talk(talk_data(talk, recorded_runs(talk)), False))
    opened = visit(f"file://{tmp_path}/t.html", reduced_motion="no-preference")
    stage = Stage(opened.page)
    assert stage.shows(".fa-predict")
    stage.press("Space", "Space")
    assert stage.place == (1, 3)
    assert not stage.shows(".fa-predict")  # also while it glides
    opened.page.wait_for_function(
        "() => document.querySelector('.fa-screen-foot').textContent.includes('tile 3')"
    )
    opened.page.wait_for_timeout(300)
    assert not stage.shows(".fa-predict")
    assert "max m" in stage.text(".fa-state")
    assert stage.press("p").place == (1, 2)
    assert stage.text(".fa-truth") != ""


def test_a_stops_own_sentence_stands_before_what_the_run_tells(visit, tmp_path):
    talk = parse_talk(HIDDEN, "t.toml")
    (tmp_path / "t.html").write_text(export_talk(talk_data(talk, recorded_runs(talk)), False))
    stage = Stage(visit(f"file://{tmp_path}/t.html", reduced_motion="reduce").page)
    sentences = [stage.press("Space").text(".fa-screen-sentence") for _ in range(4)]
    assert sentences[1].startswith("A score is the dot product")
    assert sentences[2] == "Its own."
    assert sentences[3].startswith("m of row 0")


def test_a_question_leaves_the_numbers_that_it_asks_about_large(stage):
    """At least as large as after it, and no smaller than the other words."""
    smallest = """() => Math.min(...[...document.querySelectorAll('.fa-cell')]
      .filter((cell) => cell.checkVisibility()).map((cell) => parseFloat(getComputedStyle(cell).fontSize)))"""
    stage.page.set_viewport_size({"width": 1280, "height": 720})
    stage.press("4", "Enter")
    asked = stage.page.evaluate(smallest)
    assert not stage.page.locator(".fa-screen-code").is_visible()
    assert stage.page.locator(".fa-given").is_visible()
    stage.press("Space")
    assert stage.page.evaluate(smallest) == asked
    assert stage.page.locator(".fa-truth").is_visible()
    assert not stage.page.locator(".fa-given").is_visible()  # its numbers are in the answer
    stage.press("Space")
    assert asked >= max(18, stage.page.evaluate(smallest))
    assert stage.page.locator(".fa-screen-code").is_visible()


def test_the_question_does_not_stand_beside_its_answer(stage):
    stage.press("4", "Enter")
    assert stage.text(".fa-screen-sentence").endswith("What are m, α and l after this tile?")
    stage.press("Space")
    assert "The largest score of row 0 here is 1.12" in stage.text(".fa-screen-sentence")
    assert stage.press("p").text(".fa-screen-sentence").endswith("?")


def test_code_that_does_not_fit_ends_in_an_ellipsis(visit, tmp_path):
    shipped = read_talk(talk_path(NAMES[1]))
    (tmp_path / "t.html").write_text(export_talk(talk_data(shipped, recorded_runs(shipped), measured), False))
    stage = Stage(visit(f"file://{tmp_path}/t.html", reduced_motion="reduce").page)
    look = """() => [...document.querySelectorAll('.fa-screen-code > div')].map((line) => [
      line.textContent, getComputedStyle(line).textOverflow, line.scrollWidth > line.clientWidth,
      Math.round(line.getBoundingClientRect().height / parseFloat(getComputedStyle(line).lineHeight)),
      line.getBoundingClientRect().bottom <= line.parentNode.getBoundingClientRect().bottom])"""
    stage.press("1", "4", "Enter", "Space")
    (_, *_), (second, overflow, is_wide, rows, is_inside) = stage.page.evaluate(look)
    assert second.startswith("tl.store(partial_o_ptr")
    assert (overflow, is_wide, rows, is_inside) == ("ellipsis", True, 1, True)
    stage.press("Space", "Space")
    (first, *_), (second, *_, is_inside) = stage.page.evaluate(look)
    assert is_inside
    assert second.startswith("weight = ")
    assert second.endswith(" …")  # there are more
    assert not first.endswith("…")
    stage.press("5", "Enter", "Space", "Space", "3", "Enter", "Space")
    ((only, *_, rows, is_inside),) = stage.page.evaluate(look)  # one line may wrap
    assert "…" not in only
    assert is_inside


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080), (1024, 768)])
def test_an_answer_leaves_the_picture_whole(stage, size):
    stage.page.set_viewport_size({"width": size[0], "height": size[1]})
    stage.press("4", "Enter", "Space")
    assert stage.text(".fa-truth").startswith("m = 1.12")
    cut = """() => {
      const figure = document.querySelector('.fa-figure');
      const room = figure.getBoundingClientRect();
      return [...figure.querySelectorAll('.fa-matrix, .fa-matrix-label')].filter((node) => {
        const { top, bottom, left, right } = node.getBoundingClientRect();
        const isBeside = left < room.left - 1 || right > room.right + 1;
        return isBeside || top < room.top - 1 || bottom > room.bottom + 1;
      }).map((node) => node.textContent);
    }"""
    assert stage.page.evaluate(cut) == []


@pytest.mark.parametrize("name", NAMES)
def test_titles_and_names_of_memories_touch_nothing(visit, tmp_path, name):
    """Words on the canvas of the chip: no two of them overlap, and none is cut."""
    shipped = read_talk(talk_path(name))
    (tmp_path / "t.html").write_text(export_talk(talk_data(shipped, recorded_runs(shipped), measured), False))
    opened = visit(f"file://{tmp_path}/t.html", reduced_motion="reduce")
    opened.page.add_init_script("""
      window.words = [];
      const fill = CanvasRenderingContext2D.prototype.fillText;
      CanvasRenderingContext2D.prototype.fillText = function (words, x, y, ...rest) {
        if (this.canvas.classList.contains('fa-chip') && words) {
          const scale = this.getTransform().a;
          const wide = this.measureText(words).width;
          const left = this.textAlign === 'right' ? x - wide : x;
          const high = parseFloat(/([\\d.]+)px/.exec(this.font)[1]) / 2;
          const edge = [this.canvas.width / scale, this.canvas.height / scale];
          window.words.push([words, left, left + wide, y - high, y + high, ...edge]);
        }
        return fill.call(this, words, x, y, ...rest);
      };""")
    opened.page.reload()
    stage, seen = Stage(opened.page), 0
    for number, scene in enumerate(shipped.scenes, 1):
        opened.page.evaluate("window.words = []")
        stage.press(*str(number), "Enter")
        words = {each[0]: each for each in opened.page.evaluate("window.words")}.values()
        for word, left, right, top, bottom, width, height in words:
            assert left >= -0.5, (number, word)
            assert right <= width + 0.5, (number, word)
            assert bottom <= height + 0.5, (number, word)
            for other, left2, right2, top2, bottom2, _, _ in words:
                apart = right < left2 or right2 < left or bottom < top2 + 1 or bottom2 < top + 1
                assert other == word or apart, (number, word, other)
        seen += len(words) if scene.view == "grid" and not scene.versus else 0
    assert seen > 3
