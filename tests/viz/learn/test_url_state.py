"""Steps, lines and examples that buttons also set are in the URL, and Streamlit does not warn of defaults."""

import logging

import pytest
import streamlit.elements.lib.policies as streamlit_policies

from tests.app.pages import open_chapter
from viz.shared import runs

CLICKS = [
    ("softmax", "softmax_step_Last", "softmax_step", "4", {"softmax_part": "One pass", "softmax_block": 1}),
    ("softmax", "softmax_reads_Last", "softmax_reads", "6", {"softmax_part": "Three passes, two, one"}),
    ("tiling", "tiling_step_Last", "tiling_step", "8", {}),
    ("gradients", "gradients_Forward", "gradients_derivation", "dV", {"gradients_view": "Line by line"}),
    ("tiling", "tiling_part_on", "tiling_part", "Attention without softmax", {}),
]


@pytest.fixture(autouse=True)
def no_worker(monkeypatch):
    """These tests are of the chapters, not of what they start in the worker."""
    monkeypatch.setattr(runs, "run_store", lambda: None)


@pytest.fixture
def streamlit_warnings(monkeypatch):
    """What Streamlit logs about widgets. It warns once per process, so its mark of having warned is reset."""
    monkeypatch.setattr(streamlit_policies, "_shown_default_value_warning", False)
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logger = streamlit_policies._LOGGER
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)


@pytest.mark.parametrize(("chapter", "button", "parameter", "value", "query"), CLICKS)
def test_a_button_writes_its_step_to_the_url(chapter, button, parameter, value, query, streamlit_warnings):
    app = open_chapter(chapter, **query)
    app.button(key=button).click().run()
    assert not app.exception
    assert app.query_params[parameter] in (value, [value])
    again = open_chapter(chapter, **query, **{parameter: value})
    assert again.button(key=button).disabled or chapter == "gradients" or button.endswith("_on")
    assert not streamlit_warnings


def test_going_back_to_the_first_step_shown_takes_it_out_of_the_url(streamlit_warnings):
    app = open_chapter("softmax", softmax_part="One pass", softmax_block=1, softmax_step=2)
    app.button(key="softmax_step_Back").click().run()
    assert app.slider(key="softmax_step").value == 1
    assert "softmax_step" not in app.query_params
    app.slider(key="softmax_step").set_value(4).run()
    assert app.query_params["softmax_step"] in ("4", ["4"])
    assert not streamlit_warnings


def test_an_example_is_in_the_url_and_typing_replaces_it(streamlit_warnings):
    app = open_chapter("softmax")
    next(button for button in app.button if button.label == "[1000, 999, 995]").click().run()
    assert app.query_params["softmax_x"] in ("1000, 999, 995", ["1000, 999, 995"])
    app.text_input(key="softmax_x").set_value("7, 8").run()
    assert app.query_params["softmax_x"] in ("7, 8", ["7, 8"])
    assert app.text_input(key="softmax_x").value == "7, 8"
    assert not streamlit_warnings


@pytest.mark.parametrize("chapter", ["nowhere", "", "IDEAS"])
def test_an_unknown_chapter_opens_the_first(chapter, streamlit_warnings):
    app = open_chapter(chapter)
    assert not app.exception
    assert app.segmented_control(key="chapter").value == "memory"
    assert not streamlit_warnings


def test_a_chapter_of_the_url_is_opened_without_a_warning(streamlit_warnings):
    app = open_chapter("tiling")
    assert app.segmented_control(key="chapter").value == "tiling"
    app.segmented_control(key="chapter").set_value("softmax").run()
    assert app.query_params["chapter"] in ("softmax", ["softmax"])
    assert not streamlit_warnings


@pytest.mark.parametrize(
    ("chapter", "switch", "query"),
    [
        ("softmax", "softmax_format", {}),
        ("tiling", "tiling_join", {"tiling_part": "Softmax in between"}),
        ("io", "io_axis", {"io_view": "Growth"}),
        ("roofline", "roofline_view", {}),
        ("gradients", "gradients_direction", {"gradients_view": "Graphs"}),
        ("ideas", "ideas_show", {}),
    ],
)
def test_a_switch_that_is_empty_in_the_url_shows_its_first_option(chapter, switch, query):
    app = open_chapter(chapter, **query, **{switch: ""})
    assert not app.exception
    assert len(app.get("plotly_chart")) + len(app.get("html")) > 1


def test_a_chapter_that_there_is_not_is_said():
    app = open_chapter("nonsense")
    (said,) = (error.value for error in app.error)
    assert "There is no chapter 'nonsense'; expected one of memory, softmax," in said
    assert not open_chapter("why").error  # the name that a chapter had once
    assert not open_chapter("sources").error
