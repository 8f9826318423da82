"""For tests through Streamlit's AppTest: the app, opened at a URL, and jobs that fail."""

import functools
import json

from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from kernels.worker.client import Job, WorkerClient
from kernels.worker.requests import Request
from tests import ROOT
from viz.shared import runs

# Each AppTest reads the metadata of every installed package: longer than most of our pages take.
manifest_scanner.scan_component_manifests = functools.cache(manifest_scanner.scan_component_manifests)


def open_page(page="", **query):
    """The page at that path of the URL ("" is Explore, "measure" Measure), run once with these parameters."""
    app = AppTest.from_file(ROOT / "app.py", default_timeout=60)
    app.session_state["is_painted"] = True  # no browser paints a player here
    for name, value in query.items():
        app.query_params[name] = [*map(str, value)] if isinstance(value, list) else str(value)
    if page:
        # switch_page finds a page by its file only after a first, wasted, run of Explore
        app._page_hash = calc_hash(page)
    return app.run()


def run_script(script, given=None, **query):
    """A function as a page, run once with these parameters; `given` is in its session."""
    app = AppTest.from_function(script, default_timeout=60)
    app.session_state["given"] = given
    for name, value in query.items():
        app.query_params[name] = str(value)
    app.run()
    assert not app.exception
    return app


def open_chapter(slug, **query):
    """A chapter of the Learn page."""
    return open_page("learn", chapter=slug, **query)


def open_whole_chapter(slug, **query):
    """A chapter that is drawn without an error."""
    app = open_chapter(slug, **query)
    assert not app.exception
    return app


def words(app):
    """The words and captions of a page."""
    return "\n".join(element.value for element in [*app.markdown, *app.caption])


def mounted_player(app):
    """What the player of the page was given: {"run", "state", ...}; None if there is no player."""
    found = [each.proto for each in app.get("bidi_component")]
    players = [proto for proto in found if proto.component_name == "flash_attention_player"]
    assert len(players) < 2
    return json.loads(players[0].json) if players else None


def drawn_with_results(app, request_class=Request):
    """The page, drawn again until all jobs of that class that it asked for have ended."""
    store = runs.run_store()
    while True:
        jobs = [job for request, job in tuple(store._jobs.items()) if isinstance(request, request_class)]
        ended = all(job.done for job in jobs)
        for job in jobs:
            assert job.wait(60)
        app.run()
        if ended:
            return app


def fail_jobs(monkeypatch, request_class, failure):
    """Until monkeypatch.undo(), new jobs of that class end with the failure; all others go to the worker."""
    submit = WorkerClient.submit

    def submit_or_fail(client, request, time_limit_s=None):
        if not isinstance(request, request_class):
            return submit(client, request, time_limit_s)
        job = Job(client, request, 1.0)
        job.finish(failure=failure)
        return job

    monkeypatch.setattr(WorkerClient, "submit", submit_or_fail)
