"""For the browser tests of talks: a window of a talk, and what is pressed and read there."""

from tests.browser.visit import PLAYER

ROOT = PLAYER.replace(".fa-player", ".fa-talk")

BEATS = [(scene + 1, beat + 1) for scene, beats in enumerate((6, 5, 5, 3, 2, 2)) for beat in range(beats)]
"""Places of the shipped talk of six scenes."""


class Stage:
    """A window of a talk."""

    def __init__(self, page):
        self.page = page

    @property
    def place(self):
        scene, beat = self.page.evaluate("location.hash.slice(1)").split(".")
        return int(scene), int(beat)

    @property
    def number(self):
        return int(self.text(".fa-screen-foot span:last-child").split("/")[0])

    def text(self, css):
        return self.page.evaluate(f"(css) => {ROOT}.querySelector(css).textContent", css)

    def shows(self, css):
        look = f"(css) => {{ const n = {ROOT}.querySelector(css); return Boolean(n) && !n.hidden }}"
        return self.page.evaluate(look, css)

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
        return self


def opened(visit):
    """The window of a talk that a visit shows, at its first scene if it opened with its title."""
    visit.page.wait_for_function(f"() => {ROOT}?.querySelector('.fa-screen-title')?.textContent")
    stage = Stage(visit.page)
    return stage.press("Home") if stage.shows(".fa-curtain") else stage


def speaker_of(stage):
    with stage.page.expect_popup() as popup:
        stage.press("s")
    page = popup.value
    page.wait_for_function(f"() => {ROOT}?.querySelector('.fa-note')?.textContent", timeout=60_000)
    return Stage(page)
