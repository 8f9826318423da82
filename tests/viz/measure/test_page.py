"""The Measure page through Streamlit's AppTest: recorded, live, from a file, and with any URL."""

import json
import time
from dataclasses import replace

import pytest

from kernels.measure.document import Document
from kernels.measure.peers import PEERS
from tests.app.pages import open_page
from tests.kernels.documents import document, measurement
from viz.measure import sources
from viz.shared import runs

pytestmark = pytest.mark.usefixtures("stop_the_worker")
PAGE = "measure"


@pytest.fixture(autouse=True)
def recording(monkeypatch):
    """Use a hand-built document in place of the shipped one, so that the tests do not depend on it."""
    documents = {"sweeps": document()}
    monkeypatch.setattr(sources, "recorded_document", lambda part: documents.get(part, Document()))
    return documents


def open_measure(**query):
    return open_page(PAGE, **query)


def figures(app):
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


def names(figure):
    return [trace.get("name", "").split("  ")[0] for trace in figure["data"]]


def metrics(app):
    return {metric.label: metric.value for metric in app.metric}


def test_the_first_view_is_the_recorded_sweep_with_its_table_and_origin():
    app = open_measure()
    assert not app.exception
    assert metrics(app)["Speed-up · N 2k · recorded"] == "10×"
    assert metrics(app)["Memory of a sequence"] == "∝ N^1.0"
    assert set(names(figures(app)[0])) == {"naive (torch)", "our kernels, tiles tuned for a full GPU"}
    assert any(caption.value.startswith("recorded on NVIDIA H200") for caption in app.caption)
    assert list(app.dataframe[0].value[PEERS["naive"].label]) == [
        "1 ms ±10%",
        "4 ms ±10%",
        "16 ms ±10%",
        "out of memory",
    ]
    assert any("wide spread" in caption.value for caption in app.caption)
    assert any("python -m kernels.record" in code.value for code in app.code)
    assert [heading.value for heading in app.subheader] == [
        "Roofline",
        "Traffic: four numbers that are not the same",
    ]


@pytest.mark.parametrize(
    ("chart", "title"), [("TFLOP/s", "TFLOP/s"), ("memory", "peak memory"), ("speed-up", "times faster")]
)
def test_every_chart_has_its_place_in_the_url(chart, title):
    app = open_measure(chart=chart)
    assert not app.exception
    assert figures(app)[0]["layout"]["title"]["text"].startswith(title)


def test_both_directions_have_a_chart_each(recording):
    both = tuple(measurement(n, direction=d) for n in (512, 1024) for d in ("forward", "backward"))
    recording["sweeps"] = replace(document(), measurements=both)
    app = open_measure(which="both")
    assert not app.exception
    assert len(app.dataframe) >= 2


def captions(app):
    return " ".join(caption.value.replace("\\", "") for caption in app.caption)


def test_the_page_names_the_peers_that_a_recording_lacks():
    found = captions(open_measure(peers=["naive", "ours", "flex"]))
    assert "Not measured (recorded): FlexAttention." in found
    assert "Without a mark, because not timed on the problem shown: FlexAttention." in found


def test_a_choice_of_peers_that_a_recording_lacks_names_those_that_it_has():
    app = open_measure(peers="flex")
    assert not app.exception
    assert "has none of the chosen peers here. It has forward: naive (torch), our" in app.info[
        0
    ].value.replace("\\", "")
    assert not any(button.label == "Show what it holds" for button in app.button)


def test_a_speed_up_without_naive_attention_says_what_to_choose():
    app = open_measure(peers="ours", chart="speed-up")
    assert not app.exception
    assert "Choose naive (torch) among the peers" in app.info[0].value


def test_without_a_recording_the_page_says_how_to_make_one(recording):
    recording.clear()
    app = open_measure()
    assert not app.exception
    assert "This copy has no recorded sweep" in app.info[0].value


def test_a_choice_without_a_recording_says_what_is_recorded_and_goes_there():
    app = open_measure(hd=256, element="bfloat16")
    assert "It holds head_dim 64, full, float16, length 512, 1024, 2048, 4096" in app.info[0].value
    next(button for button in app.button if button.label == "Show what it holds").click().run()
    assert not app.exception
    assert not app.info
    assert app.selectbox(key="hd").value == 64


@pytest.mark.parametrize(
    "query",
    [
        {
            "hd": "77",
            "masking": "sideways",
            "element": "int8",
            "which": "up",
            "axis": "time",
            "peers": "nobody",
            "length_from": "9e9",
        },
        {
            "from": "nowhere",
            "chart": "pie",
            "shape": "round",
            "roof": "thatched",
            "len": "-1",
            "seqs": "a",
            "heads": "1e9",
            "load": "x",
        },
    ],
)
def test_nothing_in_a_url_breaks_the_page(query):
    app = open_measure(**query)
    assert not app.exception
    assert figures(app)


def test_peers_are_labelled_and_the_url_names_them():
    app = open_measure(peers=["naive", "sdpa_math", "nobody"])
    (peers,) = (each for each in app.multiselect if each.label == "peers")
    assert peers.options[:2] == ["naive (torch)", "our kernels"]
    assert peers.value == ["naive", "sdpa_math"]
    peers.set_value([]).run()
    assert app.query_params["peers"] == ""
    assert "No peer is chosen. Choose some of naive (torch), our kernels" in app.error[0].value


def test_a_range_that_is_empty_is_explained():
    app = open_measure(length_from=4096, length_to=256)
    assert not app.exception
    assert "must not be larger than" in app.error[0].value


def wait_for_the_sweep(app, limit_s=90):
    until = time.monotonic() + limit_s
    while (sweep := app.session_state["sweep"]).active and time.monotonic() < until:
        if sweep.running is not None:
            sweep.running.wait(5)
        app.run()
    return app


def measure_here(**query):
    app = open_measure(**query)
    store = runs.run_store()
    assert store.client.wait_ready(60)
    app.run()
    next(button for button in app.button if button.label == "Measure here").click().run()
    return app


SMALL = {"length_from": 128, "length_to": 256, "peers": "naive", "masking": "causal"}


def test_a_sweep_here_is_measured_point_by_point_and_laid_beside_the_recording():
    app = wait_for_the_sweep(measure_here(**SMALL))
    assert not app.exception
    live = app.session_state["live"]
    assert [measured.problem.q_len for measured in live.measurements] == [128, 256]
    assert live.command.startswith("python -m kernels.measure --length 128,256 --head-dim 64 --mask causal")
    assert names(figures(app)[0]) == ["naive (torch)"]
    assert any("measured on this machine" in caption.value for caption in app.caption)


def test_the_page_says_of_which_problems_the_recording_is_and_what_is_measured_here():
    app = open_measure(length_from=128, length_to=256, heads=2)
    (words,) = [each.value for each in app.caption if each.value.startswith("**recorded** shows")]
    recorded, _, here = words.partition("**“Measure here”** measures what the sidebar says, ")
    assert recorded.startswith("**recorded** shows length 512 to 4k, head_dim 64, full, float16, ")
    assert "by head_dim, dtype, mask and peers" in recorded
    but, here = here.split(": ")
    assert but == "but in float32, as always on a CPU"  # the sidebar says float16
    assert here == "length 128 to 256, head_dim 64, full, float32, batch 1, 2 heads."
    assert not any("but in" in each.value for each in open_measure(element="float32").caption)
    one_point = open_measure(axis="one point", len=1024)
    assert any("by head_dim, length, dtype" in each.value for each in one_point.caption)


def test_a_call_time_that_a_cpu_does_not_have_is_said_with_where_to_look():
    app = wait_for_the_sweep(measure_here(**SMALL | {"chart": "call time", "masking": "full"}))
    (said,) = [each.value for each in app.info if "call time" in each.value and "**measured**" in each.value]
    assert "choose “time” above" in said
    app.segmented_control(key="chart").set_value("time").run()
    assert not any("**measured** has no call time" in each.value for each in app.info)


def test_the_roof_of_a_recording_is_recorded():
    (figure,) = [each for each in figures(open_measure()) if any("product" in name for name in names(each))]
    roofs = [name for name in names(figure) if "product" in name]
    assert [name.partition(",")[0] for name in roofs] == ["recorded"]


def test_a_cancelled_sweep_keeps_what_it_has():
    app = measure_here(**SMALL | {"length_to": 4096})
    while not app.session_state["live"].measurements:
        app.session_state["sweep"].running and app.session_state["sweep"].running.wait(30)
        app.run()
    app.session_state["sweep"].cancel()
    app.run()
    assert not app.exception
    assert "points measured before stay" in app.info[0].value
    assert app.session_state["live"].measurements
    assert names(figures(app)[0]) == ["naive (torch)"]


def test_ceilings_of_this_device_are_measured_on_demand():
    app = wait_for_the_sweep(measure_here(**SMALL | {"length_to": 128, "from": "measured"}))
    next(button for button in app.button if button.label.startswith("Measure the ceilings")).click().run()
    for _ in range(60):
        if app.session_state["live"].ceilings:
            break
        time.sleep(0.5)
        app.run()
    assert not app.exception
    assert {ceiling.kind for ceiling in app.session_state["live"].ceilings} == {"copy", "product"}


def test_ceilings_that_could_not_be_measured_say_why():
    app = open_measure(**{"from": "measured"})
    assert runs.run_store().client.wait_ready(60)
    app.session_state["live"] = document()
    app.session_state["ceilings_failure"] = "too little memory"
    app.run()
    assert not app.exception
    assert any("too little memory" in warning.value for warning in app.warning)


def test_a_file_is_laid_beside_the_recording():
    app = open_measure()
    text = Document(command="mine", measurements=tuple(measurement(n) for n in (512, 1024, 2048))).to_json()
    app.file_uploader[0].upload("mine.json", text.encode(), "application/json").run()
    assert not app.exception
    assert "our kernels, tiles tuned for a full GPU · file" in names(figures(app)[0])
    assert any("from your file, recorded on NVIDIA H200" in caption.value for caption in app.caption)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"{}", "expected flash\\-attention\\-measurements version 1"),
        (b"", "not JSON"),
    ],
    ids=["truncated", "binary", "other", "empty"],
)
def test_a_file_that_is_not_a_recording_is_explained(content, message):
    app = open_measure()
    app.file_uploader[0].upload("x.json", content, "application/json").run()
    assert not app.exception
    assert "is not accepted" in app.error[0].value
    assert message in app.error[0].value
    assert figures(app)


def test_without_triton_the_recording_is_shown_and_nothing_is_measured(monkeypatch):
    monkeypatch.setattr(
        runs, "triton_missing", lambda: "Triton has no wheel for Darwin; recorded runs are shown"
    )
    monkeypatch.setattr(
        "viz.shared.layout.triton_missing", lambda: "Triton has no wheel for Darwin; recorded runs are shown"
    )
    monkeypatch.setattr(runs, "run_store", lambda: None)
    app = open_measure()
    assert not app.exception
    assert figures(app)
    assert next(button for button in app.button if button.label == "Measure here").disabled
