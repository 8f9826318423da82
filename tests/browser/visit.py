"""For the browser tests: the app on a free port, and a page of Chromium that collects its errors."""

import contextlib
import functools
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

from tests import ROOT

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
"""The first, Chromium without windows, takes a tenth less of a processor."""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # Playwright's, which this replaces, and the two pages that a window loads for its address bar.
    "--disable-features=HttpsUpgrades,LensOverlay,MediaRouter,NetworkTimeServiceQuerying,OptimizationHints,"
    "PaintHolding,WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup",
]
COMPONENT = "[data-testid^=stBidiComponent]"
PLAYER = (
    "(document.querySelector('.fa-player') ?? "
    f"[...document.querySelectorAll('{COMPONENT}, {COMPONENT} *')]"
    ".map((e) => e.shadowRoot?.querySelector('.fa-player')).find(Boolean))"
)
"""The player of a page. In the app it is below the root of a component; to ask every element takes longer."""

SETTLED = f"""async () => {{
  const player = () => {PLAYER};
  const idle = () => document.querySelector('[data-test-script-state=notRunning]');
  const end = performance.now() + 60000;
  let [shown, since] = [player(), performance.now()];
  while (performance.now() - since < 600 && performance.now() < end) {{
    await new Promise((done) => setTimeout(done, 50));
    if (player() !== shown || !idle()) [shown, since] = [player(), performance.now()];
  }}
}}"""
"""Waits until the script does not run, and the player is the same, for a moment: longer than between two
polls of a page that waits (`POLL_S`)."""


@contextlib.contextmanager
def running_app(*options):
    """The URL of the app, run as the README says, with more options of Streamlit."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        "app.py",
        "--server.headless=true",
        f"--server.port={port}",
        *options,
    ]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{url}/_stcore/health", timeout=1)
                break
            time.sleep(0.25)
        yield url
    finally:
        server.terminate()
        server.wait(20)


class Visit:
    """One browser page on the app (or on a file), with the errors and the requests that left the machine.

    Nothing plays by itself there, unless `reduced_motion` is "no-preference".
    """

    def __init__(self, browser, url, size=(1280, 720), reduced_motion="reduce", **context):
        context["reduced_motion"] = reduced_motion
        viewport = dict(zip(("width", "height"), size, strict=True))
        self.context = browser.new_context(viewport=viewport, **context)
        self.context.set_default_timeout(60_000)
        self.page = self.context.new_page()
        # By default each frame asks: 60 times a second, which also draws the page as often.
        self.page.wait_for_function = functools.partial(self.page.wait_for_function, polling=50)
        self.errors, self.outside = [], []
        self.page.on(
            "console", lambda message: self.errors.append(message.text) if message.type == "error" else None
        )
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        here = ("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:", "file:")
        self.page.on(
            "request",
            lambda request: self.outside.append(request.url) if not request.url.startswith(here) else None,
        )
        self.page.goto(url)

    def wait_for_player(self, provenance=""):
        """Wait until the player shows a run of that provenance.

        In the app, also wait until the worker has said what it runs on.
        """
        shown = f"(words) => {PLAYER}?.querySelector('.fa-notes')?.textContent.includes(words)"
        self.page.wait_for_function(shown, arg=provenance, timeout=60_000)
        if self.page.url.startswith("http"):
            badge = self.page.locator(".stMarkdownBadge", has_text=re.compile("interpreter|CUDA|replay"))
            first_visit = self.page.locator(".st-key-first_ways")
            badge.or_(first_visit).first.wait_for(state="attached", timeout=60_000)
            self.page.evaluate(SETTLED)
        return self

    def text(self, css):
        return self.page.evaluate(f"(css) => {PLAYER}.querySelector(css).textContent", css)

    def click(self, css):
        self.page.wait_for_function(f"(css) => {PLAYER}?.querySelector(css)", arg=css)
        self.page.evaluate(f"(css) => {PLAYER}.querySelector(css).click()", css)

    def step(self):
        """(step, steps) as the player counts them."""
        steps = self.text(".fa-count").removeprefix("step ").split(",")[0]  # without "phase 2 / 8"
        return tuple(int(word) for word in steps.split(" / "))

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
        return self

    def wait_for_url(self, words):
        self.page.wait_for_function("(words) => location.search.includes(words)", arg=words, timeout=60_000)
        return self

    def assert_clean(self):
        """But for files that Streamlit looks for below the path of a page first."""
        assert [error for error in self.errors if "404" not in error] == [], self.errors
        assert self.outside == []
