"""The Measure page through Streamlit's AppTest: recorded, live, from a file, and with any URL."""

import json
from dataclasses import asdict, replace

import pytest

from kernels.measure.document import Document
from kernels.measure.peers import PEERS
from kernels.worker.client import Job, WorkerClient
from kernels.worker.failures import JobFailure
from kernels.worker.requests import CeilingsRequest
from tests.app.pages import fail_jobs, open_page
from tests.kernels.documents import document, measurement
from viz.measure import sources
from viz.measure.charts import WORDS
from viz.shared import runs

pytestmark = pytest.mark.usefixtures("own_store")
OURS = PEERS["ours"].label


@pytest.fixture(autouse=True)
def recording(monkeypatch):
    """Use a hand-built document in place of the shipped one, so that the tests do not depend on it."""
    documents = {"sweeps": document()}
    monkeypatch.setattr(sources, "recorded_document", lambda part: documents.get(part, Document()))
    return documents


def open_measure(**query):
    app = open_page("measure", **query)
    assert not app.exception
    return app


def figures(app):
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


def names(figure):
    return [trace.get("name", "").split("  ")[0] for trace in figure["data"]]


def captions(app):
    return " ".join(caption.value.replace("\\", "") for caption in app.caption)


def button(app, label):
    return next(each for each in app.button if each.label.startswith(label))


def test_the_first_view_is_the_recorded_sweep_with_its_table_and_origin():
    app = open_measure()
    (result,) = [each.value for each in app.markdown if "standard attention" in each.value]
    assert all(each in result for each in ("10×", "20×", "N 2k · recorded"))
    assert set(names(figures(app)[0])) == {"standard (torch)", OURS}
    assert app.dataframe[0].value["standard (torch)"][0] == "1 ms ±10%"
    assert "NVIDIA H200, 2026-11-21" in captions(app)
    assert "512 to 4k" in captions(app)
    assert "FlexAttention" in captions(app)  # which the recording lacks
    app.session_state["how"] = True
    assert any("python -m kernels.record" in code.value for code in app.run().code)
    assert len(app.subheader) == 2
    (roofline,) = [each for each in figures(app) if any("product" in name for name in names(each))]
    assert [name.partition(",")[0] for name in names(roofline) if "product" in name] == ["recorded"]


def test_every_chart_has_its_place_in_the_url_and_both_directions_a_chart_each(recording):
    both = tuple(measurement(n, direction=d) for n in (512, 1024) for d in ("forward", "backward"))
    recording["sweeps"] = replace(document(), measurements=both)
    app = open_measure(which="both", chart="TFLOP/s")
    for chart, title in (("TFLOP/s", "TFLOP/s"), ("memory", "peak memory"), ("speed-up", "times faster")):
        app.segmented_control(key="chart").set_value(chart).run()
        assert not app.exception
        titles = [figure["layout"]["title"]["text"] for figure in figures(app)[:2]]
        assert all(text.startswith(title) for text in titles)


def test_a_chart_without_values_says_what_to_choose():
    app = open_measure(peers="ours", chart="speed-up")
    assert [info.value for info in app.info] == [WORDS("without speedup")]


def test_without_a_recording_the_page_says_how_to_make_one(recording):
    recording.clear()
    assert "kernels.record" in open_measure().info[0].value


def test_peers_without_a_recording_are_said_with_what_is_recorded():
    assert "1024, 2048, 4096" in open_measure(peers="flex").info[0].value


@pytest.mark.parametrize("axis", ["length", "one point"])
def test_a_problem_without_a_recording_shows_the_nearest_and_says_how_far_it_is(axis):
    app = open_measure(hd=80, len=3000, element="bfloat16", heads=8, kv=2, axis=axis)
    (said,) = [each.value for each in app.caption if "your problem differs" in each.value]
    for words in ("heads 4 over 4, not 8 over 2", "head_dim 64, not 80", "dtype float16, not bfloat16"):
        assert words in said
    assert ("length 4,096, not 3,000" in said) == (axis != "length")
    assert OURS in " ".join([*names(figures(app)[0]), *app.dataframe[0].value.iloc[:, 0]])


def test_just_the_problem_that_was_recorded_is_said_to_be_that():
    assert "your problem differs" not in captions(open_measure())
    assert "your problem differs" in captions(open_measure(kv=2))


@pytest.mark.parametrize(
    ("query", "words"),
    [({"heads": 8, "kv": 3}, "kv_heads=3"), ({"length_from": 4096, "length_to": 256}, "another range")],
)
def test_what_cannot_be_measured_is_explained(query, words):
    app = open_measure(**query)
    assert words in app.error[0].value
    assert not figures(app)


def started_sweep(**query):
    """The page while it measures here."""
    app = open_measure(peers="naive", masking="causal", **query)
    assert runs.run_store().client.wait_ready(60)
    app.run()
    return button(app, "Measure here").click().run()


def test_a_sweep_here_is_laid_beside_the_recording():
    app = started_sweep(length_from=128, length_to=128)
    while (sweep := app.session_state["sweep"]).active:
        assert sweep.running is None or sweep.running.wait(60)
        app.run()
    assert not app.exception
    live = app.session_state["live"]
    assert [measured.problem.q_len for measured in live.measurements] == [128]
    assert "--length 128 " in live.command
    assert names(figures(app)[0]) == ["standard (torch)"]
    assert "**measured**: " in captions(app)
    app.segmented_control(key="chart").set_value("call time").run()
    assert WORDS("without call") in [info.value for info in app.info]  # a CPU has none


def test_ceilings_of_this_device_are_measured_on_demand(monkeypatch):
    app = open_measure(**{"from": "measured"})
    assert runs.run_store().client.wait_ready(60)
    app.session_state["live"] = replace(document(), ceilings=())
    app.run()
    fail_jobs(monkeypatch, CeilingsRequest, JobFailure("too little memory"))
    button(app, "Measure the ceilings").click().run()
    assert [error.value for error in app.error] == ["too little memory"]
    monkeypatch.setattr(WorkerClient, "submit", submit_measured)
    button(app, "Try again").click().run()
    button(app, "Measure the ceilings").click().run()
    assert not app.exception
    assert app.session_state["live"].ceilings == document().ceilings
    assert app.button(key="ceilings-again")


def submit_measured(client, request):
    job = Job(client, request, 1.0)
    job.finish([asdict(ceiling) for ceiling in document().ceilings])
    return job


def test_a_cancelled_sweep_keeps_what_it_has():
    app = started_sweep(length_from=128, length_to=4096)
    while not app.session_state["live"].measurements:
        running = app.session_state["sweep"].running
        assert running is None or running.wait(60)
        app.run()
    app.session_state["sweep"].cancel()
    app.run()
    assert not app.exception
    assert app.info[0].icon == ":material/stop_circle:"
    assert app.session_state["live"].measurements
    assert names(figures(app)[0]) == ["standard (torch)"]


def test_a_file_is_laid_beside_the_recording_unless_it_is_none():
    app = open_measure()
    for content in (b"{", b"\xff\xfe\x00", b"{}", b""):
        app.file_uploader[0].upload("x.json", content, "application/json").run()
        assert not app.exception
        assert app.error[0].value.startswith("x.json")
        assert figures(app)
    text = Document(command="mine", measurements=tuple(measurement(n) for n in (512, 1024, 2048))).to_json()
    app.file_uploader[0].upload("mine.json", text.encode(), "application/json").run()
    assert not app.exception
    assert f"{OURS} · file" in names(figures(app)[0])
    assert "**file**: NVIDIA H200" in captions(app)


def test_without_triton_the_recording_is_shown_and_nothing_is_measured(monkeypatch):
    for module in ("viz.shared.runs", "viz.shared.layout"):
        monkeypatch.setattr(f"{module}.triton_missing", lambda: "Triton has no wheel for Darwin")
    monkeypatch.setattr(runs, "run_store", lambda: None)
    app = open_measure()
    assert figures(app)
    assert button(app, "Measure here").disabled
