"""The Explore page through Streamlit's AppTest: what it shows, in every state of the worker."""

import re

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_problems
from kernels.traffic.modelled import least_bytes
from kernels.worker.requests import MeasureRequest, TraceRequest
from tests.anywhere import ANYWHERE
from tests.app.pages import drawn_with_results, mounted_player, open_page
from viz.shared import runs
from viz.shared.formats import format_bytes

pytestmark = pytest.mark.usefixtures("own_store")
SMALL = {"q_len": 64, "kv_len": 64, "block_m": 32, "block_n": 32, "head_dim": 16}


def player(app):
    """Player data of the page, or None."""
    mounted = mounted_player(app)
    return mounted["run"] if mounted else None


def open_live(**query):
    """The page on a small problem that is not recorded, once its runs have ended."""
    app = drawn_with_results(open_page(**SMALL | query), TraceRequest)
    assert not app.exception
    return app


def cards(app):
    """Value and comparison by the first word of the label and the word for the origin, "Bytes counted"."""
    labels = (metric.label.removeprefix("A: ").split() for metric in app.metric)
    shown = ((metric.value, metric.delta) for metric in app.metric)
    return {f"{label[0]} {label[-1]}": each for label, each in zip(labels, shown, strict=True)}


def test_a_link_to_an_algorithm_opens_the_recorded_gpt2_head_with_four_figures():
    app = open_page(algorithm="flash2", step="12.3", unit="phase", row="0.17")
    assert not app.exception
    data = player(app)
    assert "1024 × 1024" in data["title"]
    assert "NVIDIA H200" in data["provenance"]
    assert len(app.metric) == 4
    assert cards(app)["Bytes counted"][0] == "2.49 MB"
    assert cards(app)["Largest recorded"][1].startswith("passes")
    assert not app.get("plotly_chart")  # nothing is drawn of what is folded
    app.session_state["programs"] = True
    assert len(app.run().get("plotly_chart")) == 1
    assert mounted_player(app)["state"] == {"step": "12.3", "unit": "phase", "row": "0.17"}
    app.session_state["is_painted"] = False  # until the player is painted nothing below it is sent
    app.run()
    assert mounted_player(app)
    assert len(app.metric) == len(app.get("plotly_chart")) == 0


@pytest.mark.parametrize("algorithm", [*sorted({*ALGORITHMS} - {*ANYWHERE}), "flash1"])
def test_what_cannot_run_here_plays_its_recording(algorithm):
    app = open_page(**recorded_problems(algorithm)[0].as_dict(), algorithm=algorithm)
    assert not app.exception
    assert player(app)["provenance"].startswith("recorded on")
    assert player(app)["title"].startswith(ALGORITHMS[algorithm].label)


def test_a_click_opens_a_recorded_run_if_the_problem_cannot_run_here():
    app = open_page(algorithm="flash3", **SMALL)
    assert player(app) is None
    next(each for each in app.button if each.label == "GPT-2 head").click().run()
    assert "1024 × 1024" in player(app)["title"]


@pytest.mark.parametrize("algorithm", ANYWHERE)
def test_every_algorithm_plays_a_run(algorithm):
    app = open_live(algorithm=algorithm)
    data, entry = player(app), ALGORITHMS[algorithm]
    assert data["title"].startswith(entry.label)
    assert data["provenance"].startswith("run here")
    assert cards(app)["Largest measured"][1].startswith("passes")
    assert [kernel["name"] for kernel in data["kernels"]] == [kernel.name for kernel in entry.kernels]
    said = " ".join(caption.value for caption in app.caption)
    assert f"moves {format_bytes(least_bytes(PRESETS['gpt2'].problem.with_(**SMALL), entry))}" in said


def test_a_preset_brings_its_problem_and_its_algorithm_and_another_takes_that_back():
    app = open_page(algorithm="flash2")
    app.selectbox(key="preset").select("decode").run()
    assert player(app)["title"].startswith("Split-KV decoding")
    app.selectbox(key="preset").select("ragged").run()
    assert player(app)["title"].startswith("FlashAttention-2")
    for field, value in PRESETS["ragged"].problem.as_dict().items():
        assert app.session_state[field] == value
    app.selectbox(key="algorithm").select("flash1").run()
    app.selectbox(key="preset").select("gpt2").run()
    assert app.selectbox(key="algorithm").value == "flash1"  # chosen by hand, so it stays


def test_two_runs_are_compared_under_one_transport():
    app = open_live(versus="flash1", place="bytes:250", versus_block_m="16", versus_mask="causal")
    component = mounted_player(app)
    assert component["state"] == {"place": "bytes:250"}
    first, second = component["run"]["runs"]
    assert first["title"].startswith("FlashAttention-2")
    assert second["title"].startswith("FlashAttention-1")
    assert [run["problem"]["block_m"] for run in (first, second)] == [32, 16]
    assert second["problem"]["mask"] == "causal"
    assert re.fullmatch(r"[\d.]+×.+: B .+B", cards(app)["Bytes counted"][1])


def test_the_url_and_the_controls_keep_the_tiles_of_the_user():
    problem = PRESETS["gpt2"].problem.with_(block_m=32)
    app = open_page(**problem.as_dict(), algorithm="flash3")
    assert player(app)["problem"]["block_m"] == 128
    assert "".join(app.query_params["block_m"]) == "32"
    assert app.selectbox(key="block_m").value == 32


def test_another_problem_is_run_here_and_measured():
    app = open_live()
    assert player(app)["steps"]["count"] == 3
    problem = PRESETS["gpt2"].problem.with_(**SMALL)
    app.run()
    on_gpu = runs.backend(runs.run_store()) == "cuda"
    request = MeasureRequest(problem if on_gpu else problem.with_(dtype="float32"))
    assert runs.run_store().job(request).wait(60)
    app.run()
    assert [metric.value != "–" for metric in app.metric] == [True] * 4


def test_the_first_visit_is_a_sentence_alone_until_something_is_chosen():
    app = open_page()
    assert player(app)["words"][0][:4] == ["<s>", "The", "chip", "is"]
    assert len(app.metric) == len(app.sidebar.selectbox) == 0
    next(button for button in app.button if "sizes" in button.label).click().run()
    assert len(app.metric) == 4
    assert app.text_area(key="text").value == ""


def test_what_is_changed_on_the_first_visit_opens_again_from_its_url():
    app = open_page()
    next(button for button in app.button if "sizes" in button.label).click().run()
    app.text_area(key="text").set_value("the cat sat").run()
    url = {name: "".join(value) for name, value in app.query_params.items()}
    again = open_page(**url)
    problem = PRESETS["text"].problem.with_(text="the cat sat").as_dict()
    assert {name: again.session_state[name] for name in problem} == problem
    app.selectbox(key="preset").set_value("gpt2").run()
    assert set(app.query_params) == {"algorithm"}  # a link without a problem is one to the sentence
    assert open_page(step="0.2").number_input(key="q_len").value == 64
