"""A saved trace on Explore: it plays with its provenance, its error is computed here, it is closed again."""

from dataclasses import replace

import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.problem import AttentionProblem
from kernels.trace.sample import Sample
from kernels.worker.requests import JudgeRequest
from tests.app.pages import drawn_with_results, mounted_player, open_page
from viz.shared import runs
from viz.shared.formats import format_bytes

pytestmark = pytest.mark.usefixtures("own_store")
PROBLEM = AttentionProblem(q_len=40, kv_len=40, head_dim=16, block_m=16, block_n=16, mask="causal")
WHOLE = format_bytes(ALGORITHMS["flash2"].requested_bytes(PROBLEM))


@pytest.fixture(scope="module")
def trace():
    return run_traced(PROBLEM)


@pytest.fixture
def opened(monkeypatch, tmp_path):
    """Explore with that trace, or those bytes, on the command line as mine.npz, once its error is known."""

    def opened(content, **query):
        path = tmp_path / "mine.npz"
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content is not None:
            content.save(path)
        monkeypatch.setattr("sys.argv", ["app.py", "--trace", str(path)])
        app = open_page(**query)
        runs.run_store().client.wait_ready(60)
        drawn_with_results(app, JudgeRequest)
        drawn_with_results(app, JudgeRequest)
        assert not app.exception
        return app

    return opened


def player(app):
    mounted = mounted_player(app)
    return mounted["run"] if mounted else None


def cards(app):
    """Value and comparison by the first word of the label."""
    return {metric.label.split()[0]: (metric.value, metric.delta) for metric in app.metric}


def test_a_saved_trace_plays_is_judged_and_closed_again(opened, trace):
    app = opened(trace, step="7", versus="flash1")
    assert "mine.npz" in player(app)["provenance"]
    assert "40 × 40" in player(app)["title"]
    assert cards(app)["Largest"][1].startswith("passes")
    assert cards(app)["Bytes"][0] == WHOLE
    next(button for button in app.button if button.label == "Close mine.npz").click().run()
    assert not app.exception
    assert app.query_params["step"] in ("7", ["7"])
    assert [run["provenance"][:8] for run in player(app)["runs"]] == ["recorded", "recorded"]


@pytest.mark.parametrize("backend", ["interpreter", "replay"])
def test_a_file_may_be_dropped_in_the_sidebar(trace, tmp_path, backend, monkeypatch):
    monkeypatch.setattr(runs, "backend", lambda store: backend)
    trace.save(tmp_path / "mine.npz")
    app = open_page()
    data = (tmp_path / "mine.npz").read_bytes()
    app.file_uploader[0].upload("dropped.npz", data, "application/octet-stream").run()
    assert not app.exception
    assert "dropped.npz" in player(app)["provenance"]
    if backend != "interpreter":
        assert cards(app)["Largest"][0] == "–"


@pytest.mark.parametrize(("lacks_output", "error"), [(False, "FAILS"), (True, "not known")])
def test_a_wrong_result_in_a_file_fails_and_one_without_results_has_no_error(
    opened, trace, lacks_output, error
):
    app = opened(replace(trace, output=None if lacks_output else trace.output + 1))
    assert cards(app)["Largest"][1].startswith(error)


def test_a_sample_says_that_it_is_one(opened):
    app = opened(run_traced(PROBLEM, "flash2", Sample((0,), (0, 2))))
    assert "2 of 3" in player(app)["notes"][0]
    assert cards(app)["Bytes"][0] == WHOLE
    assert "(sampled rows)" in cards(app)["Largest"][1]


@pytest.mark.parametrize("content", [None, b"text"], ids=["missing", "other"])
def test_a_file_that_cannot_be_opened_is_refused_with_words(opened, content):
    app = opened(content, q_len=1024)
    assert "mine.npz" in app.error[0].value
    assert player(app)["provenance"].startswith("recorded on")  # the page goes on without it
