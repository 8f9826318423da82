"""The app as it is started: bound to this machine, protected, quiet, a kernel only from the command line."""

import tomllib

import pytest

from kernels.measure import peers
from kernels.measure.document import MAX_FILE_BYTES
from tests import ROOT
from tests.app.pages import open_page, run_script, words
from viz.shared import options, runs

CONFIG = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())


def test_it_binds_to_this_machine_keeps_its_protection_and_sends_nothing_to_other_sites():
    server, client = CONFIG["server"], CONFIG["client"]
    assert server["address"] == "127.0.0.1"
    assert server["enableXsrfProtection"] is True
    assert server["enableCORS"] is True
    assert server["allowedHosts"] == ["localhost", "127.0.0.1", "::1"]
    assert server["maxUploadSize"] << 20 <= MAX_FILE_BYTES
    assert CONFIG["browser"]["gatherUsageStats"] is False
    assert client["showErrorDetails"] in ("type", "none", False)
    assert client["showErrorLinks"] is False  # links that carry an error message to other sites


def described():
    import streamlit as st

    shown = "shown"
    """What the name above is."""
    st.markdown(shown)


def test_what_a_page_says_of_its_names_is_not_shown():
    assert words(run_script(described)) == "shown"


@pytest.fixture
def kernel_file(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def attention(q, k, v): return v\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine.py"


def started_with(monkeypatch):
    """The kernel that the app's first page gives its worker. PEERS is put back after the test."""
    monkeypatch.setattr(peers, "PEERS", {name: peer for name, peer in peers.PEERS.items() if name != "user"})
    monkeypatch.setattr(runs, "WorkerClient", lambda kernels: kernels)
    runs.run_store.clear()
    client = runs.run_store().client
    runs.run_store.clear()
    return client


def test_a_wrong_one_starts_no_worker_with_it(kernel_file, monkeypatch):
    monkeypatch.setattr("sys.argv", ["app.py", "--kernel", "gone.py:attention"])
    assert started_with(monkeypatch) == []
    assert "user" not in peers.PEERS


def test_a_named_kernel_is_a_peer_as_soon_as_the_app_runs(kernel_file, monkeypatch):
    monkeypatch.setattr("sys.argv", ["app.py", "--kernel", "mine.py:attention"])
    (kernel,) = options.named_kernels()
    assert (kernel.path, kernel.function, kernel.name) == (kernel_file, "attention", "mine.py:attention")
    assert started_with(monkeypatch) == [f"{kernel_file}:attention"]
    assert peers.PEERS["user"].label == "mine.py:attention"


@pytest.mark.usefixtures("own_store")
def test_the_app_opens_with_the_check_of_a_named_kernel(kernel_file, monkeypatch):
    monkeypatch.setattr("sys.argv", ["app.py", "--kernel", "mine.py:attention"])
    app = open_page()
    assert not app.exception
    assert "mine.py:attention" in app.selectbox(key="kernel").options
