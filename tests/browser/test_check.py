"""The Check page in a real browser: tiles to pick, rows that open their case, reports to take along."""

import json
import re

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
pytestmark = pytest.mark.browser
SMALL = "kernel=flash2&q_len=48&kv_len=48&block_m=16&block_n=16&head_dim=16&mask=full"


def test_the_report_is_one_file_and_a_tile_that_is_clicked_is_shown_linked_and_kept_in_the_url(
    visit, tmp_path
):
    found = visit(f"/check?{SMALL}").page
    expect(found.get_by_role("heading", name="PASSES")).to_be_visible(timeout=60_000)
    expect(found.get_by_text("Tile sizes")).to_be_visible(timeout=60_000)
    for button, name in (("Report as one HTML file", "report.html"), ("Numbers as JSON", "report.json")):
        with found.expect_download() as waiting:
            found.get_by_role("button", name=button).click()
        waiting.value.save_as(tmp_path / name)
    report = visit((tmp_path / "report.html").as_uri()).page
    expect(report.get_by_text("PASSES").first).to_be_visible()
    expect(report.get_by_role("img").first).to_be_visible()
    assert json.loads((tmp_path / "report.json").read_text())["checks"][0]["verdict"] == "pass"
    chart = found.locator(".st-key-weights .nsewdrag").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    last_of_middle = {"x": box["width"] * 5 / 6, "y": box["height"] / 2}
    chart.click(position=last_of_middle)
    expect(found.get_by_text("Head 0, query tile 1, key tile 2:")).to_be_visible(timeout=60_000)
    assert "tile=0.1.2" in found.url
    found.get_by_role("link", name=re.compile("This tile in Explore, step 6")).click()
    found.wait_for_url(re.compile("step=6"))
    found.wait_for_url(re.compile("q_len=48"))


def test_a_row_of_the_grid_opens_its_case(visit):
    found = visit(f"/check?{SMALL}&view=grid&shapes=16x24,40&masks=full&head_dims=16").page
    found.get_by_role("button", name="Run 2 cases").click(timeout=60_000)
    expect(found.get_by_text("Select a row to open its case")).to_be_visible(timeout=60_000)
    table = found.locator(".st-key-grid-table canvas").first
    table.scroll_into_view_if_needed()
    box = table.bounding_box()
    found.mouse.click(box["x"] + 12, box["y"] + 52)  # the box that selects the first row
    expect(found.get_by_role("heading", name="PASSES")).to_be_visible(timeout=60_000)
    assert re.search(r"q_len=(16|40)\b", found.url)


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
