"""The player's modules by themselves in a real browser, and runs for them."""

import pytest

from kernels.algorithms import run_traced
from kernels.problem import AttentionProblem
from tests.viz.player.runs import FILES, GPU, ORIGIN, WINDOW
from tests.viz.player.test_data import PROBLEM, hand_built
from viz.player.data import player_data
from viz.player.modules import FOLDER


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
    return player_data(hand_built(PROBLEM, clock=True), "made up", GPU)


@pytest.fixture(scope="module")
def window():
    """(trace, player data) of a backward pass: three kernels, steps about a query or a key tile alone."""
    trace = run_traced(WINDOW, "backward")
    return trace, player_data(trace, "here", GPU)


@pytest.fixture(scope="module")
def parts():
    """(trace, player data) of a decoding step whose 7 key tiles are split into parts of 3, 3 and 1."""
    problem = AttentionProblem(
        q_len=1, kv_len=50, head_dim=16, q_heads=4, kv_heads=2, block_m=4, block_n=8, kv_splits=3
    )
    trace = run_traced(problem, "split_kv")
    return trace, player_data(trace, "here", GPU)
