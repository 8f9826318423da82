"""The player as a file, in a real browser: playback, keys, picked rows, every algorithm, two runs."""

import re

import pytest

from kernels.algorithms import run_traced
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from tests.browser.visit import PLAYER
from tests.viz.player.runs import GPU
from viz.player.data import duel_data, player_data
from viz.player.html_page import export_html

pytestmark = pytest.mark.browser

TINY = PRESETS["tiny"].problem
STANDS = f"() => {PLAYER}.querySelector('[aria-label^=play]').ariaPressed === 'false'"


@pytest.fixture
def player_of(visit, tmp_path):
    """A player of the recorded run of an algorithm, or of data, as a file."""

    def opened(shown, **state):
        if isinstance(shown, str):
            shown = player_data(recorded_run(TINY, shown).trace, "here", GPU)
        path = tmp_path / "player.html"
        path.write_text(export_html(shown, state))
        page = visit(path.as_uri()).wait_for_player("here")
        page.page.locator(".fa-player").focus()
        return page

    return opened


def test_it_plays_and_stops_at_the_end(player_of):
    page = player_of("flash2").press("]", "]", "]", "Space")
    page.page.wait_for_function(STANDS, timeout=60_000)
    assert page.step() == (64, 64)
    assert "Done: " in page.text(".fa-caption")
    page.assert_clean()


def test_keys_step_by_tile_phase_and_program(player_of):
    page = player_of("flash2").press("ArrowRight", "ArrowRight", "ArrowLeft", "l")
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
    page.assert_clean()


def test_a_click_picks_a_row_and_a_second_one_lets_it_go(player_of):
    page = player_of("flash2")
    box = page.page.locator(".fa-stage").bounding_box()
    at = (box["x"] + 0.3 * box["width"], box["y"] + 0.8 * box["height"])
    page.page.mouse.click(*at)
    picked = page.text(".fa-right .fa-head")
    assert re.match(r"row \d+ \(picked, not reached yet", picked)
    assert int(picked.split()[1]) > 16
    page.page.mouse.click(*at)
    assert "picked" not in page.text(".fa-right .fa-head")
    page.assert_clean()


@pytest.mark.parametrize(
    ("algorithm", "steps"),
    {
        "flash1": 64,
        "split_kv": 80,
        "backward": 136,
        "backward_q_outer": 64,
        "backward_kv_outer": 72,
        "row_wise": 128,
        "standard": 256,
    }.items(),
)
def test_every_algorithm_steps_from_its_first_tile_to_its_last(player_of, algorithm, steps):
    recording = None if algorithm == "split_kv" else recorded_run(TINY, algorithm)
    trace = recording.trace if recording else run_traced(TINY.with_(kv_splits=2), algorithm)
    page = player_of(player_data(trace, "here", GPU))
    assert page.step() == (0, steps)
    first = page.text(".fa-file")
    page.press(*["ArrowRight"] * 12)
    assert page.step() == (12, steps)
    page.click("[data-name=phase]")
    page.press("ArrowRight", "ArrowRight")
    assert page.text(".fa-lit code")
    page.press("End")
    assert page.step() == (steps, steps)
    assert (page.text(".fa-file") != first) == (len(trace.kernels) > 1)
    page.click("[data-name=gpu]")
    assert page.text(".fa-said").startswith("All programs have ended.")
    page.assert_clean()


def test_a_race_runs_both_on_one_clock_and_steps_go_step_for_step(player_of):
    runs = [(recorded_run(TINY, name).trace, "here") for name in ("flash2", "flash1")]
    page = player_of(duel_data(*runs, GPU), place="race:400")
    assert page.text(".fa-transport .fa-count").endswith("modelled")
    done = re.match(r"A: (\d+) of 64 steps. B: (\d+) of 64 steps", page.text(".fa-caption"))
    assert int(done[1]) > int(done[2])
    page.press("ArrowRight")
    page.page.wait_for_function("() => location.hash.includes('race%3A410')")
    page.press("End")
    assert re.match(r"B takes [\d.]+ times as long as A", page.text(".fa-caption"))
    page.click("[data-name=bytes]")
    assert page.text(".fa-transport .fa-count").endswith("B")
    page.click("[data-name=steps]")
    assert page.text(".fa-transport .fa-count") == "64 steps"
    page.assert_clean()
