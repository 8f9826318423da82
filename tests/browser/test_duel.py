"""Two runs under one transport, in a real browser."""

import re

import pytest

from tests.browser.visit import PLAYER

pytestmark = pytest.mark.browser


TINY = "?q_len=32&kv_len=32&head_dim=16&block_m=4&block_n=4&mask=full"


def duel_count(page):
    return page.text(".fa-transport .fa-count")


def wait_for_duel(page):
    page.page.wait_for_function(f"() => {PLAYER}?.querySelector('.fa-duel')", timeout=60_000)
    page.page.locator("[data-test-script-state=notRunning]").wait_for(timeout=60_000)


def test_a_duel_plays_by_key_and_its_place_comes_back_from_the_url(visit):
    page = visit(f"/{TINY}&versus=flash1")
    wait_for_duel(page)
    page.click("[data-name=steps]")
    page.press("ArrowRight", "ArrowRight", "ArrowRight")
    assert duel_count(page) == "step 3 / 64"
    page.wait_for_url("place=steps%3A3")
    page.press("]", "]", "]", "Space")
    page.page.wait_for_function(
        f"() => {PLAYER}.querySelector('.fa-transport .fa-count').textContent === 'step 64 / 64'",
        timeout=60_000,
    )
    page.press("Home", *["ArrowRight"] * 5)
    page.wait_for_url("place=steps%3A5")
    page.page.reload()
    wait_for_duel(page)
    assert duel_count(page) == "step 5 / 64"
    page.assert_clean()


def test_a_race_runs_both_on_one_clock(visit):
    page = visit(f"/{TINY}&versus=flash1&place=race:400")
    wait_for_duel(page)
    assert duel_count(page).endswith("modelled")
    done = re.match(r"A: (\d+) of 64 steps, .*? B: (\d+) of 64 steps", page.text(".fa-readout"))
    assert int(done[1]) > int(done[2])
    page.press("ArrowRight")
    page.wait_for_url("place=race%3A410")
    page.press("End")
    assert re.match(r"A: 64 of 64 steps in [\d.]+ ns, .* B: 64 of 64 steps in", page.text(".fa-readout"))
    page.click("[data-name=steps]")
    assert duel_count(page) == "step 64 / 64"
    page.assert_clean()
