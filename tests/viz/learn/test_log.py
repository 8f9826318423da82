"""Visiting Learn leaves nothing in the server's log."""

import logging

import pytest
import streamlit.elements.lib.policies as streamlit_policies

from tests.app.pages import open_chapter
from viz.learn.chapters import CHAPTERS
from viz.shared import runs

FULL_URLS = {
    "memory": {"memory_n": 8192, "memory_gpu": "A100"},
    "kernel": {"kernel_row": 3, "kernel_after": 0},
    "softmax": {"softmax_part": "One pass", "softmax_step": 2, "softmax_x": "3, 4", "softmax_v": "1, 2"},
    "tiling": {"tiling_part": "Softmax in between", "tiling_step": 3, "tiling_join": "running max and sum"},
    "gradients": {
        "gradients_view": "Line by line",
        "gradients_derivation": "dS log",
        "gradients_row": 7,
        "gradients_length": 5,
        "gradients_block": 3,
    },
    "after": {"after_topic": "FlashAttention-4", "after_threshold": 4},
}


@pytest.fixture
def streamlit_log(monkeypatch):
    """Warnings and errors of Streamlit's loggers, but for the one that says that AppTest has no browser.

    One of them speaks once per process: its mark of having spoken is reset.
    """
    monkeypatch.setattr(streamlit_policies, "_shown_default_value_warning", False)
    records = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = records.append
    loggers = [
        logging.getLogger(name)
        for name in logging.root.manager.loggerDict
        if name.startswith("streamlit") and "script_run_context" not in name
    ]
    for logger in loggers:
        logger.addHandler(handler)
    yield records
    for logger in loggers:
        logger.removeHandler(handler)


@pytest.mark.parametrize("slug", [chapter.slug for chapter in CHAPTERS])
def test_a_chapter_is_opened_without_a_warning(slug, streamlit_log, monkeypatch):
    monkeypatch.setattr(runs, "run_store", lambda: None)
    app = open_chapter(slug, **FULL_URLS.get(slug, {}))
    assert not app.exception
    app.run()
    assert [record.getMessage() for record in streamlit_log] == []


def test_a_warning_would_be_noticed(streamlit_log):
    logging.getLogger("streamlit.elements.lib.policies").warning("noticed")
    assert [record.getMessage() for record in streamlit_log] == ["noticed"]
