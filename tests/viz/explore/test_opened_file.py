"""A saved trace on Explore: it plays with its provenance, is judged anew, and is closed again."""

from dataclasses import replace

import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.oracle.rule import judge_trace
from kernels.problem import AttentionProblem
from kernels.trace.sample import Sample
from kernels.worker.requests import JudgeRequest
from tests.app.pages import drawn_with_results, mounted_player, open_page
from viz.shared import runs
from viz.shared.formats import format_bytes

pytestmark = pytest.mark.usefixtures("stop_the_worker")
PROBLEM = AttentionProblem(q_len=40, kv_len=40, head_dim=16, block_m=16, block_n=16, mask="causal")
WHOLE = format_bytes(ALGORITHMS["flash2"].requested_bytes(PROBLEM))


def opened(monkeypatch, path, **query):
    """Explore with that file on the command line, once its error is known."""
    monkeypatch.setattr("sys.argv", ["app.py", "--trace", str(path)])
    app = open_page(**query)
    runs.run_store().client.wait_ready(60)
    drawn_with_results(app, JudgeRequest)
    return drawn_with_results(app, JudgeRequest)


def player(app):
    mounted = mounted_player(app)
    return mounted["run"] if mounted else None


def cards(app):
    return {metric.label: (metric.value, metric.delta) for metric in app.metric}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.npz"
    run_traced(PROBLEM).save(path)
    return path


def test_a_saved_trace_plays_counts_and_is_judged_anew(monkeypatch, file):
    app = opened(monkeypatch, file)
    assert not app.exception
    assert player(app)["provenance"].startswith("from your file mine.npz, recorded on ")
    assert player(app)["title"].startswith("FlashAttention-2, 40 × 40")
    assert cards(app)["Largest error of the result · measured"][1].startswith("passes")
    assert cards(app)["Bytes moved · counted"][0] == WHOLE


def test_the_controls_keep_their_problem_and_come_back_when_the_file_is_closed(monkeypatch, file):
    app = opened(monkeypatch, file, step="7", versus="flash1")
    assert mounted_player(app)
    next(button for button in app.button if button.label == "Close mine.npz").click().run()
    assert not app.exception
    assert app.query_params["step"] in ("7", ["7"])
    shown = mounted_player(app)["run"]
    assert [run["provenance"][:8] for run in shown["runs"]] == ["recorded", "recorded"]


def test_a_file_may_be_dropped_in_the_sidebar(file):
    app = open_page()
    app.file_uploader[0].upload("dropped.npz", file.read_bytes(), "application/octet-stream").run()
    assert not app.exception
    assert player(app)["provenance"].startswith("from your file dropped.npz, recorded on ")
    assert app.info[0].value.startswith("Shown is dropped.npz")


def test_a_wrong_result_in_a_file_fails(monkeypatch, tmp_path):
    trace = run_traced(PROBLEM)
    replace(trace, output=trace.output + 1).save(tmp_path / "wrong.npz")
    app = opened(monkeypatch, tmp_path / "wrong.npz")
    assert cards(app)["Largest error of the result · measured"][1].startswith("FAILS")


def test_a_sample_says_that_it_is_one(monkeypatch, tmp_path):
    run_traced(PROBLEM, "flash2", Sample((0,), (0, 2))).save(tmp_path / "part.npz")
    app = opened(monkeypatch, tmp_path / "part.npz")
    assert player(app)["notes"] == ["sample: 2 of 3 query tiles"]
    assert cards(app)["Bytes moved · modelled"][0] == WHOLE
    assert "(sampled rows)" in cards(app)["Largest error of the result · measured"][1]


def test_a_file_without_results_says_so(monkeypatch, tmp_path):
    replace(run_traced(PROBLEM), output=None).save(tmp_path / "bare.npz")
    app = opened(monkeypatch, tmp_path / "bare.npz")
    assert "The file holds no output, so its error is not known." in [
        caption.value for caption in app.caption
    ]
    assert cards(app)["Largest error of the result · measured"] == ("–", "not known")


def test_a_shipped_recording_that_holds_its_results_is_judged_anew(monkeypatch):
    trace = run_traced(PROBLEM)
    worse = replace(trace, output=trace.output + 1)
    recording = runs.Run(worse, judge_trace(trace), recorded=True)
    monkeypatch.setattr(runs, "recorded", lambda problem, algorithm: recording)
    app = open_page()
    runs.run_store().client.wait_ready(60)
    app.run()
    assert cards(app)["Largest error of the result · recorded"][1].startswith("passes")
    next(button for button in app.button if button.label == "Compute its error here").click().run()
    drawn_with_results(app, JudgeRequest)
    assert cards(app)["Largest error of the result · measured"][1].startswith("FAILS")


@pytest.mark.parametrize("content", [None, b"", b"text"], ids=["missing", "empty", "other"])
def test_a_file_that_cannot_be_opened_is_refused_with_words(monkeypatch, tmp_path, content):
    path = tmp_path / "x.npz"
    if content is not None:
        path.write_bytes(content)
    app = opened(monkeypatch, path)
    assert not app.exception
    assert "x.npz" in app.error[0].value
    assert player(app)["provenance"].startswith("recorded on")  # the page goes on without it


def test_a_file_whose_error_is_not_computed_yet_says_what_it_waits_for(monkeypatch, file):
    for backend, words in (
        ("starting", "once the worker process has started"),
        ("replay", "which cannot run here"),
    ):
        monkeypatch.setattr(runs, "backend", lambda store, backend=backend: backend)
        app = open_page()
        app.file_uploader[0].upload("dropped.npz", file.read_bytes(), "application/octet-stream").run()
        assert not app.exception
        assert any(words in caption.value for caption in app.caption)
        assert cards(app)["Largest error of the result · measured"][0] == "–"
