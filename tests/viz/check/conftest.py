"""A worker for each module of tests, links that are noted, and a kernel on the command line."""

import sys

import pytest

from tests.viz.check.pages import close_store


@pytest.fixture(scope="module", autouse=True)
def stop_the_worker():
    yield
    close_store()


@pytest.fixture(autouse=True)
def links(monkeypatch):
    """page_link knows only pages of the whole app; here it is noted what it would open."""
    opened = []
    monkeypatch.setattr(
        "viz.shared.layout.st.page_link", lambda page, **options: opened.append(options["query_params"])
    )
    return opened


@pytest.fixture
def named(monkeypatch):
    def name(*texts):
        close_store()
        monkeypatch.setattr(sys, "argv", ["app.py", *(f"--kernel={text}" for text in texts)])

    yield name
    close_store()
