"""The chapters Gradients, What came after and Sources: with and without a worker, and with any URL."""

import json
import re
from urllib.parse import parse_qs

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.attention.operators import MAX_PACKED_ROWS
from kernels.device.gpus import GPUS
from kernels.lessons.gradients import GradientLesson, derived
from kernels.lessons.split_kv import occupancy
from kernels.problem import AttentionProblem
from kernels.references import REFERENCES
from kernels.worker.failures import Crashed
from kernels.worker.requests import LessonGradientsRequest, TraceRequest
from tests.app import pages
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


@pytest.fixture
def no_worker(monkeypatch):
    monkeypatch.setattr(runs, "run_store", lambda: None)


def open_chapter(slug, **query):
    app = pages.open_chapter(slug, **query)
    assert not app.exception
    return app


def give_up(app):
    """The page once the answer of its question is shown."""
    next(button for button in app.button if button.label == "Show").click().run()
    assert not app.exception
    return app


def words(app):
    return "\n".join(element.value for element in [*app.markdown, *app.caption])


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
    pages.fail_jobs(monkeypatch, LessonGradientsRequest, Crashed(-11))
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


def test_the_links_open_the_backward_pass_in_that_state(no_worker):
    shape = {"tokens": 64, "head_dim": 16, "block_m": 16, "block_n": 32}
    query = {f"gradients_{name}": value for name, value in shape.items()}
    app = open_chapter("gradients", gradients_view="Traffic", **query)
    found = links(app)
    assert {link["algorithm"] for link in found} == {"backward", "backward_q_outer", "backward_kv_outer"}
    assert {"q_len": "64", "head_dim": "16", "block_m": "16", "block_n": "32"}.items() <= found[0].items()


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


def test_splitting_fills_the_gpu_and_merging_is_exact(no_worker):
    app = give_up(open_chapter("after"))
    plan = occupancy(
        AttentionProblem(q_heads=32, kv_heads=8, q_len=1, kv_len=8192, block_m=16), GPUS["H200"].sm_count
    )
    assert f"**Split-KV**, {plan.splits} parts of {plan.tiles_per_split} key tiles" in words(app)
    titles = [chart.proto.spec for chart in app.get("plotly_chart")]
    assert any("32 of 132 SMs busy" in title for title in titles)
    assert any(f"{min(plan.programs, 132)} of 132 SMs busy" in title for title in titles)
    assert float(badges(app, "green")[0]) < 1e-14
    app.number_input(key="after_splits").set_value(1).run()
    assert "**Split-KV**, 1 part of 128 key tiles" in words(app)


def test_what_is_said_of_the_parts_holds_for_many_queries_too(no_worker):
    text = words(open_chapter("after"))
    assert "one for each key head and part (128)" in text
    assert "1 × 132 ÷ 8 parts, rounded down" in text
    assert "Each part has 8 whole tiles, but the last may have fewer, which gives **16 parts**" in text
    text = words(open_chapter("after", after_queries=64, after_keys=640))
    assert "one for each key head, tile of its queries and part (128)" in text  # 8 heads, 256 rows in 16s
    assert "which gives **1 part**" in text


def test_the_link_opens_the_same_row_and_the_same_parts(no_worker):
    app = give_up(open_chapter("after", after_keys=640, after_splits=5, after_row_inputs="growing_max"))
    row, heads, _ = links(app)
    assert {
        "algorithm": "split_kv",
        "q_heads": "1",
        "kv_len": "640",
        "kv_splits": "5",
        "inputs": "growing_max",
    }.items() <= row.items()
    assert {
        "algorithm": "split_kv",
        "q_heads": "32",
        "kv_heads": "8",
        "kv_splits": "5",
    }.items() <= heads.items()


def test_eight_bits_are_compared_on_the_readers_inputs(no_worker):
    app = open_chapter("after", after_topic="FlashAttention-3", after_tokens=64)
    spec = next(
        chart.proto.spec for chart in app.get("plotly_chart") if "root mean square error" in chart.proto.spec
    )
    assert spec.count("e4m3,") == 4
    before = spec
    app.number_input(key="after_size").set_value(100.0).run()
    assert not app.exception
    assert before not in [chart.proto.spec for chart in app.get("plotly_chart")]
    assert "arXiv 2407.08608" in words(app)


def test_what_is_said_of_when_our_hopper_kernel_runs_is_what_the_launch_asks(no_worker):
    said = words(open_chapter("after", after_topic="FlashAttention-3"))
    head_dims = ALGORITHMS["flash3"].needs.head_dims
    assert f"head_dim {head_dims[0]} to {head_dims[-1]}" in said
    assert f"at most {MAX_PACKED_ROWS} queries together" in said


def test_late_rescales_keep_the_output(no_worker):
    app = give_up(open_chapter("after", after_topic="FlashAttention-4"))
    assert "640 rescales of 3,968" in words(app)
    app.select_slider(key="after_threshold").set_value(0).run()
    assert "3,968 rescales of 3,968" in words(app)
    assert float(badges(app, "green")[0]) < 1e-14
    assert links(app)[0]["inputs"] == "growing_max"
    app.slider(key="after_units_share").set_value(25).run()
    assert any("polynomial" in chart.proto.spec for chart in app.get("plotly_chart"))
    assert "arXiv 2603.05451" in words(app)


@pytest.mark.parametrize(
    "query",
    [
        {
            "after_keys": "63",
            "after_queries": "0",
            "after_kv_heads": "3",
            "after_gpu": "TPU",
            "after_splits": "-1",
        },
        {
            "after_keys": "16384",
            "after_splits": "1024",
            "after_queries": "1024",
            "after_kv_heads": "32",
            "after_group": "8",
        },
        {"after_keys": "65", "after_block_n": "128", "after_row_inputs": "large"},
        {
            "after_topic": "FlashAttention-3",
            "after_outliers": "100",
            "after_size": "-1",
            "after_tokens": "33",
            "after_block": "128",
        },
        {"after_topic": "FlashAttention-3", "after_outliers": "0", "after_size": "0", "after_head_dim": "65"},
        {
            "after_topic": "FlashAttention-4",
            "after_threshold": "3",
            "after_inputs": "none",
            "after_degree": "9",
            "after_units_share": "101",
        },
        {"after_topic": "FlashAttention-5"},
    ],
    ids=str,
)
def test_any_url_gives_a_page(query, no_worker):
    app = give_up(open_chapter("after", **query))
    assert len(app.get("plotly_chart")) >= 3
    assert not app.error


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
