"""The path through Learn, and what the introductions describe: some chapter shows it.

They are Chu, Liu and Lin 2026, Nagaraj 2025, MSRA SH Triton Study Group 2025, "FlashAttention, step by
step" and "Making Attention I/O-Aware".
"""

import functools
import logging
from urllib.parse import parse_qs

import pytest
import streamlit.elements.lib.policies as streamlit_policies

from tests.app.pages import open_chapter, open_page, words
from tests.viz.learn.shown import everything
from viz.learn.chapters import CHAPTERS
from viz.shared.glossary import BY_NAME, SECTIONS

pytestmark = pytest.mark.usefixtures("no_worker")
SLUGS = [chapter.slug for chapter in CHAPTERS]

SHOWN = (
    ("io", "Forward", "**standard**", "**row-wise, ", "8 whole rows", "row-wise or flashattention-1?"),
    ("io", "Forward", "**flashattention-1**", "**flashattention-2**"),
    ("io", "Growth", "lower bound"),
    ("io", "SRAM", "(eq 44)", "(eq 79)", "what our compiled kernels use"),
    ("gradients", "P from lse", "one number per row is kept"),
    ("gradients", "Traffic", r"7\,n^2", r"8\,n^2d + 2\,n^2 + 2\,nd", "room on the chip"),
    ("gradients", "Traffic", "alg. 6", "alg. 7", "alg. 8"),
    ("gradients", "Line by line", "w_q", "rowsum"),
    ("gradients", "Line by line&gradients_derivation=heads", "concatenation", "w<sub>o"),
    ("gradients", "Line by line&gradients_derivation=layer", "w<sub>q</sub><sup>t</sup>", ">dz <small>"),
    ("gradients", "Graphs", "each edge carries the tensor at its start", "dv_{00}", "ds_{00}"),
    ("tiling", "A product in tiles", "splits into products of tiles"),
    ("tiling", "Attention without softmax", "one tile of s exists"),
    ("tiling", "Softmax in between", "o without tiles", "| divisions |", "once at the end"),
    ("roofline", "Roofline", "**ridge of the", "other operations too"),
    ("roofline", "Time", "moving s and p alone"),
    ("roofline", "Tables", "intensity"),
    ("memory", "", "registers", "l2", "hbm", "sram"),
    ("softmax", "Subtract the max", "overflow", "float32 holds"),
    ("softmax", "Just add", "row sum l"),
    ("softmax", "One pass", r"m' = \max(m, \max x)", r"\alpha\, y", "y' / l'"),
    ("softmax", "Three passes, two, one", "three passes"),
    ("ideas", "", "fusion", "tiling", "online softmax", "recomputation", "lse"),
    ("ideas", "", "the products stay what they are", "| products, ", "linformer", "performer", "longformer"),
    ("ideas", "", "a compiler fuses", "checkpointing within one operation"),
    ("kernel", "", "be the kernel for one step", "exp2"),
    ("after", "Split the keys", "split-kv", "merge", "lse"),
    ("after", "FlashAttention-3", "e4m3", "**8-bit numbers**"),
    ("after", "FlashAttention-4", "rescale"),
    ("sources", "", "a100", "0.86", "2.696", "2.749", "github.com/dao-ailab/flash-attention"),
)
"""A chapter, its view, and words of what the introductions describe that the view shows."""
VIEWS = {
    "io": "io_view",
    "roofline": "roofline_view",
    "softmax": "softmax_part",
    "tiling": "tiling_part",
    "after": "after_topic",
    "gradients": "gradients_view",
}
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


@functools.cache
def all_words(chapter, view):
    """All that a view of a chapter shows, in small letters; opened once for all subjects."""
    query = parse_qs(f"{VIEWS[chapter]}={view}") if view else {}
    app = open_chapter(chapter, **{name: values[0] for name, values in query.items()})
    assert not app.exception
    return everything(app).lower()


@pytest.mark.parametrize("subject", SHOWN, ids=lambda subject: "-".join(subject[:2]))
def test_a_chapter_shows_it(subject):
    chapter, view, *said = subject
    shown = all_words(chapter, view)
    assert [word for word in said if word not in shown] == []


def test_no_chapter_is_without_a_subject():
    assert set(SLUGS) == {chapter for chapter, *_ in SHOWN}


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
def test_a_chapter_asks_lets_predict_links_its_neighbours_and_logs_nothing(slug, streamlit_log):
    app = open_chapter(slug, **FULL_URLS.get(slug, {}))
    assert not app.exception
    place = SLUGS.index(slug)
    assert app.subheader[0].value == CHAPTERS[place].question
    views = [view for chapter, view, *_ in SHOWN if chapter == slug]
    assert any("**predict.**" in all_words(slug, view) for view in views) is (slug != "sources")
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
    app = open_page()
    start = next(link.proto for link in app.get("page_link") if link.proto.label == "Start here")
    assert parse_qs(start.query_string) == {"chapter": [SLUGS[0]]}
    assert start.page == "learn"
    for page in (app, open_chapter("memory")):
        assert sum(f"- **{name}**" in words(page) for name in BY_NAME) == len(BY_NAME)
        assert words(page).count(":gray-badge[") == len(SECTIONS)


def test_the_way_on_leads_through_the_parts_of_a_chapter_first():
    app = open_chapter("tiling")
    seen = []
    while not app.exception:
        ways = {button.key: button.proto.type for button in app.button}
        seen.append((ways.get("tiling_part_on"), ways["chapter_Next"]))
        if "tiling_part_on" not in ways:
            break
        app.button(key="tiling_part_on").click().run()
    assert seen == [("primary", "secondary"), ("primary", "secondary"), (None, "primary")]
    assert app.query_params["tiling_part"] in ("Softmax in between", ["Softmax in between"])


@pytest.mark.parametrize("chapter", ["nowhere", ""])
def test_an_unknown_chapter_is_said_and_opens_the_first(chapter):
    app = open_chapter(chapter)
    assert not app.exception
    assert app.segmented_control(key="chapter").value == SLUGS[0]
    assert [f"'{chapter}'" in error.value and SLUGS[-1] in error.value for error in app.error] == [True]


@pytest.mark.parametrize(
    ("chapter", "query"),
    [
        ("roofline", {"roofline_view": ""}),
        ("gradients", {"gradients_view": "Graphs", "gradients_direction": ""}),
    ],
)
def test_a_switch_that_is_empty_in_the_url_shows_its_first_option(chapter, query):
    app = open_chapter(chapter, **query)
    assert not app.exception
    assert len(app.get("plotly_chart")) + len(app.get("html")) > 1
