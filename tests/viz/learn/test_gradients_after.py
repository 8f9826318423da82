"""The chapters Gradients and Sources: with and without a worker, and with any URL."""

import json
import re
from urllib.parse import parse_qs

import pytest

from kernels.lessons.gradients import GradientLesson, derived
from kernels.problem import AttentionProblem
from kernels.references import REFERENCES
from kernels.worker.failures import Crashed
from kernels.worker.requests import LessonGradientsRequest, TraceRequest
from tests.app.pages import fail_jobs, words
from tests.app.pages import open_whole_chapter as open_chapter
from viz.learn.gradient_lines import LINE_WORDS, LINES, MatrixMaker
from viz.shared import runs

REAL_STORE = runs.run_store
BY_LINE = "Line by line"


@pytest.fixture(scope="module")
def store():
    """One worker for the tests of this file that need it."""
    store = REAL_STORE()
    store.client.wait_ready(120)
    yield store
    store.client.close()
    REAL_STORE.clear()


def html(app):
    return " ".join(element.proto.body for element in app.get("html"))


def links(app):
    return [
        {name: values[0] for name, values in parse_qs(link.proto.query_string).items()}
        for link in app.get("page_link")
        if "algorithm=" in link.proto.query_string
    ]


def badges(app, color):
    return re.findall(rf":{color}-badge\[([^\]]+)\]", words(app))


@pytest.mark.parametrize("line", LINES)
def test_every_line_shows_its_formula_and_numbers(line, no_worker):
    app = open_chapter("gradients", gradients_view=BY_LINE, gradients_derivation=line)
    assert html(app).count("<table") >= 2
    lesson = GradientLesson()
    drawn = LINES[line](MatrixMaker(derived(lesson)), lesson, 3 if line == "heads" else 0)
    assert [element.value.strip("$\n ") for element in app.latex] == list(drawn.formulas)
    assert f"line {list(LINES).index(line) + 1} of {len(LINES)}" in words(app)


def test_without_a_worker_finite_differences_are_used_and_named(no_worker):
    app = open_chapter("gradients", gradients_view=BY_LINE)
    assert "central finite differences" in words(app)
    assert len(badges(app, "green")) >= len(LINE_WORDS)
    assert "autograd, float64" not in words(app)


def test_every_line_is_checked_against_autograd_and_the_kernels(store):
    lesson = GradientLesson(length=5, dim=4, seed=3)
    store.job(LessonGradientsRequest(lesson)).wait(60)
    app = open_chapter(
        "gradients", gradients_view=BY_LINE, gradients_length=5, gradients_dim=4, gradients_seed=3
    )
    said = words(app)
    assert "autograd, float64" in said
    assert "Triton kernels, float32" in said
    assert "torch 2." in said
    assert all(float(badge) < 1e-4 for badge in badges(app, "green"))
    assert len(badges(app, "green")) >= len(LINE_WORDS) + 9


def test_a_failure_of_the_worker_leaves_finite_differences_and_a_way_on(store, monkeypatch):
    lesson = GradientLesson(length=3)
    fail_jobs(monkeypatch, LessonGradientsRequest, Crashed(-11))
    app = open_chapter("gradients", gradients_view=BY_LINE, gradients_length=3)
    assert "crashed (signal 11)" in words(app)
    assert len(badges(app, "green")) >= len(LINE_WORDS)
    monkeypatch.undo()
    next(button for button in app.button if button.label == "Try autograd again").click().run()
    store.job(LessonGradientsRequest(lesson)).wait(60)
    assert "torch 2." in words(app.run())


def test_back_and_forward_step_through_the_lines(no_worker):
    app = open_chapter("gradients", gradients_view=BY_LINE, gradients_derivation="forward")
    assert app.button(key="gradients_Back").disabled
    app.button(key="gradients_Forward").click().run()
    assert app.segmented_control(key="gradients_derivation").value == "dV"
    last = open_chapter("gradients", gradients_view=BY_LINE, gradients_derivation=list(LINES)[-1])
    assert last.button(key="gradients_Forward").disabled


def test_the_blocks_own_sum_is_wrong_until_the_block_spans_the_row(no_worker):
    app = open_chapter("gradients", gradients_view="Row sums D", gradients_block=2)
    assert "≠" in html(app)
    assert len(badges(app, "red")) == 1
    app.slider(key="gradients_block").set_value(4).run()
    assert "The block spans the row" in words(app)
    assert not badges(app, "red")


def test_fewer_tokens_shorten_what_depended_on_them(no_worker):
    app = open_chapter(
        "gradients",
        gradients_view=BY_LINE,
        gradients_length=8,
        gradients_derivation="dS log",
        gradients_row=7,
    )
    assert app.number_input(key="gradients_row").value == 7
    app.number_input(key="gradients_length").set_value(3).run()
    assert not app.exception
    assert app.number_input(key="gradients_row").value == 2
    app = open_chapter("gradients", gradients_view="Row sums D", gradients_length=8, gradients_block=8)
    app.number_input(key="gradients_length").set_value(3).run()
    assert not app.exception
    assert app.slider(key="gradients_block").value == 3


def test_the_loop_orders_are_counted_by_the_kernels(store, monkeypatch):
    problem = {
        "gradients_tokens": 64,
        "gradients_head_dim": 16,
        "gradients_block_m": 16,
        "gradients_block_n": 32,
    }
    shape = AttentionProblem(q_len=64, kv_len=64, head_dim=16, block_m=16, block_n=32)
    monkeypatch.setattr("viz.learn.backward_words.can_run", lambda problem: False)  # nor by NumPy
    for algorithm in ("backward", "backward_q_outer", "backward_kv_outer"):
        store.job(TraceRequest(shape, algorithm)).wait(60)
    app = open_chapter("gradients", gradients_view="Traffic", **problem)
    assert f"| 6 | {6 * 4 * 64 * 16:,} | {6 * 4 * 64 * 16:,} |" in words(app)
    assert f"| 4 | {4 * 2 * 64 * 16:,} | {4 * 2 * 64 * 16:,} |" in words(
        app
    )  # dQ in and out, for 2 key tiles
    two_kernels = 2 * (4 + 2) * 64 * 16  # Q and dO for each of 2 key tiles, K and V for each of 4 query tiles
    assert f"| 4 | {two_kernels:,} | {two_kernels:,} |" in words(app)
    assert "7\\,N^2 = 7 \\cdot 64^2" in words(app)


def test_no_way_through_the_backward_pass_moves_less_than_the_dotted_line(no_worker):
    app = open_chapter("gradients", gradients_view="Traffic")
    figure = json.loads(app.get("plotly_chart")[0].proto.spec)
    (line,) = (shape["x0"] for shape in figure["layout"]["shapes"])
    moved = [length for bar in figure["data"] for length in bar["x"] if length is not None]
    assert len(moved) > 5
    assert min(moved) >= line


def test_at_first_tiles_move_far_less_than_standard_and_row_wise_attention(no_worker):
    app = open_chapter("gradients", gradients_view="Traffic")
    figure = json.loads(app.get("plotly_chart")[0].proto.spec)
    (modelled,) = (bar for bar in figure["data"] if bar["name"] == "modelled" and len(bar["x"]) > 1)
    moved = dict(zip(modelled["y"], modelled["x"], strict=True))
    whole = min(count for label, count in moved.items() if label.startswith(("standard", "row-wise")))
    tiled = [count for label, count in moved.items() if not label.startswith(("standard", "row-wise"))]
    assert len(tiled) == 4
    assert all(1.5 * count < whole for count in tiled)


def test_the_links_open_the_backward_pass_in_that_state(no_worker):
    shape = {"tokens": 64, "head_dim": 16, "block_m": 16, "block_n": 32}
    query = {f"gradients_{name}": value for name, value in shape.items()}
    app = open_chapter("gradients", gradients_view="Traffic", **query)
    found = links(app)
    assert {link["algorithm"] for link in found} == {"backward", "backward_q_outer", "backward_kv_outer"}
    assert {"q_len": "64", "head_dim": "16", "block_m": "16", "block_n": "32"}.items() <= found[0].items()


def test_the_graphs_have_no_control_that_changes_nothing(no_worker):
    """The layer's graph has no tiles, and the graph of two tokens has N = 2 and d = 1."""

    def drawn(**query):
        app = open_chapter("gradients", gradients_view="Graphs", **query)
        return app, (html(app), words(app), [formula.value for formula in app.latex])

    app, before = drawn()
    keys = {each.key for each in [*app.number_input, *app.selectbox]}
    others = {"tokens": 256, "head_dim": 128, "spread": 2.0, "seed": 5}
    assert keys == {f"gradients_{name}" for name in others}
    for name, value in others.items():
        assert drawn(**{f"gradients_{name}": value})[1] != before


@pytest.mark.parametrize(
    "query",
    [
        {"gradients_length": "900", "gradients_dim": "-3", "gradients_spread": "inf", "gradients_seed": "x"},
        {"gradients_derivation": "dX", "gradients_row": "99", "gradients_block": "0"},
        {"gradients_tokens": "7", "gradients_head_dim": "12", "gradients_block_m": "1"},
        {"gradients_spread": "nan", "gradients_tokens": "1e9"},
    ],
    ids=str,
)
def test_a_spoiled_url_still_gives_a_page(query, no_worker):
    app = open_chapter("gradients", gradients_view=BY_LINE, **query)
    assert len(badges(app, "green")) >= len(LINE_WORDS)
    for view in ("P from lse", "Row sums D", "Traffic", "Graphs"):
        open_chapter("gradients", gradients_view=view, **query)  # raises nothing


def test_switching_between_the_chapters_raises_nothing(no_worker):
    app = open_chapter("gradients", gradients_length=6)
    for slug in ("after", "gradients", "softmax", "after"):
        app.segmented_control(key="chapter").select(slug).run()
        assert not app.exception


def test_the_last_page_lists_every_source_with_its_address(no_worker):
    table = next(
        markdown.value for markdown in open_chapter("sources").markdown if "| Cited as |" in markdown.value
    )
    for source in REFERENCES:
        assert f"| {source.key} |" in table
        assert not source.url or f"[{source.title}]({source.url})" in table


def test_heads_divide_the_features(no_worker):
    app = open_chapter("gradients", gradients_view=BY_LINE, gradients_derivation="heads", gradients_dim=4)
    assert app.selectbox(key="gradients_heads").options == ["1", "2", "4"]
    assert "2 × 2" in words(app)
    app.number_input(key="gradients_dim").set_value(5).run()
    assert not app.exception
    assert app.selectbox(key="gradients_heads").options == ["1", "5"]
    difference = re.search(r"central differences, float64: ([\d.e+-]+) \(measured\)", words(app))
    assert float(difference[1]) < 1e-8
