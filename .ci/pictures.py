"""Makes the pictures of the README anew: `python .ci/pictures.py`. Needs Chromium, like the browser tests."""

import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from kernels.algorithms import FIRST  # noqa: E402
from kernels.device.gpus import DEFAULT_GPU, GPUS  # noqa: E402
from kernels.problem.presets import FIRST_VISIT, PRESETS  # noqa: E402
from tests.browser.visit import CHROMIUM, FLAGS, PLAYER, SETTLED, running_app  # noqa: E402
from viz.player.data import player_data  # noqa: E402
from viz.player.html_page import export_html  # noqa: E402
from viz.shared.runs import recorded  # noqa: E402

FOLDER = ROOT / "viz" / "assets"
SENTENCE = "q_len=64&kv_len=64&head_dim=32&mask=causal&block_m=16&block_n=16&inputs=text"
CHECK = "q_len=256&kv_len=256&mask=full&block_m=32&block_n=32&kernel=user&view=case"
LANES = "algorithm=flash3&block_m=128&lanes=open"


def explore(page: Page, host: str) -> None:
    """A tile in which old sums shrink."""
    page.goto(f"{host}/?{SENTENCE}&step=8.5")
    page.wait_for_function(f"() => {PLAYER}?.querySelector('.fa-caption')?.textContent.includes('α')")


def lanes(page: Page, host: str) -> None:
    """Two kernels on one axis of time."""
    page.goto(f"{host}/?{LANES}")
    page.wait_for_function(f"() => {PLAYER}?.querySelector('.fa-lane-view canvas')?.clientWidth > 0")


def check(page: Page, host: str) -> None:
    """A kernel that is wrong, and its cause."""
    page.goto(f"{host}/check?{CHECK}")
    page.get_by_text("FAILS", exact=False).first.wait_for()
    page.locator(".js-plotly-plot .main-svg").nth(1).wait_for()
    page.evaluate(SETTLED)


def film(page: Page, _: str) -> None:
    """The film of the whole run of a sentence, as Save in the player makes it."""
    run = recorded(PRESETS[FIRST_VISIT].problem, FIRST)
    data = player_data(run.trace, run.provenance, GPUS[DEFAULT_GPU])
    page.set_viewport_size({"width": 1280, "height": 720})
    page.set_content(export_html(data, {"plain": "yes"}, "body { padding: 0 12px; }"))
    page.keyboard.type("]]")  # two tiles per second
    page.keyboard.press("s")
    page.get_by_label("size").select_option(label="as large as here")
    with page.expect_download() as download:
        page.get_by_role("button", name="GIF").click()
    download.value.save_as(FOLDER / "film.gif")


def main() -> None:
    """Write all pictures, or those that are named."""
    makers = {"film": film, "explore": explore, "lanes": lanes, "check": check}
    wanted = sys.argv[1:] or list(makers)
    kernel = ("--", "--kernel", "examples/buggy_kernel.py:attention")
    with running_app() as plain, running_app(*kernel) as with_kernel, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name in wanted:
            page = browser.new_page(viewport={"width": 1280, "height": 860 if name == "explore" else 960})
            page.set_default_timeout(120_000)
            makers[name](page, with_kernel if name == "check" else plain)
            if name == "film":
                continue
            page.get_by_text("here:").first.wait_for()  # until then the page may be drawn anew
            page.wait_for_timeout(4000)  # charts below the picture are still drawn
            shown = page.locator(".fa-lane-view").first if name == "lanes" else page
            if name == "lanes":  # not below the transport, which stays at the bottom
                shown.evaluate("lanes => lanes.scrollIntoView({ block: 'center' })")
            shown.screenshot(path=FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
