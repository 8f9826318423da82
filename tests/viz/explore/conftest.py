"""Fixtures of the tests of Explore."""

import pytest

from viz.shared import waiting


@pytest.fixture
def impatient(monkeypatch):
    """Pages do not wait for jobs, which the test ends by hand."""
    monkeypatch.setattr(waiting, "WAIT_S", 0.01)
    monkeypatch.setattr(waiting.result_of, "__defaults__", (0.01,))
