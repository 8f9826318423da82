"""The path through Learn: every view of every chapter is drawn, whatever the URL says."""

import logging
from urllib.parse import parse_qs

import pytest
import streamlit.elements.lib.policies as streamlit_policies

from tests.app.pages import open_chapter, open_page, open_whole_chapter, words
from tests.viz.learn.shown import PARTS, everything
from viz.learn.chapters import CHAPTERS
from viz.shared.glossary import BY_NAME, SECTIONS

pytestmark = pytest.mark.usefixtures("no_worker")
SLUGS = [chapter.slug for chapter in CHAPTERS]

FULL_URLS = {
    "memory": {"n": 8192, "gpu": "A100"},
    "kernel": {"row": 3, "after": 0},
    "softmax": {"part": "One pass", "step": 2, "x": "3, 4", "v": "1, 2"},
    "tiling": {"part": "Softmax in between", "step": 3, "join": "running max and sum"},
    "gradients": {"view": "Line by line", "derivation": "dS log", "length": 5, "block": 3},
    "after": {"topic": "FlashAttention-4"},
}
LONG_ROW = " ".join(map(str, range(64)))
WRONG_URLS = (
    ("after", {"keys": 16384, "splits": 1024}),
    ("after", {"topic": "FlashAttention-5", "keys": 63, "gpu": "TPU"}),
    ("gradients", {"view": "Row sums D", "length": 900, "dim": -3, "spread": "nan", "seed": "x", "block": 0}),
    ("gradients", {"view": "Line by line", "derivation": "dX", "length": "9"}),
    ("gradients", {"view": "Graphs", "direction": "", "seed": "x"}),
    ("ideas", dict.fromkeys(("n", "d", "block_m", "block_n", "gpu", "show", "approximate"), "x")),
    ("io", {"view": "Growth", "t": 128, "d": 256, "m": 16}),
    ("io", {"view": "Growth", "axis": "Q"}),
    ("roofline", {"q": 3, "k": "", "d": 9999, "gpu": "<b>", "view": ""}),
    ("softmax", {"part": "One pass", "step": 99, "block": 99, "x": "1000, 0"}),
    ("softmax", {"part": "One pass", "step": -(10**9), "block": -1, "x": LONG_ROW}),
    ("softmax", {"part": "Old sums go wrong", "block": 1, "x": "-1e6 1e6 65504 -65504 0"}),
    ("tiling", {"part": "Softmax in between", "step": "x", "tile": 99, "join": "?"}),
)


def open_at(chapter, query):
    """The chapter with these parameters, whose names in the URL begin with its own."""
    return open_chapter(chapter, **{f"{chapter}_{name}": value for name, value in query.items()})


@pytest.mark.parametrize("slug", SLUGS)
def test_every_part_of_a_chapter_is_drawn_and_one_lets_the_reader_predict(slug):
    apps, choice = [open_whole_chapter(slug)], PARTS.get(slug)
    others = apps[0].segmented_control(key=choice).options[1:] if choice else ()
    apps += [open_whole_chapter(slug, **{choice: part}) for part in others]
    assert all(len(everything(app)) > 1000 for app in apps)
    assert any("**Predict.**" in words(app) for app in apps) is (slug != "sources")


@pytest.mark.parametrize(("chapter", "query"), WRONG_URLS, ids=str)
def test_a_url_may_hold_anything(chapter, query):
    app = open_at(chapter, query)
    assert not app.exception
    assert not app.error
    assert len(app.get("plotly_chart")) + len(app.get("html")) + len(app.get("graphviz_chart")) > 1


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


@pytest.mark.parametrize("slug", SLUGS)
def test_a_chapter_asks_links_its_neighbours_and_logs_nothing(slug, streamlit_log):
    app = open_at(slug, FULL_URLS.get(slug, {}))
    assert not app.exception
    place = SLUGS.index(slug)
    assert app.subheader[0].value == CHAPTERS[place].question
    neighbours = [place + step for step in (-1, 1) if 0 <= place + step < len(SLUGS)]
    ways = [button for button in app.button if (button.key or "").startswith("chapter_")]
    assert [way.label.split(". ")[0] for way in ways] == [
        f"{'Back' if other < place else 'Next'}: {other + 1} {CHAPTERS[other].title}" for other in neighbours
    ]
    ways[-1].click().run()
    assert app.segmented_control(key="chapter").value == SLUGS[neighbours[-1]]
    assert not app.exception
    assert [record.getMessage() for record in streamlit_log] == []


def test_the_landing_page_leads_to_the_first_chapter_and_both_list_all_terms():
    app = open_page(q_len=1024)
    start = next(link.proto for link in app.get("page_link") if link.proto.label == "Why it works")
    assert parse_qs(start.query_string) == {"chapter": [SLUGS[0]]}
    assert start.page == "learn"
    for page in (app, open_chapter("memory")):
        page.session_state["glossary"] = True
        page.run()
        assert sum(f"- **{name}**" in words(page) for name in BY_NAME) == len(BY_NAME)
        assert words(page).count(":gray-badge[") == len(SECTIONS)


@pytest.mark.parametrize("chapter", ["nowhere", ""])
def test_an_unknown_chapter_is_said_and_opens_the_first(chapter):
    app = open_chapter(chapter)
    assert not app.exception
    assert app.segmented_control(key="chapter").value == SLUGS[0]
    assert [f"'{chapter}'" in error.value and SLUGS[-1] in error.value for error in app.error] == [True]
