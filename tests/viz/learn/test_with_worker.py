"""What the chapters count and check with the worker: one worker for all of them."""

import json
import re

import pytest

from kernels.problem import AttentionProblem
from kernels.worker.failures import Crashed
from kernels.worker.requests import LessonGradientsRequest, TraceRequest
from tests.app.pages import drawn_with_results, fail_jobs, open_whole_chapter, words
from tests.viz.learn.shown import links
from viz.shared import runs

pytestmark = pytest.mark.usefixtures("own_store")
COUNTED = "**One step of the inner loop**, counted"


def drawn(app):
    """Traces of the page's first chart."""
    return json.loads(app.get("plotly_chart")[0].proto.spec)["data"]


def green(app):
    return re.findall(r":green-badge\[([^\]]+)\]", words(app))


def test_traffic_sets_counted_beside_modelled_for_all_four_and_a_failure_is_a_message_with_a_way_on(
    monkeypatch,
):
    fail_jobs(monkeypatch, TraceRequest, Crashed(-11))
    app = drawn_with_results(open_whole_chapter("io", io_t=128, io_d=16, io_m=16, io_bm=64, io_bn=64))
    assert str(Crashed(-11)) in app.error[0].value
    monkeypatch.undo()
    next(button for button in app.button if button.label == "Try again").click().run()
    drawn_with_results(app)
    assert not app.exception
    table = next(each.value for each in app.markdown if "| requested, modelled |" in each.value)
    rows = [line.split(" | ") for line in table.splitlines()[2:]]
    assert len(rows) == 4
    assert all(row[2] == row[3] for row in rows)  # modelled and counted
    assert COUNTED in words(app)
    where = next(line for line in words(app).splitlines() if "**Counted** (solid)" in line)
    assert "Triton" in where
    assert "torch" in where


def test_growth_counts_on_demand():
    app = open_whole_chapter("io", io_view="Growth", io_axis="against SRAM", io_t=128, io_d=128)
    assert not [trace for trace in drawn(app) if "counted" in trace.get("name", "")]
    app.button(key="io_growth_count").click().run()
    drawn_with_results(app)
    points = [trace for trace in drawn(app) if "counted" in trace.get("name", "")]
    assert [trace["name"] for trace in points] == ["FlashAttention-1, counted", "FlashAttention-2, counted"]


def test_long_counting_waits_for_a_button():
    app = open_whole_chapter("io", io_t=4096)
    assert app.button(key="io_forward_count")
    assert runs.run_store().peek(TraceRequest(AttentionProblem(q_len=4096, kv_len=4096), "flash2")) is None


def test_the_tables_of_the_roofline_are_held_against_the_kernels_count():
    shape = {"roofline_q": 128, "roofline_k": 128, "roofline_d": 16}
    text = words(drawn_with_results(open_whole_chapter("roofline", roofline_view="Time", **shape)))
    fused = 2 * 128 * 16 * 2 + 2 * 2 * 128 * 16 * 2 + 4 * 128
    assert text.count(f"{fused:,} B") == 2  # counted, and in the table


def test_a_line_is_checked_against_autograd_and_the_kernels(monkeypatch):
    fail_jobs(monkeypatch, LessonGradientsRequest, Crashed(-11))
    query = {"gradients_length": 5, "gradients_dim": 4, "gradients_seed": 3, "gradients_derivation": "dV"}
    app = open_whole_chapter("gradients", gradients_view="Line by line", **query)
    assert str(Crashed(-11)) in app.error[0].value
    assert green(app) == []
    monkeypatch.undo()
    next(button for button in app.button if button.label == "Try again").click().run()
    assert "torch 2." in words(drawn_with_results(app, LessonGradientsRequest))
    assert "green if it is only rounding" in words(app)
    by_autograd, by_kernels = map(float, green(app))
    assert by_autograd < 1e-13 < by_kernels < 1e-4
    app.segmented_control(key="gradients_derivation").set_value("dP").run()
    assert len(green(app)) == 1  # our kernels keep dP on the chip


def test_the_loop_orders_are_counted_by_the_kernels():
    tiles = {"gradients_block_m": 16, "gradients_block_n": 32}
    app = open_whole_chapter(
        "gradients", gradients_view="Traffic", gradients_tokens=64, gradients_head_dim=16, **tiles
    )
    drawn_with_results(app, TraceRequest)
    two_kernels = 2 * (4 + 2) * 64 * 16  # Q and dO for each of 2 key tiles, K and V for each of 4 query tiles
    for blocks, elements in ((6, 6 * 4 * 64 * 16), (4, 4 * 2 * 64 * 16), (4, two_kernels)):
        assert f"| {blocks} | {elements:,} |" in words(app)
    (counted,) = [trace for trace in drawn(app) if trace.get("name") == "counted"]
    assert sum(value is not None for value in counted["x"]) == 4
    assert {link["algorithm"] for link in links(app)} == {
        "backward",
        "backward_q_outer",
        "backward_kv_outer",
        "row_wise_backward",
    }
    shape = {"q_len": "64", "head_dim": "16", "block_m": "16", "block_n": "32"}
    assert shape.items() <= links(app)[0].items()
