"""The Check page in a real browser: a case that changes, a report to take along."""

import json
import re

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
pytestmark = pytest.mark.browser
SMALL = "kernel=flash2&q_len=48&kv_len=48&block_m=16&block_n=16&head_dim=16&mask=full"


def test_the_report_is_one_file_and_its_shape_is_linked(visit, tmp_path):
    found = visit(f"/check?{SMALL}").page
    expect(found.get_by_role("heading", name="PASSES")).to_be_visible(timeout=60_000)
    with found.expect_download() as waiting:
        found.get_by_role("button", name="Numbers as JSON").click()
    waiting.value.save_as(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["checks"][0]["verdict"] == "pass"
    link = found.get_by_role("link", name="This shape in Explore").get_attribute("href")
    assert "q_len=48" in link


def test_a_case_that_changes_while_another_is_queued_draws_the_page_again(visit):
    """Four cases in a second, each asked for while the one before runs; then the last verdict."""
    page = visit(f"/check?{SMALL}&repeats=6").page
    length = page.get_by_label("N, queries", exact=True)
    length.wait_for(timeout=60_000)
    for value in ("44", "40", "36", "32"):
        length.fill(value)
        length.press("Enter")
        page.wait_for_timeout(250)
    expect(page.get_by_role("heading", name="PASSES")).to_be_visible(timeout=60_000)
    page.wait_for_url(re.compile("q_len=32"))
