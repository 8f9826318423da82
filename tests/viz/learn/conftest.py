"""Fixtures of the tests of the chapters."""

import pytest

from viz.shared import runs


@pytest.fixture
def no_worker(monkeypatch):
    """The page has no worker process."""
    monkeypatch.setattr(runs, "run_store", lambda: None)
