"""The chapter What came after, without a worker and with any URL: programs, clocks, 8 bits, late rescales."""

import re
from urllib.parse import parse_qs

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.attention.operators import MAX_PACKED_ROWS
from kernels.device.gpus import GPUS
from kernels.lessons.split_kv import occupancy
from kernels.problem import AttentionProblem
from tests.app.pages import open_whole_chapter as open_chapter
from tests.app.pages import words


def give_up(app):
    """The page once the answer of its question is shown."""
    next(button for button in app.button if button.label == "Show").click().run()
    assert not app.exception
    return app


def links(app):
    return [
        {name: values[0] for name, values in parse_qs(link.proto.query_string).items()}
        for link in app.get("page_link")
        if "algorithm=" in link.proto.query_string
    ]


def badges(app, color):
    return re.findall(rf":{color}-badge\[([^\]]+)\]", words(app))


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


def test_how_the_programs_come_about_is_written_out(no_worker):
    text = words(open_chapter("after"))
    assert "Every 4 of them share one K and V" in text
    assert "FlashAttention-2 has 32 heads × 1 query tile = 32 programs" in text
    assert "8 key heads × 16 parts = 128 programs" in text
    text = words(open_chapter("after", after_group=1, after_kv_heads=4, after_queries=32, after_splits=3))
    assert (
        "4 heads, each with keys and values of its own. FlashAttention-2 has 4 heads × 2 query tiles" in text
    )
    assert "4 key heads × 2 tiles of their queries × 3 parts = 24 programs" in text


@pytest.mark.parametrize("topic", ["FlashAttention-3", "FlashAttention-4"])
def test_the_tile_of_the_clocks_is_named_before_the_question_is_answered(topic, no_worker):
    app = open_chapter("after", after_topic=topic)
    said = [element.value for element in app.markdown]
    tile = next(index for index, text in enumerate(said) if "of 128 × 128" in text)
    assert tile < next(index for index, text in enumerate(said) if "**Predict.**" in text)
    assert not app.success


def test_the_peers_of_our_hopper_kernel_are_marked_terms(no_worker):
    said = next(
        text.value
        for text in open_chapter("after", after_topic="FlashAttention-3").markdown
        if text.value.startswith("**How fast it is**")
    )
    for term in ("SDPA", "cuDNN"):
        assert f">{term}</dfn>" in said


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
