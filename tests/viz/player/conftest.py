"""The player's modules by themselves in a real browser, and runs for them."""

import pytest

from tests.viz.player.runs import FILES, ORIGIN, PROBLEM, hand_built, shown
from viz.player.html_page import FOLDER


@pytest.fixture(scope="module")
def run(browser):
    """A function that runs a line of JavaScript with the modules by their names, and `given`."""
    page = browser.new_page()

    def serve(route):
        name = route.request.url.removeprefix(f"{ORIGIN}/")
        if name.endswith(".js"):
            route.fulfill(body=(FOLDER / name).read_text(), content_type="text/javascript")
        else:
            route.fulfill(body="<!doctype html>", content_type="text/html")

    page.route(f"{ORIGIN}/**", serve)
    page.goto(f"{ORIGIN}/")
    imports = ", ".join(f"import('/{path}')" for path in FILES.values())
    page.evaluate(
        f"async () => [{', '.join(f'window.{name}' for name in FILES)}] = await Promise.all([{imports}])"
    )
    yield lambda script, given=None: page.evaluate(f"(given) => {script}", given)
    page.close()


@pytest.fixture(scope="module")
def data():
    return shown(hand_built(PROBLEM, clock=True))[1]
