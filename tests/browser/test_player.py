"""The player in a real browser: its keys, picked rows, and a tile in its numbers, which the address keeps."""

import re

import pytest

from kernels.algorithms import run_traced
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from tests.browser.visit import PLAYER

pytestmark = pytest.mark.browser

IS_OPEN = f"() => {PLAYER}.classList.contains('fa-shows-tile')"


def test_keys_step_by_tile_phase_and_program(player_of):
    page = player_of().press("d", "ArrowRight", "ArrowRight", "ArrowLeft", "l")
    assert page.step() == (1, 64)
    assert page.page.get_by_role("button", name="Lanes of an SM").count() == 0  # this run has none
    page.click("[data-name=program]")
    page.press("ArrowRight", "ArrowRight")
    assert page.step() == (16, 64)
    page.click("[data-name=phase]")
    page.press("ArrowRight")
    assert page.step() == (17, 64)
    assert "load Q" in page.text(".fa-lit code")
    assert ": load Q." in page.text(".fa-said")
    page.press(*["ArrowRight"] * 5)
    assert "[rescale]" in page.text(".fa-lit code")
    rates = [page.text(".fa-rate")]
    for keys in ("]", "[["):
        page.press(*keys)
        rates.append(page.text(".fa-rate"))
    assert [rate.split()[0] for rate in rates] == ["2", "4", "1"]


def test_a_click_goes_to_a_tile_and_picks_its_row_and_a_second_one_lets_it_go(player_of):
    page = player_of(plain="")
    before, steps = page.step()
    box = page.page.locator(".fa-stage").bounding_box()
    at = (box["x"] + 0.25 * box["width"], box["y"] + 0.8 * box["height"])
    page.page.mouse.click(*at)
    picked = page.text(".fa-right .fa-head")
    assert re.match(r"row \d+ \(picked", picked)
    assert int(picked.split()[1]) > 16
    step, _ = page.step()
    assert before < step < steps
    page.page.mouse.click(*at)
    assert "picked" not in page.text(".fa-right .fa-head")
    assert page.step() == (step, steps)


def is_open(page):
    return page.page.evaluate(IS_OPEN)


def test_z_opens_the_tile_in_its_numbers_the_address_keeps_it_and_arrows_pick_its_row(player_of):
    page = player_of(step="9", unit="phase")
    buttons = page.page.locator(".fa-transport").bounding_box()
    page.press("z")
    assert "score − m" in page.text(".fa-caption")  # where its numbers are there
    page.press("ArrowLeft", "ArrowLeft")
    assert is_open(page)
    assert page.page.locator(".fa-transport").bounding_box() == pytest.approx(buttons)  # nothing jumps
    assert page.text(".fa-micro .fa-head").startswith("Query tile 1, key tile 0, explained for row ")
    assert "how well a query" in page.text(".fa-caption")
    page.press(*["ArrowUp"] * 4, "ArrowDown")  # row 4 is the first one of the tile
    assert page.text(".fa-micro .fa-head").endswith("explained for row 5")
    assert page.press("d").text(".fa-right .fa-head").startswith("row 5")
    page.page.wait_for_function("() => location.hash.includes('open=tile')")
    page.page.reload()
    page.wait_for_player()
    assert is_open(page)
    page.page.locator(".fa-player").focus()
    page.press("Escape")
    assert not is_open(page)


BLIND = AttentionProblem(q_len=12, kv_len=4, head_dim=16, block_m=4, block_n=4, mask="causal")


@pytest.mark.parametrize(
    ("trace", "opens", "css", "words"),
    [
        (lambda: run_traced(BLIND, "flash2"), False, ".fa-said", "Row 1 sees no key"),
        # nobody can run the kernel again for a page on disk
        (lambda: recorded_run(PRESETS["gpt2"].problem, "flash2").trace, False, ".fa-said", "no numbers"),
        (lambda: "row_wise", False, ".fa-keys", "a tile in its numbers"),
    ],
    ids=["blind", "large", "none"],
)
def test_where_there_are_no_numbers_it_is_said_why(player_of, trace, opens, css, words):
    page = player_of(trace(), step="3", row="0.1").press("z")
    assert is_open(page) == opens
    assert words in page.text(css)
    page.press("Escape")
    assert not is_open(page)


def point(page, is_meant):
    """Point at the first number of the open tile whose words are meant; returns them."""
    box = page.page.locator(".fa-stage").bounding_box()
    for y in range(int(box["y"]) + 60, int(box["y"] + box["height"]), 24):
        for x in range(int(box["x"] + box["width"] * 0.22), int(box["x"] + box["width"]), 24):
            page.page.mouse.move(x, y)
            if (said := page.text(".fa-hint [role=status]")) and is_meant(said):
                return said
    return ""


def test_pointing_at_a_number_says_how_it_was_made_and_the_keys_go_through_a_row(player_of):
    page = player_of(step="9.3", unit="phase", open="tile")
    said = point(page, lambda words: words.startswith("scores"))
    assert re.search(r"= 0\.250 × \(.* \+ … \(16 terms\) = ", said)
    page.page.mouse.move(1, 1)
    page.press("Shift+ArrowRight")
    first = page.text(".fa-hint [role=status]")
    page.press("Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowLeft")
    second = page.text(".fa-hint [role=status]")
    assert first != second
    assert all(words.startswith("scores") for words in (first, second))


def test_a_gradient_of_scores_names_what_it_was_made_of(player_of):
    page = player_of("backward", step="20", open="tile", unit="phase")
    for _ in range(20):
        if "goes back through the softmax" in page.text(".fa-caption"):
            break
        page.press("ArrowRight")
    said = point(page, lambda words: words.startswith("dS = P (dP − D)"))
    made = re.search(r"dS = P \(dP − D\): (\S+), from P (\S+), dP (\S+), D (\S+)$", said)
    result, p, dp, d = (float(number.replace("−", "-")) for number in made.groups())
    assert result == pytest.approx(p * (dp - d), rel=0.03, abs=1e-4)


def test_of_large_tiles_one_row_opens_for_which_the_kernel_runs_again(visit):
    large = "/?q_len=96&kv_len=96&head_dim=32&block_m=32&block_n=32&mask=causal&step=3.2&unit=phase"
    page = visit(large).wait_for_player("run here")
    page.press("z")
    page.wait_for_url("open=tile")
    known = f"() => !{PLAYER}?.querySelector('.fa-hint').hidden"
    page.page.wait_for_function(known, timeout=60_000)
    row = int(page.text(".fa-micro .fa-head").split("row ")[1])
    page.press("ArrowDown")  # another row is another run
    page.page.wait_for_function(
        f"(name) => {PLAYER}?.querySelector('.fa-micro .fa-head').textContent.endsWith(name)"
        f" && !{PLAYER}.querySelector('.fa-hint').hidden",
        arg=f"row {row + 1}",
        timeout=60_000,
    )
    page.press("Shift+ArrowRight")
    assert re.search(r"(key|column) \d+: \S+", page.text(".fa-hint [role=status]"))
    page.press("Escape")
    assert not is_open(page)


def test_the_first_view_plays_by_itself_and_ones_own_words_are_asked_for_in_sight_on_a_phone_too(visit):
    page = visit("/", reduced_motion="no-preference").wait_for_player("recorded on NVIDIA H200")
    other = f"(words) => {PLAYER}.querySelector('.fa-caption').textContent !== words"
    page.page.wait_for_function(other, arg=page.text(".fa-caption"))
    page.press("Space")
    told = page.text(".fa-caption")
    page.press("ArrowRight")
    page.page.wait_for_function(other, arg=told)
    page.press("Home", "ArrowRight")
    page.wait_for_url("step=0.P")
    assert page.step()[1] == 10  # a sentence, alone
    page.page.set_viewport_size({"width": 390, "height": 844})
    page.page.get_by_role("button", name="Your own sizes and words").click()
    in_sight = """() => {  // and the fields come one by one
      const { left, right, bottom } = document.querySelector("textarea")?.getBoundingClientRect() ?? {};
      const isWhole = document.querySelector("[data-testid=stNumberInput] input");
      return isWhole && left >= 0 && right <= innerWidth && bottom <= innerHeight;
    }"""
    page.page.wait_for_function(in_sight, timeout=60_000)
    page.page.evaluate(f"window.player = {PLAYER}")
    page.page.locator("textarea").fill("A sentence of my own")
    page.page.keyboard.press("Control+Enter")  # plays by itself, large, as the first one did
    page.page.wait_for_function(f"() => {PLAYER}?.textContent.includes('run here')")
    assert page.page.evaluate(f"window.player === {PLAYER}")  # it did not go meanwhile
    page.page.wait_for_function(f"() => {PLAYER}?.classList.contains('fa-plain')")
    page.page.wait_for_function(f"() => !{PLAYER}.querySelector('.fa-count').textContent.includes('step 0')")
