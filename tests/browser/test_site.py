"""The site in a browser, from a folder and from a server below a path: it plays, and asks nobody else."""

import functools
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.browser.test_axe import axe_findings, contrast, cut_off, in_the_other
from viz.site.__main__ import main

pytestmark = pytest.mark.browser


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder that holds the site below another one."""
    root = tmp_path_factory.mktemp("host")
    assert main([str(root / "some" / "path")]) == 0
    return root


@pytest.fixture
def address(request, folder):
    """Of the site: in its folder, or on a server."""
    if request.param == "file":
        yield f"{folder.as_uri()}/some/path/index.html"
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/some/path/"
    server.shutdown()


class Shown:
    """The page of the site, and what it asks for."""

    def __init__(self, visit, address, **context):
        self.visit = visit("about:blank", **context)
        self.page, self.asked = self.visit.page, []
        self.home = address.partition("#")[0].removesuffix("index.html")
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)
        self.wait("FlashAttention-2, 64 × 64")

    def wait(self, words):
        self.page.locator("#title", has_text=words).wait_for()
        return self

    def follow(self, run, words):
        self.page.locator(f'.site-choice:has([value="{run}"])').select_option(run)
        return self.wait(words)

    @property
    def runs(self):
        """Names of the recordings that were asked for; nothing else may be."""
        assert all(url.startswith((self.home, "data:", "blob:")) for url in self.asked)
        return [url.removeprefix(f"{self.home}runs/") for url in self.asked if url.endswith(".js")]


@pytest.mark.parametrize("address", ["file", "http"], indirect=True)
def test_it_plays_at_once_and_loads_a_recording_once_it_is_asked_for(visit, address):
    shown = Shown(visit, address, reduced_motion="no-preference")
    shown.page.wait_for_function("/[1-9] s/.test(document.querySelector('.fa-count')?.textContent)")
    assert shown.runs == []
    shown.follow("gpt2.flash2", "1024 × 1024")
    assert shown.runs == ["gpt2.flash2.js"]
    shown.page.locator(".fa-notes", has_text="recorded on NVIDIA H200, Triton 3.6.0, 2026-11-23").wait_for()
    shown.visit.press("Home", "ArrowRight")
    shown.page.wait_for_function("() => location.hash === '#run=gpt2.flash2&step=0.P'")
    shown.follow("gpt2.standard.flash2", "against")
    assert shown.page.locator(".fa-duel .fa-stage").count() == 2
    assert shown.runs == ["gpt2.flash2.js", "gpt2.standard.flash2.js", "gpt2.standard.js"]
    shown.follow("lanes.causal64.forward", "FlashAttention-3")
    assert shown.page.locator("canvas.fa-lanes").is_visible()
    shown.page.go_back()
    shown.wait("against")
    shown.page.go_back()
    shown.wait("1024 × 1024").page.locator(".fa-count", has_text="step 1 / ").wait_for()
    assert len(shown.runs) == 4
    assert shown.page.locator("a[aria-current=true]").get_attribute("href") == "#run=gpt2.flash2"
    chosen = [choice.input_value() for choice in shown.page.locator(".site-choice").all()]
    assert [run for run in chosen if run] == ["gpt2.flash2"]


@pytest.mark.parametrize("address", ["http"], indirect=True)
def test_a_talk_opens_and_a_recording_that_is_not_there_is_named(visit, address):
    shown = Shown(visit, f"{address}#run=no.thing")
    shown.page.get_by_role("status").filter(has_text="“no.thing” did not load").wait_for()
    shown.page.get_by_role("link", name="The backward pass").click()
    shown.page.locator(".fa-screen-title").first.wait_for(state="attached")
    assert shown.runs == ["no.thing.js"]


@pytest.mark.parametrize("address", ["file"], indirect=True)
def test_axe_finds_nothing_and_nothing_is_cut_off(visit, address):
    shown = Shown(visit, address, color_scheme="light")
    shown.page.locator(".fa-chart svg").first.wait_for()
    found = axe_findings(shown.page) + contrast(in_the_other(shown.page))
    shown.page.evaluate("document.body.dataset.testid = 'stMain'")
    found += cut_off(shown.page, 2000)
    shown.follow("lanes.full64.forward", "FlashAttention-3")
    assert found + cut_off(shown.page, 2000) == []
