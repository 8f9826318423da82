"""A saved trace on Explore: it plays with its provenance; what is none is refused."""

import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.problem import AttentionProblem
from kernels.trace.sample import Sample
from tests.app.pages import mounted_player, open_page
from viz.shared import runs
from viz.shared.formats import format_bytes

pytestmark = pytest.mark.usefixtures("own_store")
PROBLEM = AttentionProblem(q_len=40, kv_len=40, head_dim=16, block_m=16, block_n=16, mask="causal")
WHOLE = format_bytes(ALGORITHMS["flash2"].requested_bytes(PROBLEM))


@pytest.fixture(autouse=True)
def replay(monkeypatch):
    """A machine on which nothing runs."""
    monkeypatch.setattr(runs, "backend", lambda store: "replay")


def opened(content, **query):
    """Explore with a file of these bytes."""
    app = open_page(**query)
    app.file_uploader[0].upload("mine.npz", content, "application/octet-stream").run()
    assert not app.exception
    return app


def cards(app):
    """Value and comparison by the first word of the label."""
    return {metric.label.split()[0]: (metric.value, metric.delta) for metric in app.metric}


@pytest.mark.parametrize("sample", [None, Sample((0,), (0, 2))], ids=["whole", "sample"])
def test_a_saved_trace_plays_and_its_error_is_not_known(sample):
    app = opened(run_traced(PROBLEM, "flash2", sample).to_bytes(), step="7", versus="flash1")
    data = mounted_player(app)["run"]
    assert "mine.npz" in data["provenance"]
    assert "40 × 40" in data["title"]
    assert cards(app)["Largest"][0] == "–"
    assert cards(app)["Bytes"][0] == WHOLE
    if sample:
        assert "2 of 3" in data["notes"][0]


def test_a_file_that_is_no_trace_is_refused_with_words():
    app = opened(b"text", q_len=1024)
    assert "mine.npz" in app.error[0].value
    assert mounted_player(app)["run"]["provenance"].startswith("recorded on")  # the page goes on without it
