"""What the player saves: pictures as PNG, a span of steps as an animation."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from tests.viz.player.runs import GPU
from viz.player.data import duel_data, player_data

pytestmark = pytest.mark.browser

PROVENANCE = 'recorded on NVIDIA H200 <by> & "with" Triton'
FRAME = """async ([url, at]) => {
  const video = document.createElement("video");
  video.muted = true;
  video.src = url;
  await new Promise((done, failed) => {
    video.onloadeddata = done;
    video.onerror = () => failed(video.error);
  });
  const duration = video.duration;
  video.currentTime = at;
  await new Promise((done) => (video.onseeked = done));
  await new Promise((done) => setTimeout(done, 300)); // a busy machine paints the frame some moments later
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
  canvas.getContext("2d").drawImage(video, 0, 0);
  return { duration, size: [canvas.width, canvas.height], picture: canvas.toDataURL() };
}"""


def url(data, kind):
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


CORNER = (14, 40)
"""Where the player's own drawing begins in a picture with a title of one line."""


def picture_of(data):
    """The bytes of a picture, or the URL that holds them, as an image."""
    if isinstance(data, str):
        data = base64.b64decode(data.split(",")[1])
    return Image.open(io.BytesIO(data))


def difference(one, other, corner=(0, 0)):
    """Mean difference of two pictures, from 0 to 255; of the other one, the part from a corner on.

    Both are made 100 pixels wide: edges and letters are smoothed differently at another size.
    """
    left, top = corner
    other = other.crop((left, top, left + one.width, top + one.height)) if corner != (0, 0) else other
    size = (100, round(100 * one.height / one.width))
    small = [
        np.asarray(each.convert("RGB").resize(size, Image.Resampling.BOX), float) for each in (one, other)
    ]
    return np.abs(small[0] - small[1]).mean()


class Saver:
    """A player that was opened from a file, and its panel."""

    def __init__(self, visit):
        self.visit, self.page = visit, visit.page
        visit.press("s")

    @property
    def says(self):
        return self.page.locator(".fa-save [role=status]").text_content()

    def choose(self, size):
        self.page.locator(".fa-save select[aria-label=size]").select_option(label=size)
        return self

    def span(self, first, last):
        for name, value in (("from", first), ("to", last)):
            self.page.locator(f".fa-save input[aria-label={name}]").fill(str(value))
        return self

    def save(self, kind):
        """(name of the file, its bytes)."""
        with self.page.expect_download(timeout=90_000) as download:
            self.page.get_by_role("button", name=kind, exact=True).click()
        return download.value.suggested_filename, download.value.path().read_bytes()


@pytest.fixture
def saver(player_of):
    """A function that opens recorded runs of a preset in a state, in light or dark colours."""

    def open_player(preset="tiny", algorithms=("flash2",), scheme="light", **state):
        runs = [(recorded_run(PRESETS[preset].problem, name).trace, PROVENANCE) for name in algorithms]
        data = duel_data(*runs, GPU) if len(runs) == 2 else player_data(*runs[0], GPU)
        return Saver(player_of(data, size=(1280, 1300), scheme=scheme, **state))

    return open_player


STATES = [
    pytest.param({"step": "9.5", "open": "tile", "unit": "phase"}, id="numbers"),
    pytest.param({"step": "9.5", "scheme": "dark", "unit": "phase", "row": "0.9"}, id="grid"),
    pytest.param({"algorithms": ("standard",), "step": "gpu:20"}, id="all-at-once"),
    pytest.param({"algorithms": ("flash2", "flash1"), "place": "bytes:500"}, id="duel"),
]


@pytest.mark.parametrize("state", STATES)
def test_the_page_shows_what_the_pixels_show(saver, state):
    panel = saver(**state)
    name, png = panel.choose("as large as here").save("PNG")
    pixels = picture_of(png)
    assert name.endswith(".png")
    assert np.asarray(pixels.convert("RGBA"))[..., 3].min() == 255
    assert len(pixels.convert("RGB").getcolors(pixels.width * pixels.height)) > 20
    if "open" not in state:  # the picture of numbers leaves out the buttons
        box = panel.page.locator(".fa-left, .fa-duel").bounding_box()
        screen = panel.page.screenshot(clip={name: round(value) for name, value in box.items()})
        assert difference(picture_of(screen), pixels, CORNER) < 3


def test_pixels_have_the_size_that_was_chosen(saver):
    panel = saver(preset="gpt2", step="60.4")
    planned = panel.says
    large = picture_of(panel.save("PNG")[1])
    assert planned.startswith(f"{large.width} × {large.height} ")
    slide = picture_of(panel.choose(size="1920 × 1080, as a slide").save("PNG")[1])
    assert slide.size == (1920, 1080)


def test_a_moment_of_an_animation_is_the_picture_of_its_step_for_its_time(saver):
    panel = saver(step="20", scheme="dark").span(1, 3).choose(size="as large as here")
    said = float(re.search(r"takes ([\d.]+) s", panel.says)[1])
    assert panel.span(3, 1).says == panel.span(1, 3).says != panel.span(99999, -5).says  # the whole run
    panel.span(1, 3)
    files = {}
    for kind, endings in (("Video", (".mp4", ".webm")), ("GIF", (".gif",))):
        name, files[kind] = panel.save(kind)
        assert name.endswith(tuple(f"from-1-to-3{ending}" for ending in endings))
        files["ending"] = files.get("ending") or name.rpartition(".")[2]
        assert panel.page.locator(".fa-count").text_content() == "step 20 / 64"  # it stands where it stood
    after = [saver(step=step, scheme="dark").choose(size="as large as here") for step in "123"]
    pictures = [each.save("PNG")[1] for each in after]
    moments = (0.01, 0.51, said - 0.3)  # 2 tiles per second
    video = url(files["Video"], f"video/{files['ending']}")
    frames = [panel.page.evaluate(FRAME, [video, at]) for at in moments]
    for i, png in enumerate(pictures):
        assert frames[i]["duration"] == pytest.approx(said, abs=0.1)
        far = [difference(picture_of(frame["picture"]), picture_of(png)) for frame in frames]
        assert all(far[i] < 0.8 * far[j] for j in range(3) if j != i)  # a video keeps its colours roughly
    hold_against(files["GIF"], pictures, said)


def hold_against(gif, pictures, said):
    """The first and the last frame of a GIF against the pictures of their steps."""
    shown = Image.open(io.BytesIO(gif))
    assert shown.info["loop"] == 0
    assert shown.n_frames == pytest.approx(15 * (said - 1), abs=2)  # the last one stands for a second
    seconds = 0
    for number in range(shown.n_frames):
        shown.seek(number)
        seconds += shown.info["duration"] / 1000
    for number, png in ((0, pictures[0]), (shown.n_frames - 1, pictures[-1])):
        shown.seek(number)
        frame = np.asarray(shown.convert("RGB"), dtype=float)
        png = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=float)
        far = np.abs(frame[: len(png), : png.shape[1]] - png[: len(frame), : frame.shape[1]])
        assert far.mean() < 1.5
        assert far.max() < 32  # colours past the first 256 are near one of them
    assert seconds == pytest.approx(said, abs=0.1)


def test_an_animation_has_the_speed_the_size_and_the_parts_that_are_seen(saver):
    panel = saver(plain="yes").choose("as large as here").span(1, 3)
    slow = panel.says
    panel.visit.press("Escape", "]", "]", "s")
    panel.span(1, 3)
    assert panel.says != slow
    width, height, said = map(float, re.findall(r"[\d.]+", panel.says.removesuffix(".")))
    _, png = panel.save("PNG")
    shown = Image.open(io.BytesIO(panel.save("GIF")[1]))
    assert shown.size == pytest.approx((width, height), abs=1)
    assert shown.n_frames == pytest.approx(15 * (said - 1), abs=2)
    assert difference(shown, picture_of(png)) < 10  # no code, no state of a row beside the grid


def test_an_animation_that_is_cancelled_gives_no_file_and_leaves_the_player_where_it_was(saver):
    panel = saver(preset="gpt2", step="7").choose("1920 × 1080, as a slide")
    given = []
    panel.page.on("download", lambda download: given.append(download))
    panel.page.get_by_role("button", name="Video", exact=True).click()
    panel.page.wait_for_function("() => document.querySelector('.fa-save progress').value > 0")
    assert panel.page.get_by_role("button", name="PNG", exact=True).is_disabled()
    panel.page.get_by_role("button", name="Cancel").click()
    panel.page.locator(".fa-save [role=status]", has_text="Cancelled; nothing was saved.").wait_for()
    assert panel.page.locator(".fa-count").text_content() == "step 7 / 136"
    assert not given
    assert panel.page.get_by_role("button", name="PNG", exact=True).is_enabled()


def test_keys_meanwhile_change_no_frame_of_an_animation(saver):
    panel = saver(preset="gpt2", step="7", unit="phase").choose("1920 × 1080, as a slide")
    _, alone = panel.span(20, 25).save("GIF")
    with panel.page.expect_download(timeout=90_000) as download:
        panel.page.get_by_role("button", name="GIF", exact=True).click()
        panel.page.wait_for_function("() => document.querySelector('.fa-save progress').value > 0")
        panel.visit.press("End", "ArrowLeft", "Space", "]", "z")
        assert panel.page.locator(".fa-save progress").is_visible()  # it is still being made
    assert download.value.path().read_bytes() == alone
    panel.page.locator(".fa-count", has_text="step 7 / 136").wait_for()  # it stands where it stood
    panel.visit.press("Escape", "ArrowRight")
    assert panel.page.locator(".fa-count").text_content().startswith("step 8 / 136, phase 1")


def test_a_browser_that_encodes_no_video_is_told_of_and_pictures_are_still_saved(saver):
    panel = saver(step="3")
    panel.page.evaluate("delete window.VideoEncoder")
    panel.page.get_by_role("button", name="Video", exact=True).click()
    status = panel.page.locator(".fa-save [role=status]")
    status.filter(has_text="encodes video only in pages from localhost").wait_for()
    assert panel.save("PNG")[1].startswith(b"\x89PNG")


def test_the_panel_is_reached_and_left_by_keys_and_keeps_its_fields_keys(saver):
    panel = saver(step="3", plain="")
    focus = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
    assert panel.page.evaluate(focus) == "size"
    panel.visit.press("ArrowDown", "Tab", "Tab", "Tab", "5", "ArrowUp", "Home", "s")
    assert panel.page.locator(".fa-count").text_content() == "step 3 / 64"
    assert panel.page.locator(".fa-save").is_visible()
    panel.visit.press("Escape")
    assert not panel.page.locator(".fa-save").is_visible()
    assert panel.page.evaluate(focus) == "Save"
    panel.visit.press("ArrowRight")
    assert panel.page.locator(".fa-count").text_content() == "step 4 / 64"
    panel.visit.press("?")
    assert "save a picture or an animation" in panel.page.locator(".fa-keys").text_content()
