"""Pages of the app in a browser."""

import pytest

from tests.browser.stage import ROOT, Stage
from tests.browser.visit import Visit
from viz.player.scene import read_talk
from viz.player.talk import export_talk, talk_data
from viz.talk.shipped import NAMES, measured, recorded_runs, talk_path


@pytest.fixture
def visit(browser, url):
    visits = []

    def open_page(path="/", **context):
        visits.append(Visit(browser, path if path.startswith("file:") else url + path, **context))
        return visits[-1]

    yield open_page
    for page in visits:
        page.context.close()


@pytest.fixture(scope="module")
def talk():
    """The data of the shipped talk of six scenes."""
    shipped = read_talk(talk_path(NAMES[0]))
    return talk_data(shipped, recorded_runs(shipped), measured)


@pytest.fixture(scope="module")
def talk_files(talk, tmp_path_factory):
    """The exported talk with the speaker's window, and without."""
    folder = tmp_path_factory.mktemp("talk")
    for with_speaker in (True, False):
        (folder / f"{with_speaker}.html").write_text(export_talk(talk, with_speaker))
    return {with_speaker: f"file://{folder}/{with_speaker}.html" for with_speaker in (True, False)}


@pytest.fixture
def stage(visit, talk_files):
    opened = visit(talk_files[True], reduced_motion="reduce")
    opened.page.wait_for_function(f"() => {ROOT}.querySelector('.fa-screen-title')?.textContent")
    stage = Stage(opened.page)
    yield stage
    opened.assert_clean()
