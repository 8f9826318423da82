"""The Your model page through Streamlit's AppTest."""

import json
from dataclasses import replace
from urllib.parse import parse_qsl

import pytest

from kernels.algorithms import FIRST
from kernels.device.gpus import GPUS
from kernels.models import MODELS
from kernels.models.cost import OURS
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_measurements
from tests.app.pages import open_page, words
from tests.kernels.documents import measurement
from tests.kernels.models.configs import BAD, LLAMA
from viz.model.words import NEAREST, Shown, cards, result, sdpa_words, table
from viz.shared import runs
from viz.shared.formats import format_error

pytestmark = pytest.mark.usefixtures("own_store")


def open_model(**query):
    app = open_page("model", **query)
    assert not app.exception
    return app


def links(app):
    """{label: query} of the links of a page."""
    return {each.proto.label: each.proto.query_string for each in app.get("page_link")}


def shown(name="llama3_8b", length=8192, live=(), recorded=()):
    return Shown(MODELS[name], length, 1, tuple(live), tuple(recorded), GPUS["H200"])


def test_the_first_view_is_a_model_with_the_origin_of_each_number():
    app = open_model()
    assert app.selectbox(key="model").value == "llama3_8b"
    labels = [metric.label.split(" · ") for metric in app.metric]
    assert [origin for _, origin in labels] == ["modelled", "modelled", "recorded", "recorded"]
    assert app.metric[1].value == "1.07 GB"
    text = words(app)
    assert "32 query heads over 8 key heads" in text
    assert "meta-llama/Meta-Llama-3-8B" in text
    assert "NVIDIA H200" in text
    assert "picked **cuDNN** for each" in text


def test_a_time_that_was_not_taken_says_how_far_its_recording_is():
    app = open_model(tokens=5000)
    assert app.metric[2].label.endswith(NEAREST)
    assert "Prefill (prompt): scaled from length 8,192, not 5,000" in words(app).replace("\\", "")


@pytest.mark.parametrize(("number", "name"), [*enumerate(MODELS)])
def test_each_model_is_drawn_with_a_row_per_kind_of_layer_at_the_least_or_the_largest_length(number, name):
    app = open_model(model=name, tokens=(1, 131072)[number % 2], sequences=2)
    kinds = [each.value for each in app.markdown if each.value.startswith("**") and "sees" in each.value]
    assert len(kinds) == len(MODELS[name].kinds)
    assert len(app.metric) == 4


def test_a_length_is_chosen_by_a_button():
    app = open_model()
    app.button(key="to-131072").click().run()
    assert app.number_input(key="tokens").value == 131072
    assert any("does not fit" in each.value for each in app.markdown)
    assert any("fewer than the 131,072 shown" in each.value for each in app.markdown)


def test_the_links_carry_the_problem():
    app = open_model(model="llama3_8b", tokens=2048)
    found = links(app)
    head = PRESETS["llama3"].problem
    for name, value in head.as_dict().items():
        assert (name, str(value)) in parse_qsl(found["Play one head"], keep_blank_values=True)
    assert {"hd=128", "len=2048", "heads=32", "masking=causal"} <= {*found["Measure"].split("&")}
    assert "algorithm=split_kv" in found["Play a decoding step"]
    assert "kv_len=256" in found["Check one head at 256"]
    assert "q_len=32768" in links(open_model(tokens=65536))["Play one head at 32k"]
    assert "q_len=131072" in links(open_model(tokens=131072))["Play one head"]


def test_a_recorded_head_says_how_exact_it_is():
    run = runs.recorded(MODELS["llama3_8b"].head(8192, "full"), FIRST)
    said = f"against float64, is {format_error(run.report.max_error)} of {format_error(run.report.tolerance)}"
    assert said in words(open_model(model="llama3_8b", tokens=8192))
    assert "against float64" not in words(open_model(model="llama3_8b", tokens=5000))


def test_a_pasted_config_is_shown_and_the_url_keeps_what_was_read():
    app = open_model(model="own")
    assert any("Paste" in each.value for each in app.info)
    pasted = json.loads(MODELS["gpt_oss_20b"].config) | {"rope_theta": 150000}
    app.text_area(key="config").set_value(json.dumps(pasted)).run()
    assert "64 query heads over 8 key heads" in words(app)
    assert "sink" in words(app)
    kept = app.query_params["config"]
    assert "rope" not in kept
    again = open_model(model="own", config=kept)
    assert "64 query heads over 8 key heads" in words(again)


@pytest.mark.parametrize("name", ["MLA", "groups", "no heads"])
def test_a_config_that_is_not_accepted_is_said_and_nothing_else_is_shown(name):
    app = open_model(model="own", config=json.dumps(BAD[name][0]))
    assert len(app.error) == 1
    assert BAD[name][1].split("=")[0] in app.error[0].value.replace("\\", "")
    assert not app.metric


def test_text_in_a_config_makes_no_picture():
    app = open_model(model="own", config=json.dumps({**LLAMA, "torch_dtype": "![x](http://a.b)"}))
    assert "![x](http" not in app.error[0].value


def test_what_was_measured_here_counts_before_a_recording():
    llama = MODELS["llama3_8b"].problem(8192)
    here = replace(measurement(8192, mask="causal"), problem=llama)
    times = [card.label for card in cards(shown(live=[here], recorded=[measurement(8192)]))]
    assert times[2].endswith("· measured")
    assert shown(live=[here]).costs("prefill", OURS).ms == 32 * here.result("ours").timing.median_ms


def test_without_a_recording_there_is_no_time():
    assert [card.value for card in cards(shown())][2:] == ["–", "–"]
    assert "not recorded" in table(shown())


def test_the_headline_names_cudnn_first_where_it_computes_the_same():
    recorded = recorded_measurements()
    ways = ["cuDNN", "the kernel here", "standard attention"]
    said = result(shown(recorded=recorded))
    assert sorted(ways, key=said.index) == ways
    assert ways[0] not in result(shown("gpt_oss_20b", recorded=recorded))  # its sinks are left out there
    assert "standard attention (" not in result(shown(length=131072, recorded=recorded))  # it does not fit
    assert " ms" not in result(shown())


def test_cudnn_has_no_numbers_for_float32_and_for_a_window_that_was_not_recorded_as_a_mask():
    assert "H100" in sdpa_words(shown())
    assert "mask of N × N" not in sdpa_words(shown())
    assert "mask of N × N" in sdpa_words(shown("mistral_7b", recorded=[measurement(8192)]))
    gpt2 = replace(shown("gpt2"), model=replace(MODELS["gpt2"], dtype="float32"))
    assert table(gpt2).count("| – |") == 8


def test_on_a_gpu_measure_is_to_measure_just_this(monkeypatch):
    monkeypatch.setattr(runs, "backend", lambda store: "cuda")
    assert "axis=one+point" in links(open_model(model="gpt2", tokens=128))["Measure"]
