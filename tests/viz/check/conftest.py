"""One worker for a module of tests, which knows the user's kernels, and links that are noted."""

import sys

import pytest

from tests import BUGGY_KERNEL
from tests.kernels.sanitizer import cases
from viz.shared import runs


@pytest.fixture(scope="module", autouse=True)
def mine(tmp_path_factory):
    """The file of the second kernel on the command line, "user2"; the tests write it."""
    path = tmp_path_factory.mktemp("own") / "mine.py"
    path.write_text("")
    attention = f"{BUGGY_KERNEL}:attention"
    named = (attention, f"{path}:attention", f"{attention}_fixed", f"{cases.__file__}:reads_past_keys")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["app.py", *(f"--kernel={text}" for text in named)])
        yield path
        if store := runs.run_store():
            store.client.close()
        runs.run_store.clear()


@pytest.fixture(autouse=True)
def links(monkeypatch):
    """page_link knows only pages of the whole app; here it is noted what it would open."""
    opened = []
    monkeypatch.setattr(
        "viz.shared.layout.st.page_link", lambda page, **options: opened.append(options["query_params"])
    )
    return opened
