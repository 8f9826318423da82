"""The player in a notebook's output: a frame in a page that is not ours, without a network."""

import pytest

from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from viz.player.notebook import show

pytestmark = pytest.mark.browser

NOTEBOOK = """<!doctype html><meta charset="utf-8"><title>a notebook</title>
<style>button, div {{ color: red !important; display: block; font-size: 40px; }}</style>
<input id="cell"><div class="output">{}</div><div class="output">{}</div>
<script>
window.pressed = [];
document.addEventListener("keydown", (event) => window.pressed.push(event.key));
</script>"""


@pytest.fixture
def frames(visit, tmp_path):
    """(visit, the frames of two outputs)."""
    problem = PRESETS["tiny"].problem
    runs = [recorded_run(problem, name).trace for name in ("flash2", "flash1")]
    outputs = [show(runs[0], step="9.2"), show(*runs, step="bytes:400")]
    path = tmp_path / "notebook.html"
    path.write_text(NOTEBOOK.format(*(output._repr_html_() for output in outputs)))
    opened = visit(path.as_uri(), offline=True)
    frames = opened.page.frames[1:]
    for frame in frames:
        frame.locator(".fa-count").filter(has_text=" ").wait_for()
    return opened, frames


def count(frame):
    return frame.locator(".fa-count").text_content()


def test_it_stands_steps_saves_and_nothing_of_it_is_cut_off(frames):
    opened, (one, both) = frames
    for frame in (one, both):
        page = "(({ scrollWidth, scrollHeight }) => [scrollWidth, scrollHeight])(document.documentElement)"
        assert frame.evaluate(page) == frame.evaluate("[innerWidth, innerHeight]")
    assert count(one) == "step 10 / 64"
    assert count(both).endswith("kB")
    one.locator("[aria-label^='step forward']").click()
    assert count(one) == "step 10 / 64"  # the tile in progress is done
    one.locator("[aria-label^='step forward']").press("ArrowRight")
    assert count(one) == "step 11 / 64"
    opened.press("s")
    with opened.page.expect_download() as download:
        one.get_by_role("button", name="PNG", exact=True).click()
    assert "step-11-64" in download.value.suggested_filename


def test_its_keys_and_styles_stay_apart_from_the_notebook_and_from_each_other(frames):
    opened, (one, both) = frames
    before = count(both)
    one.locator(".fa-player").focus()
    opened.press("ArrowRight", "End")
    assert opened.page.evaluate("window.pressed") == []
    assert count(one) == "step 64 / 64"
    assert count(both) == before
    opened.page.locator("#cell").focus()
    opened.press("Home", "x")
    assert count(one) == "step 64 / 64"
    assert opened.page.evaluate("window.pressed") == ["Home", "x"]
    color = "getComputedStyle(document.querySelector('.fa-count')).color"
    assert one.evaluate(color) != "rgb(255, 0, 0)"
