"""Pages of the app in a browser."""

import functools

import pytest

from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from tests.browser.stage import opened
from tests.browser.visit import Visit
from tests.viz.player.runs import GPU
from viz.player.data import player_data
from viz.player.html_page import export_html
from viz.player.talk.data import export_talk, talk_data
from viz.player.talk.read import parse_talk, read_talk
from viz.talk.shipped import NAMES, recorded_runs, talk_path


def opening(browser, url):
    """A function that opens pages of the app, or files, until its tests have ended: none has an error."""
    visits = []

    def open_page(path="/", **context):
        is_file = path.startswith(("file:", "about:"))
        visits.append(Visit(browser, path if is_file else url + path, **context))
        return visits[-1]

    yield open_page
    for page in visits:
        page.context.close()
    for page in visits:
        page.assert_clean()


visit = pytest.fixture(opening, name="visit")
open_visit = pytest.fixture(opening, scope="module", name="open_visit")
"""The same, for visits that all tests of a file share."""


@functools.cache
def data_of(talk):
    """The data of a shipped talk, by its name, or of the text of a talk's file."""
    read = read_talk(talk_path(talk)) if talk in NAMES else parse_talk(talk, "t.toml")
    return talk_data(read, recorded_runs(read))


@pytest.fixture(scope="session")
def talks():
    """The data of each shipped talk, by its name."""
    return {name: data_of(name) for name in NAMES}


@pytest.fixture(scope="session")
def talk(talks):
    """The data of the shipped talk of six scenes."""
    return talks[NAMES[0]]


@pytest.fixture(scope="session")
def talk_files(talk, tmp_path_factory):
    """The exported talk with the speaker's window, and without."""
    folder = tmp_path_factory.mktemp("talk")
    for with_speaker in (True, False):
        (folder / f"{with_speaker}.html").write_text(export_talk(talk, with_speaker))
    return {with_speaker: f"file://{folder}/{with_speaker}.html" for with_speaker in (True, False)}


@pytest.fixture
def player_of(visit, tmp_path):
    """A function that opens a player in a state, as a file: of data, of a trace, or of a recorded run."""

    def opened(shown="flash2", size=(1280, 720), scheme="light", **state):
        if isinstance(shown, str):
            shown = recorded_run(PRESETS["tiny"].problem, shown).trace
        data = shown if isinstance(shown, dict) else player_data(shown, "here", GPU)
        path = tmp_path / "player.html"
        path.write_text(export_html(data, state))
        page = visit(path.as_uri(), size=size, color_scheme=scheme).wait_for_player()
        page.page.locator(".fa-player").focus()
        return page

    return opened


@pytest.fixture
def stage_of(visit, tmp_path):
    """A function that opens the exported file of a shipped talk, by its name, or of the text of a talk.

    `before` is a script that runs before those of the page.
    """

    def open_talk(talk, before="", **context):
        (tmp_path / "talk.html").write_text(export_talk(data_of(talk), True))
        shown = visit("about:blank", **context)
        shown.page.add_init_script(before)
        shown.page.goto((tmp_path / "talk.html").as_uri())
        return opened(shown)

    return open_talk


@pytest.fixture(scope="session")
def open_stage(browser, talk_files):
    """The stage of the talk of six scenes, opened once for a file of tests."""
    visit = Visit(browser, talk_files[True])
    yield opened(visit)
    visit.assert_clean()
    visit.context.close()


@pytest.fixture
def stage(open_stage):
    """That stage at its beginning, with nothing over it."""
    open_stage.page.set_viewport_size({"width": 1280, "height": 720})
    return open_stage.press("Escape", "Escape", "Escape", "F5")
