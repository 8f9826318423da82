"""A long run in a real browser. It comes before the other visits, whose runs it would wait for."""

import re

import pytest

pytestmark = pytest.mark.browser

SMALL = "?q_len=128&kv_len=128&block_m=32&block_n=32&mask=full"


def test_long_work_waits_for_a_button_shows_progress_and_can_be_cancelled(visit):
    page = visit("/?q_len=4096&kv_len=4096&block_m=16&block_n=16&mask=full&algorithm=flash1")
    page.page.get_by_text(re.compile(r"This run takes about \d+ min here")).wait_for(timeout=60_000)
    page.page.locator("[data-test-script-state=notRunning]").wait_for(timeout=60_000)
    page.page.get_by_role("button", name="Run", exact=True).click()
    # Runs that other visits asked for come first.
    page.page.get_by_text("running the kernel in the interpreter").wait_for(timeout=45_000)
    page.page.get_by_role("button", name="Cancel").click()
    page.page.get_by_text("Cancelled.").wait_for(timeout=60_000)
    after = visit("/" + SMALL).wait_for_player("run here")
    assert after.step() == (0, 16)
