"""A tile in its numbers, in a real browser: opened, told, predicted, and kept in the URL."""

import re

import pytest

from kernels.algorithms import run_traced
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from tests.browser.visit import PLAYER
from tests.viz.player.runs import GPU
from viz.player.data import player_data
from viz.player.html_page import export_html

pytestmark = pytest.mark.browser

TINY = "/?q_len=32&kv_len=32&head_dim=16&block_m=4&block_n=4&mask=full"
OPEN = f"() => {PLAYER}.classList.contains('fa-shows-tile')"


def is_open(page):
    return page.page.evaluate(OPEN)


def test_z_opens_the_tile_in_its_numbers_and_the_url_keeps_it(visit):
    page = visit(TINY + "&step=9").wait_for_player("recorded on")
    page.press("z", "ArrowRight", "ArrowRight")
    assert is_open(page)
    assert page.text(".fa-micro .fa-head").startswith("Query tile 1, key tile 1, explained for row ")
    assert "dot product of a query and a key" in page.text(".fa-micro .fa-sentence")
    numbers = page.page.evaluate(
        f"() => [...{PLAYER}.querySelectorAll('.fa-cell')].filter((each) => each.textContent).length"
    )
    assert numbers == 16  # the scores of a tile of 4 x 4
    page.wait_for_url("open=tile")
    page.page.reload()
    page.wait_for_player("recorded on")
    assert is_open(page)
    page.press("Escape")
    assert not is_open(page)
    page.assert_clean()


def player_of(visit, tmp_path, trace, **state):
    path = tmp_path / "player.html"
    path.write_text(export_html(player_data(trace, "here", GPU), state))
    page = visit(path.as_uri())
    page.page.locator(".fa-player").focus()
    return page


def test_z_opens_the_tile_that_holds_a_row_picked_elsewhere(visit, tmp_path):
    trace = recorded_run(PRESETS["tiny"].problem, "flash2").trace
    page = player_of(visit, tmp_path, trace, step="20", row="0.27").press("z")
    assert page.text(".fa-micro .fa-head") == "Query tile 6, key tile 3, explained for row 27"
    page.press("Escape")
    assert page.text(".fa-right .fa-head").startswith("row 27")
    page.assert_clean()


def test_z_says_that_a_picked_row_sees_no_key(visit, tmp_path):
    problem = AttentionProblem(q_len=12, kv_len=4, head_dim=16, block_m=4, block_n=4, mask="causal")
    page = player_of(visit, tmp_path, run_traced(problem, "flash2"), step="3", row="0.1").press("z")
    assert not is_open(page)
    assert page.text(".fa-readout") == "Row 1 sees no key: no tile holds it."
    page.assert_clean()


def test_arrows_pick_the_row_that_is_told(visit):
    page = visit(TINY + "&step=9&open=tile&row=0.5").wait_for_player("recorded on")
    assert page.text(".fa-micro .fa-head").endswith("explained for row 5")
    page.press("ArrowDown")
    assert page.text(".fa-micro .fa-head").endswith("explained for row 6")
    assert page.text(".fa-right .fa-head").startswith("row 6")
    page.press("ArrowDown", "ArrowDown", "ArrowUp")  # row 7 is the last one of the tile
    assert page.text(".fa-micro .fa-head").endswith("explained for row 6")
    page.assert_clean()


def test_a_prediction_is_asked_for_before_the_numbers_are_shown(visit):
    page = visit(TINY + "&step=9&open=tile&row=0.5").wait_for_player("recorded on")
    page.press("p")
    given = page.text(".fa-given")
    old_max, old_sum = re.search(r"m = (\S+), l = (\S+)\.", given).groups()
    assert (old_max, old_sum) == ("−∞", "0")
    scores = re.search(r"in this tile: ([^a-z]*)\.", given)[1].replace("−", "-").split(", ")
    assert page.text(".fa-state") == ""
    largest = max(float(score) for score in scores)
    page.page.get_by_label("new max m").fill(str(largest))
    page.page.get_by_label("rescale factor α").fill("1")
    page.page.get_by_label("new sum l").fill("99")
    page.page.keyboard.press("Enter")
    feedback = page.text(".fa-feedback")
    assert "✓ new max m" in feedback
    assert "the old max is −∞, and e^(−∞) is 0" in feedback
    assert "✗ new sum l" in feedback
    page.page.get_by_role("button", name="Show me").click()
    assert "α = e^(−∞) = 0" in page.text(".fa-truth")
    assert page.text(".fa-feedback") == feedback  # beside what the reader had
    page.page.get_by_role("button", name="Next tile").click()
    assert "Query tile 1, key tile 1" in page.text(".fa-micro .fa-head")
    assert page.text(".fa-feedback") == page.text(".fa-truth") == ""
    page.assert_clean()


def test_pointing_at_a_cell_lights_its_factors_and_says_how_it_was_made(visit):
    page = visit(TINY + "&step=9.3&unit=phase&open=tile").wait_for_player("recorded on")
    page.page.locator(".fa-cell", has_text=re.compile(".")).first.hover()
    lit = page.page.evaluate(f"() => {PLAYER}.querySelectorAll('.fa-factor').length")
    assert lit == 32  # a row of Q and a row of K, 16 numbers each
    assert re.search(r"= 0\.250 × \(.* \+ … \(16 terms\) = ", page.text(".fa-hint"))
    page.assert_clean()


LARGE = "/?q_len=96&kv_len=96&head_dim=32&block_m=32&block_n=32&mask=causal"


def test_of_large_tiles_one_row_opens_for_which_the_kernel_runs_again(visit):
    page = visit(LARGE + "&step=3.4&unit=phase").wait_for_player("run here")
    page.press("z")
    page.wait_for_url("open=tile")
    strips = f"() => {PLAYER}?.querySelectorAll('.fa-strip').length === 3"
    page.page.wait_for_function(strips, timeout=60_000)
    row = int(page.text(".fa-micro .fa-head").split("row ")[1])
    assert "the largest is" in page.text(".fa-strips")
    page.press("ArrowDown")  # another row is another run
    page.page.wait_for_function(
        f"(name) => {PLAYER}?.querySelector('.fa-micro .fa-head').textContent.endsWith(name)"
        f" && !{PLAYER}.querySelector('.fa-strips').hidden",
        arg=f"row {row + 1}",
        timeout=60_000,
    )
    page.press("p", "ArrowRight", "End", "Space")  # nothing is shown before an answer
    assert "The next phase shows the answer" in page.text(".fa-truth")
    assert page.page.evaluate(f"() => !{PLAYER}.querySelector('.fa-predict').hidden")
    page.page.get_by_role("button", name="Show me").click()
    page.page.locator(".fa-strip").first.focus()
    page.press("ArrowRight")
    assert re.search(r"column 1: \S+$", page.text(".fa-hint"))
    page.press("Tab", "Escape")
    assert not is_open(page)
    page.assert_clean()


def test_a_file_says_why_large_tiles_have_no_numbers(visit, tmp_path):
    """Nobody can run the kernel again for a page on disk."""
    run = recorded_run(PRESETS["gpt2"].problem, "flash2")
    file = tmp_path / "player.html"
    file.write_text(export_html(player_data(run.trace, "recorded on a GPU", GPU)))
    page = visit(f"file://{file}").wait_for_player("recorded on")
    page.press("z")
    assert "it cannot be run again here" in page.text(".fa-missing")
    page.press("z")
    assert not is_open(page)
    page.assert_clean()


def test_an_algorithm_without_numbers_does_not_open_and_the_keys_are_listed(visit):
    page = visit("/?algorithm=standard").wait_for_player("recorded on")
    page.press("z")
    assert not is_open(page)
    assert page.page.get_by_role("button", name="Numbers").is_disabled()
    page.press("?")
    assert "a tile in its numbers" in page.text(".fa-keys")
    page.press("Escape")
    assert page.page.evaluate(f"() => {PLAYER}.querySelector('.fa-keys').hidden")
    page.assert_clean()


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_the_first_view_plays_by_itself_and_tells_each_phase(visit, motion):
    page = visit("/", reduced_motion=motion).wait_for_player("recorded on")
    if motion == "reduce":
        page.page.wait_for_timeout(3000)
        assert page.step() == (0, 136)
        return
    told = f"() => {PLAYER}.querySelector('.fa-told-here').textContent.includes('come')"
    page.page.wait_for_function(told, timeout=60_000)
    page.press("Space")
    page.wait_for_url("unit=phase")
    page.assert_clean()


def test_a_gradient_of_scores_names_what_it_was_made_of(visit):
    backward = TINY + "&algorithm=backward&step=20&open=tile&unit=phase"
    page = visit(backward).wait_for_player("recorded on")
    for _ in range(20):
        if "goes back through the softmax" in page.text(".fa-micro .fa-sentence"):
            break
        page.press("ArrowRight")
    cells = page.page.locator(".fa-slot", has_text="dS = P (dP − D)").locator(".fa-cell")
    cells.first.hover()
    made = re.search(r"dS = P \(dP − D\): (\S+), from P (\S+), dP (\S+), D (\S+)$", page.text(".fa-hint"))
    result, p, dp, d = (float(number.replace("−", "-")) for number in made.groups())
    assert result == pytest.approx(p * (dp - d), rel=0.03, abs=1e-4)
    row = page.text(".fa-micro .fa-head").split("row ")[1]
    assert page.text(".fa-right .fa-head").startswith(f"row {row} ")  # the same row
    page.assert_clean()


def test_a_row_that_a_shorter_tile_lacks_gives_way_to_one_that_it_has(visit):
    ragged = "/?q_len=50&kv_len=32&head_dim=32&block_m=32&block_n=32&mask=full"
    page = visit(ragged + "&step=0.3&row=0.23&unit=phase&open=tile").wait_for_player("run here")
    strips = f"() => {PLAYER}?.querySelectorAll('.fa-strip').length === 3"
    page.page.wait_for_function(strips, timeout=60_000)
    for _ in range(20):
        page.press("ArrowRight")
        if page.text(".fa-micro .fa-head").startswith("Query tile 1,"):
            break
    page.page.wait_for_function("() => /row=0\\.(3[2-9]|4\\d)/.test(location.search)", timeout=60_000)
    page.page.wait_for_function(strips, timeout=60_000)
    page.assert_clean()
