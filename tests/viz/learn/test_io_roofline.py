"""The traffic and roofline chapters through AppTest."""

import json

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_launches
from kernels.worker.failures import Crashed
from kernels.worker.requests import TraceRequest
from tests.app.pages import drawn_with_results, fail_jobs, open_chapter, words
from viz.shared import runs
from viz.shared.formats import format_bytes, format_kib

pytestmark = pytest.mark.usefixtures("stop_the_worker")
SMALL = {"io_t": 128, "io_d": 16, "io_m": 16, "io_bm": 64, "io_bn": 64}


def until(app, text):
    """Draw the page until the text is there, as the page's own timer does in a browser."""
    for _ in range(60):
        assert not app.exception
        if text in words(app):
            return words(app)
        drawn_with_results(app)
    raise AssertionError(f"{text!r} never came: {words(app)}")


def drawn(app):
    """Traces of the page's first chart."""
    return json.loads(app.get("plotly_chart")[0].proto.spec)["data"]


def links(app):
    return [link.proto.label for link in app.get("page_link")]


@pytest.mark.parametrize("view", ["Forward", "Growth", "SRAM"])
def test_every_view_of_traffic_opens_with_a_figure(view):
    app = open_chapter("io", io_view=view, **SMALL)
    assert not app.exception
    assert not app.error
    assert len(app.get("plotly_chart")) == 1


@pytest.mark.parametrize("view", ["Roofline", "Time", "Tables"])
def test_every_view_of_roofline_opens(view):
    app = open_chapter("roofline", roofline_view=view)
    assert not app.exception
    assert not app.error
    assert len(app.get("plotly_chart")) == (0 if view == "Tables" else 1)
    assert links(app)[:2] == ["Watch the three kernels", "Watch the fused kernel"]


def test_forward_sets_counted_beside_modelled_for_all_four():
    app = open_chapter("io", **SMALL)
    text = until(app, "**One step of the inner loop**, counted")
    cards = [markdown.value for markdown in app.markdown if "B** requested, modelled" in markdown.value]
    assert len(cards) == 4
    for card in cards:
        modelled = card.split("= **")[1].split(" B**")[0]
        assert f"**{modelled} B** counted" in card
    where = next(line for line in text.splitlines() if "**Counted** (solid)" in line)
    assert where.count("run here") == 2  # by Triton, and in torch
    assert "Triton" in where
    assert "torch" in where
    assert links(app).count("Watch it") == 4


def moved(app):
    """Label of an algorithm -> its modelled bytes, as its card says."""
    cards = (markdown.value for markdown in app.markdown if "B** requested, modelled" in markdown.value)
    return {
        card.split("**")[1]: int(card.split("= **")[1].split(" B**")[0].replace(",", "")) for card in cards
    }


@pytest.mark.parametrize(
    ("length", "kib", "rows", "turning"), [(256, 64, 32, 512), (1024, 227, 32, 2048), (1024, 64, 8, 256)]
)
def test_the_page_says_which_of_row_wise_and_flash1_moves_more_and_why(length, kib, rows, turning):
    """The bars, the sentence and the N where it turns say the same."""

    def is_more(length):
        app = open_chapter("io", io_t=length, io_d=64, io_m=kib)
        by_label = {label.split(",")[0]: each for label, each in moved(app).items()}
        return by_label["FlashAttention-1"] > by_label["row-wise"], words(app)

    flash1_moves_more, text = is_more(length)
    said = "**Why does FlashAttention-1 move more than row-wise attention here?**"
    other = "**Why does row-wise attention move more than FlashAttention-1"
    assert (said in text, other in text) == (flash1_moves_more, not flash1_moves_more)
    assert f"{rows} whole rows" in text
    assert f"K and V {'only ' * flash1_moves_more}{length // rows} times" in text
    assert f"at N = {turning:,} " in text
    there, _ = is_more(turning)
    assert there is not flash1_moves_more
    if length == 1024 and kib == 64:
        assert "and even more than standard attention, here?" in text


def test_the_chip_of_a_card_is_that_of_the_entry():
    app = open_chapter("io", io_t=1024, io_d=64, io_m=64)
    problem = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64)
    for name, tiles in {"flash1": problem, "row_wise": problem.with_(block_m=8)}.items():
        kept = format_kib(ALGORITHMS[name].chip_bytes(tiles))
        assert f"{kept}, :green[fits in 64 KiB]" in words(app)


def test_growth_counts_on_demand():
    app = open_chapter("io", io_view="Growth", io_axis="against SRAM", io_t=128, io_d=128)
    button = next(button for button in app.button if button.label.startswith("Count with the kernels"))
    assert not [trace for trace in drawn(app) if "counted" in trace.get("name", "")]
    button.click().run()
    drawn_with_results(app)
    points = [trace for trace in drawn(app) if "counted" in trace.get("name", "")]
    assert [trace["name"] for trace in points] == ["FlashAttention-1, counted", "FlashAttention-2, counted"]


def test_sram_shows_both_rules_and_what_compiled_kernels_take():
    text = words(open_chapter("io", io_view="SRAM", io_d=64, io_m=64, io_gpu="A100"))
    assert "=128$" in text
    assert "=64$" in text
    assert "**1.50 times the SRAM**" in text
    launch = next(
        launch
        for launch in recorded_launches()
        if launch.kernel == "_attn_fwd" and launch.problem.head_dim == 64
    )
    assert launch.info.shared_bytes > 0
    tiles = f"{launch.problem.block_m} × {launch.problem.block_n}"
    stages, shared = launch.info.num_stages, format_kib(launch.info.shared_bytes)
    assert f"| `_attn_fwd` | {tiles}, 64 {launch.problem.dtype} | {stages} | {shared} |" in text
    assert "_attn_bwd_preprocess" not in text
    assert "163 KiB" in text


def test_the_three_counts_of_the_same_tiles_stand_side_by_side():
    """64 x 64, d 64: four tiles of 8 KiB; K and V apart, S and O in float32, m and l; and the recording."""
    text = words(open_chapter("io", io_view="SRAM", io_d=64, io_m=64))
    forward, backward = (
        next(
            each
            for each in recorded_launches()
            if each.kernel == name and (each.problem.block_m, each.problem.block_n) == (64, 64)
        )
        for name in ("_attn_fwd", "_attn_bwd_dk_dv")
    )
    rule, kept = 4 * 8 << 10, 5 * 8 * 1024 - 16 * 1024 + 2 * 16 * 1024 + 2 * 64 * 4
    assert f"by the simple rule **{format_kib(rule)}**" in text
    assert f"in the folded cards of part 1 **{format_kib(kept)}**" in text
    assert f"**{format_kib(forward.info.shared_bytes)}** of shared memory (recorded)" in text
    assert "**Why is the last bar the shorter one" in text
    assert f"loads its tiles in {forward.info.num_stages} stages" in text
    assert f"in {backward.info.num_stages} stage. And the sums are not in the bars" in text
    registers = 4 * backward.info.registers * 32 * backward.info.num_warps
    assert f"in registers, {format_kib(registers)} in all threads backward" in text


def test_a_recorded_kernel_is_held_against_its_gpu_and_not_against_the_chosen_sram():
    app = open_chapter("io", io_view="SRAM", io_d=64, io_m=16)
    layout = json.loads(app.get("plotly_chart")[0].proto.spec)["layout"]
    said = {note["y"]: note["text"] for note in layout["annotations"] if isinstance(note["y"], str)}
    recorded = [text for label, text in said.items() if "recorded" in label]
    assert len(recorded) == 2
    assert not any("(+" in text for text in recorded)
    assert any("(+" in text for text in said.values())


def test_backward_counts_six_blocks_and_not_the_printed_four():
    small = {"tokens": 128, "head_dim": 16, "block_m": 64, "block_n": 64}
    query = {f"gradients_{name}": value for name, value in small.items()}
    app = open_chapter("gradients", gradients_view="Traffic", **query)
    elements = 6 * 2 * 128 * 16
    until(app, f"| 6 | {elements:,} | {elements:,} |")
    names = [trace["name"] for trace in drawn(app) if trace.get("showlegend") is False]
    assert names == ["modelled", "counted"]


def test_long_counting_waits_for_a_button():
    app = open_chapter("io", io_t=4096)
    assert not app.exception
    assert any(button.label.startswith("Count with the kernels, about") for button in app.button)
    assert runs.run_store().peek(TraceRequest(AttentionProblem(q_len=4096, kv_len=4096), "flash2")) is None


def test_kernels_that_cannot_run_are_said_without_a_guess_at_the_reason(monkeypatch):
    monkeypatch.setattr(runs, "backend", lambda store: "replay")  # such as after a worker that did not start
    text = words(open_chapter("io", io_t=16384))
    assert "Kernels cannot run here (the badge “replay” says why): only recorded runs are counted." in text
    assert "Without Triton" not in text


def test_what_does_not_fit_is_said():
    text = words(open_chapter("io", io_t=16384, io_m=16))
    assert "even 4 rows of 16,384 scores in float32" in text
    app = open_chapter("io", io_view="Growth", io_m=256, io_d=16)
    assert not app.exception
    assert "No point can be counted: eq 44" in words(app)
    app = open_chapter("io", io_view="Growth", io_axis="against d", io_t=16384)
    assert not app.exception
    assert "No point is counted: each run has more than 600 tile steps" in words(app)


@pytest.mark.parametrize(
    ("chapter", "query"),
    [
        (
            "io",
            {
                "io_t": "7",
                "io_d": "x",
                "io_m": "-1",
                "io_bm": "1e9",
                "io_view": "?",
                "io_gpu": "none",
                "io_axis": "Q",
            },
        ),
        (
            "roofline",
            {
                "roofline_q": "3",
                "roofline_k": "",
                "roofline_d": "9999",
                "roofline_gpu": "<b>",
                "roofline_view": "Forward",
            },
        ),
    ],
)
def test_a_url_may_hold_anything(chapter, query):
    app = open_chapter(chapter, **query)
    assert not app.exception
    assert len(app.get("plotly_chart")) == 1


def test_the_printed_example_is_reproduced_and_corrected():
    text = words(open_chapter("sources"))
    assert "=0.86$ µs computing" in text
    assert "=4.11$ µs moving" in text
    assert "they print 3.74 µs" in text


def test_tables_are_held_against_the_kernels_count():
    app = open_chapter("roofline", roofline_view="Tables", roofline_q=128, roofline_k=128, roofline_d=16)
    text = until(app, "**Counted** by our fused kernel")
    fused = 2 * 128 * 16 * 2 + 2 * 2 * 128 * 16 * 2 + 4 * 128
    assert f"**{fused:,} B** requested. The table has {fused:,} B." in text


def test_decoding_is_bound_by_memory_on_every_gpu():
    for gpu in ("A100", "B200"):
        text = words(
            open_chapter("roofline", roofline_view="Tables", roofline_q=1, roofline_k=4096, roofline_gpu=gpu)
        )
        assert "| compute |" not in text
        assert text.count("| memory |") == 8


def test_without_triton_models_are_shown_and_the_page_says_why_nothing_is_counted(monkeypatch):
    monkeypatch.setattr(runs, "triton_missing", lambda: "Triton has no wheel for Darwin")
    monkeypatch.setattr("viz.shared.layout.triton_missing", lambda: "Triton has no wheel for Darwin")
    monkeypatch.setattr(runs, "run_store", lambda: None)
    app = open_chapter("io", **SMALL)
    assert not app.exception
    assert "only recorded runs are counted" in words(app)
    assert len(app.get("plotly_chart")) == 1
    for preset in PRESETS.values():
        foretold = f"{ALGORITHMS['flash2'].requested_bytes(preset.problem):,} B"
        assert f"| {preset.label} | flash2 | {foretold} | {foretold} |" in words(app)


def test_a_failure_is_a_message_with_a_way_on(monkeypatch):
    fail_jobs(monkeypatch, TraceRequest, Crashed(-11))
    app = open_chapter("io", **SMALL | {"io_bm": 32})
    for _ in range(20):
        if app.error:
            break
        app.run()
    assert str(Crashed(-11)) in app.error[0].value
    monkeypatch.undo()
    next(button for button in app.button if button.label == "Try again").click().run()
    until(app, "**One step of the inner loop**, counted")


def test_growth_has_no_tiles_to_choose_and_forward_keeps_those_that_were_chosen():
    app = open_chapter("io", io_bm=128)
    app.segmented_control(key="io_view").select("Growth").run()
    assert {each.key for each in app.select_slider} == {"io_t", "io_d", "io_m"}
    app.select_slider(key="io_t").set_value(512).run()
    row = next(line for line in words(app).splitlines() if "FlashAttention-2 | 128 queries" in line)
    _, _, tile, here, tile_there, there, *_ = (cell.strip() for cell in row.split("|"))
    assert (tile, here) == (tile_there, there)
    app.segmented_control(key="io_view").select("Forward").run()
    assert app.select_slider(key="io_bm").value == 128


def test_growth_sets_the_tiles_and_bytes_of_part_1_beside_its_own():
    """N = 1024, d = 64, 64 KiB: each way by hand, from how often K and V (or O) come and go."""
    text, problem = words(open_chapter("io", io_view="Growth")), AttentionProblem(q_len=1024, kv_len=1024)
    kv, q_and_o, lse = 2 * 1024 * 64 * 2, 2 * 1024 * 64 * 2, 4 * 1024
    for beginning in (
        f"| row-wise | 26 rows | {format_bytes(40 * kv + q_and_o)} | 8 rows "
        f"| {format_bytes(128 * kv + q_and_o)} |",
        "- **row-wise**: part 1 counts scores and sums in float32",
        f"| FlashAttention-2 | 128 queries | {format_bytes(8 * kv + q_and_o + lse)} "
        f"| 64 queries | {format_bytes(16 * kv + q_and_o + lse)} |",
        f"| FlashAttention-1 | 128 keys | 5.51 MB | 64 keys "
        f"| {format_bytes(ALGORITHMS['flash1'].requested_bytes(problem))} |",
    ):
        assert beginning in text


@pytest.mark.parametrize(("length", "kib"), [(1024, 64), (2048, 227)])
def test_the_bytes_of_part_1_that_growth_names_are_those_of_part_1(length, kib):
    said = moved(open_chapter("io", io_t=length, io_m=kib))
    text = words(open_chapter("io", io_view="Growth", io_t=length, io_m=kib))
    for label, count in said.items():
        row = next(line for line in text.splitlines() if line.startswith(f"| {label.partition(',')[0]} |"))
        assert row.split("|")[5].strip() == format_bytes(count)


def test_growth_says_where_no_tile_fits():
    text = words(open_chapter("io", io_view="Growth", io_t=16384, io_m=16))
    assert "| row-wise | 1 rows" not in text
    assert "| none fits | – |" in text
