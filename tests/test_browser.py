"""The page and the player in a real browser: Debian's Chromium through Playwright."""

import os
import re

import pytest

from tests.browser import CHROMIUM, FLAGS, PLAYER, Visit, running_app

if not os.environ.get("REQUIRE_BROWSER"):  # where it is set, a missing browser is a failure and not a skip
    pytest.importorskip("playwright", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed", allow_module_level=True)

from playwright.sync_api import sync_playwright

pytestmark = pytest.mark.browser

SMALL = "?q_len=128&kv_len=128&block_m=32&block_n=32&mask=full"
"""16 steps in the interpreter."""


@pytest.fixture(scope="module")
def url():
    with running_app() as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as session:
        chromium = session.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser, url):
    visits = []

    def open_page(path="/", **context):
        visits.append(Visit(browser, path if path.startswith("file:") else url + path, **context))
        return visits[-1]

    yield open_page
    for page in visits:
        page.context.close()


def test_the_first_view_is_a_recording_and_nothing_leaves_the_machine(visit):
    page = visit().wait_for_player("recorded on NVIDIA H200")
    assert page.step() == (0, 136)
    page.press("ArrowRight")
    assert page.step() == (1, 136)
    page.assert_clean()


def test_it_plays_pauses_and_stops_at_the_end(visit):
    page = visit("/" + SMALL).wait_for_player("run here")
    page.press("]", "]", "]", "Space")
    page.page.wait_for_function(f"() => /^step ([2-9]|1\\d) /.test({PLAYER}.querySelector('.fa-count').textContent)")
    page.page.wait_for_function(f"() => {PLAYER}.querySelector('.fa-count').textContent === 'step 16 / 16'", timeout=15_000)
    assert page.page.evaluate(f"{PLAYER}.querySelector('[aria-label^=play]').getAttribute('aria-pressed')") == "false"
    page.press("Home", "Space")
    page.press("Space")
    before = page.step()
    page.page.wait_for_timeout(400)
    assert page.step() == before
    page.assert_clean()


def test_keys_step_by_tile_phase_and_program(visit):
    page = visit("/" + SMALL).wait_for_player("run here")
    page.press("ArrowRight", "ArrowRight", "ArrowLeft")
    assert page.step() == (1, 16)
    page.click("[data-name=program]")
    page.press("ArrowRight", "ArrowRight")
    assert page.step() == (8, 16)
    page.click("[data-name=phase]")
    page.press("ArrowRight")
    assert page.step() == (9, 16)
    assert "load Q" in page.text(".fa-lit code")
    assert ": load Q." in page.text(".fa-readout")
    page.press(*["ArrowRight"] * 5)
    assert "[rescale]" in page.text(".fa-lit code")
    page.press("End")
    assert page.step() == (16, 16)
    page.press("Home")
    assert page.step() == (0, 16)
    assert page.text(".fa-rate").startswith("8 ")
    page.press("]")
    assert page.text(".fa-rate").startswith("16 ")
    page.press("[", "[")
    assert page.text(".fa-rate").startswith("4 ")
    page.assert_clean()


def test_the_step_is_in_the_url_and_comes_back_from_it(visit):
    page = visit("/" + SMALL).wait_for_player("run here")
    page.press(*["ArrowRight"] * 5)
    page.wait_for_url("step=5")
    page.page.reload()
    page.wait_for_player("run here")
    assert page.step() == (5, 16)
    deep = visit("/" + SMALL + "&step=6.3").wait_for_player("run here")
    assert deep.step() == (7, 16)
    assert ": row max." in deep.text(".fa-readout")
    deep.assert_clean()


def test_a_rerun_and_a_theme_change_leave_the_step_alone(visit):
    page = visit("/" + SMALL, color_scheme="light").wait_for_player("run here")
    page.press(*["ArrowRight"] * 3)
    page.page.evaluate(f"{PLAYER}.dataset.mark = 'same element'")
    page.page.get_by_text("GPU whose SRAM is drawn").wait_for()
    page.page.locator("[data-testid=stSelectbox]", has_text="GPU whose SRAM").get_by_role("combobox").click()
    page.page.get_by_role("option", name="A100").click()
    page.wait_for_url("gpu=A100")
    page.page.wait_for_timeout(800)
    assert page.step() == (3, 16)
    page.page.emulate_media(color_scheme="dark")
    page.page.wait_for_function(f"() => {PLAYER}.style.getPropertyValue('--fa-background') === '#0f151b'", timeout=15_000)
    assert page.step() == (3, 16)
    assert page.page.evaluate(f"{PLAYER}.dataset.mark") == "same element"
    page.assert_clean()


def test_a_change_of_the_problem_runs_it_and_starts_from_the_first_step(visit):
    page = visit("/?step=40").wait_for_player("recorded on")
    assert page.step() == (40, 136)
    page.page.get_by_label("query length").fill("256")
    page.page.get_by_label("query length").press("Enter")
    page.wait_for_player("run here")
    assert page.step()[0] == 0
    page.wait_for_url("q_len=256")
    page.assert_clean()


def test_all_programs_at_once_follow_the_recorded_clock(visit):
    page = visit().wait_for_player("recorded on")
    page.click("[data-name=gpu]")
    page.press(*["ArrowRight"] * 4)
    assert re.search(r"^\d+ tiles in progress, by the GPU's clock", page.text(".fa-readout"))
    assert int(page.text(".fa-readout").split()[0]) > 1
    page.wait_for_url("step=gpu%3A4")
    page.press("End")
    assert page.text(".fa-readout").startswith("All programs have ended. 2.49 MB")
    page.assert_clean()


def test_a_click_picks_a_row_and_a_second_one_lets_it_go(visit):
    page = visit().wait_for_player("recorded on")
    box = page.page.evaluate(
        f"(() => {{ const b = {PLAYER}.querySelector('.fa-stage').getBoundingClientRect(); return [b.x, b.y, b.width, b.height] }})()"
    )
    at = (box[0] + 0.3 * box[2], box[1] + 0.8 * box[3])
    page.page.mouse.click(*at)
    picked = page.text(".fa-head")
    assert re.fullmatch(r"row \d+ \(picked; click it again to let go\)", picked)
    assert int(picked.split()[1]) > 500
    page.page.mouse.click(*at)
    assert "click a tile to pick one" in page.text(".fa-head")
    page.assert_clean()


def test_an_impossible_url_gives_a_message_and_no_traceback(visit):
    page = visit("/?q_heads=6&kv_heads=4")
    page.page.get_by_text("kv_heads=4 is not accepted: it must divide q_heads=6").wait_for(timeout=20_000)
    assert page.page.get_by_text("Traceback").count() == 0
    nonsense = visit("/?q_len=banana&mask=sliding&head_dim=100000&step=%00x").wait_for_player("recorded on")
    assert nonsense.step() == (0, 136)


def test_long_work_waits_for_a_button_shows_progress_and_can_be_cancelled(visit):
    page = visit("/?q_len=4096&kv_len=4096&block_m=16&block_n=16&mask=full")
    page.page.get_by_text(re.compile(r"This run takes about [\d,]+ s here")).wait_for(timeout=30_000)
    page.page.get_by_role("button", name="Run", exact=True).click()
    page.page.get_by_text("running the kernel in the interpreter").wait_for(timeout=30_000)
    page.page.get_by_role("button", name="Cancel").click()
    page.page.get_by_text("Cancelled.").wait_for(timeout=30_000)
    after = visit("/" + SMALL).wait_for_player("run here")
    assert after.step() == (0, 16)


def test_two_sessions_at_once_see_their_own_runs(visit):
    pages = [visit(f"/{SMALL}&seed={seed}&kv_len={64 * seed}") for seed in (1, 2, 3)]
    for seed, page in enumerate(pages, start=1):
        page.wait_for_player("run here")
        assert page.step() == (0, 8 * seed)
        page.assert_clean()


def test_focus_is_kept_from_form_fields_and_motion_can_be_reduced(visit):
    page = visit("/" + SMALL, reduced_motion="reduce").wait_for_player("run here")
    field = page.page.get_by_label("query length")
    field.click()
    page.press("ArrowRight", "Home", "f")
    assert page.step() == (0, 16)
    page.page.keyboard.press("Escape")


def test_the_exported_page_plays_from_a_file_without_a_server(visit, tmp_path):
    page = visit("/" + SMALL).wait_for_player("run here")
    with page.page.expect_download(timeout=30_000) as download:
        page.page.get_by_role("button", name="Player as one HTML file").click()
    path = tmp_path / "player.html"
    download.value.save_as(path)
    assert '<script type="module">' in path.read_text()
    alone = visit(path.as_uri())
    alone.wait_for_player("run here")
    alone.press("ArrowRight", "ArrowRight")
    assert alone.step() == (2, 16)
    alone.press("]", "]", "]", "Space")
    alone.page.wait_for_function(f"() => {PLAYER}.querySelector('.fa-count').textContent === 'step 16 / 16'", timeout=15_000)
    alone.assert_clean()


def test_the_page_fits_a_phone(browser, url):
    phone = Visit(browser, url + "/" + SMALL)
    phone.page.set_viewport_size({"width": 390, "height": 844})
    phone.wait_for_player("run here")
    wide = phone.page.evaluate(f"(() => {{ const p = {PLAYER}; return [p.scrollWidth, p.clientWidth] }})()")
    assert wide[0] <= wide[1]
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 390
    phone.context.close()
