"""The Check page in a real browser: a case that changes, a report to take along."""

import json
import re

import pytest

from tests.browser.visit import SETTLED

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
pytestmark = pytest.mark.browser
SMALL = "kernel=flash2&q_len=48&kv_len=48&block_m=16&block_n=16&head_dim=16&mask=full"


def test_a_case_that_changes_while_another_is_queued_draws_the_page_again_and_its_report_is_taken(
    visit, tmp_path
):
    """Four cases in a second, each asked for while the one before runs; then the last verdict."""
    page = visit(f"/check?{SMALL}").page
    length = page.get_by_label("N, queries", exact=True)
    length.wait_for(timeout=60_000)
    for value in ("44", "40", "36", "32"):
        length.fill(value)
        length.press("Enter")
        page.wait_for_timeout(250)
    page.wait_for_url(re.compile("q_len=32"))
    page.evaluate(SETTLED)
    expect(page.get_by_role("heading", name="PASSES")).to_be_visible(timeout=60_000)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Numbers as JSON").click()
    waiting.value.save_as(tmp_path / "report.json")
    (check,) = json.loads((tmp_path / "report.json").read_text())["checks"]
    assert check["verdict"] == "pass"
    assert check["case"]["problem"]["q_len"] == 32
    assert "q_len=32" in page.get_by_role("link", name="This shape in Explore").get_attribute("href")
