"""A long run in a real browser. It comes before the other visits, whose runs it would wait for."""

import re

import pytest

pytestmark = pytest.mark.browser

SMALL = "?q_len=128&kv_len=128&block_m=32&block_n=32&mask=full"


def test_long_work_waits_for_a_button_shows_progress_and_can_be_cancelled(visit):
    page = visit("/?q_len=4096&kv_len=4096&block_m=16&block_n=16&mask=full&algorithm=flash1")
    page.page.get_by_text(re.compile(r"This takes about \d+ min here")).wait_for()
    page.page.locator("[data-test-script-state=notRunning]").wait_for()
    page.page.get_by_role("button", name="Run", exact=True).click()
    # It runs, or it waits for runs that other visits asked for: either can be cancelled.
    page.page.get_by_test_id("stProgress").wait_for()
    page.page.get_by_role("button", name="Cancel").click()
    page.page.get_by_text("Cancelled.").wait_for()
    after = visit("/" + SMALL).wait_for_player("run here")
    assert after.step() == (0, 16)
