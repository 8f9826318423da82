"""The lanes of an SM beside the grid, in a real browser: clicks and keys lead to tiles, and back."""

import re

import pytest

from kernels.device.gpus import GPUS
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from tests.browser.visit import PLAYER
from tests.lanes import hopper_lanes, plain_lanes
from viz.player.data import player_data
from viz.player.lanes import LanesRun, lanes_data

pytestmark = pytest.mark.browser
PROBLEM = PRESETS["tiny"].problem
SCENE = f"""(() => {{
  const canvas = {PLAYER}.querySelector('.fa-lanes').getBoundingClientRect();
  return [canvas.x, canvas.y, canvas.width, canvas.height];
}})()"""


@pytest.fixture(scope="module")
def data():
    """A recorded run, with lanes that are made up."""
    runs = [LanesRun(built(PROBLEM), recorded=True) for built in (hopper_lanes, plain_lanes)]
    shown = player_data(recorded_run(PROBLEM, "flash2").trace, "recorded on it", GPUS["H200"])
    return shown | {"lanes": lanes_data(runs)}


@pytest.fixture
def opened(player_of, data):
    return player_of(data, size=(1280, 1300)).press("d", "l")


def seen(page, css):
    return page.page.evaluate(f"(css) => {PLAYER}.querySelector(css).clientWidth > 0", css)


def test_the_lanes_open_follow_the_player_to_the_sm_of_its_tile_and_fit_a_phone(opened):
    assert seen(opened, ".fa-lanes")
    assert "A product was under way" in opened.text(".fa-lane-figures")
    opened.page.wait_for_function("() => location.hash.includes('lanes=open')")
    chosen = f"{PLAYER}.querySelector('select[aria-label=\"SM of FlashAttention-2\"]').value"
    assert opened.page.evaluate(chosen) == "1"  # which is done last
    opened.press("ArrowRight")
    assert opened.page.evaluate(chosen) == "0"
    opened.press(*["ArrowRight"] * 8)  # the second query tile
    assert opened.page.evaluate(chosen) == "1"
    opened.page.set_viewport_size({"width": 390, "height": 844})
    fits = f"() => {PLAYER}.scrollWidth <= {PLAYER}.clientWidth && document.body.scrollWidth <= 390"
    opened.page.wait_for_function(fits)
    opened.press("l")
    assert not seen(opened, ".fa-lanes")
    opened.page.get_by_role("button", name="Lanes of an SM").click()
    assert seen(opened, ".fa-lanes")


def block_at(page, x, y):
    """What is said of the block under a point; "" for none."""
    page.page.mouse.move(x, y)
    return page.page.evaluate(f"{PLAYER}.querySelector('.fa-lanes').title")


def first_block(page):
    """(left, right, y) of a block of the first track that is wholly in sight, and what is said of it."""
    x, y, width, _ = page.page.evaluate(SCENE)
    row = y + 47
    said = [(place, block_at(page, place, row)) for place in range(int(x) + 140, int(x + 0.7 * width), 4)]
    words = next(words for _, words in said[1:] if words and words != said[0][1])
    own = [place for place, each in said if each == words]
    return (own[0], own[-1], row), words


def test_a_block_that_is_clicked_is_that_tile_in_the_grid_and_lights_its_phase(opened):
    (left, right, row), said = first_block(opened)
    opened.page.mouse.click((left + right) / 2, row)
    assert read(opened).strip() == said
    words = re.match(r"(.+): \d+ ns \(\d+ cycles\) from .*query tile (\d+), key tile (\d+), ", said)
    assert words[1] == "QK^T"
    assert f"Query tile {words[2]}, key tile {words[3]}: QK^T." in opened.text(".fa-said")
    assert "QK^T" in opened.text(".fa-lit code")


def read(page):
    return page.text(".fa-lane-readout")


def test_keys_pick_blocks_zoom_and_pan_and_leave_the_step_alone_meanwhile(opened):
    opened.page.evaluate(f"{PLAYER}.querySelector('.fa-lanes').focus()")
    opened.press(".")
    first = read(opened)
    opened.press(".", ".")
    third = read(opened)
    assert first != third
    opened.press(",", ",")
    assert read(opened) == first
    step = opened.step()
    opened.press("+", "+", "ArrowRight", "ArrowLeft", "-", "0")
    assert (read(opened), opened.step()) == (first, step)
    opened.press("ArrowDown", "ArrowDown")
    assert read(opened).startswith(("softmax", "wait"))


def test_a_wheel_zooms_while_the_lanes_have_the_focus_and_a_drag_pans(opened):
    (left, right, row), block = first_block(opened)
    at, beside = (left + right) / 2, right + 20
    opened.page.mouse.wheel(0, -1200)
    assert block_at(opened, at, row) == block
    assert block_at(opened, beside, row) != block  # without the focus the wheel moves the page
    opened.page.evaluate(f"{PLAYER}.querySelector('.fa-lanes').focus()")
    opened.page.mouse.move(at, row)
    opened.page.mouse.wheel(0, -1200)
    assert block_at(opened, at, row) == block
    assert block_at(opened, beside, row) == block
    opened.page.mouse.down()
    opened.page.mouse.move(at - 500, row, steps=5)
    opened.page.mouse.up()
    assert block_at(opened, at, row) != block
