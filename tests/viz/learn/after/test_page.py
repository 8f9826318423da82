"""The chapter What came after, without a worker: its topics with any URL, and the story of the lanes."""

import dataclasses
import json
import re

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.dispatch import MAX_PACKED_ROWS
from kernels.problem import AttentionProblem
from kernels.problem.presets import LANE_PROBLEMS
from kernels.problem.ranks import runs_of
from tests import ROOT
from tests.app.pages import open_whole_chapter, run_script, words
from tests.lanes import hopper_lanes, plain_lanes
from tests.viz.learn.shown import links
from viz.learn.after import page as after_lanes
from viz.learn.after.maths import own_overlap
from viz.player import lanes as player_lanes
from viz.player.lanes import LanesRun

pytestmark = pytest.mark.usefixtures("no_worker")


def open_topic(topic="Split the keys", **query):
    return open_whole_chapter("after", after_topic=topic, **query)


def give_up(app):
    """The page once the answer of its question is shown."""
    next(button for button in app.button if button.label == "Show").click().run()
    assert not app.exception
    return app


def specs(app):
    return [chart.proto.spec for chart in app.get("plotly_chart")]


def badges(app, color):
    return re.findall(rf":{color}-badge\[([^\]]+)\]", words(app))


def test_splitting_fills_the_gpu_and_merging_is_exact():
    app = give_up(open_topic(after_keys=640, after_splits=5, after_row_inputs="growing_max"))
    for programs in ("32 heads | 32", "1 query tile | 32", "× 5 parts | 40"):
        assert programs in words(app)
    for busy in (32, 5 * 8):
        assert any(f"{busy} of 132" in spec for spec in specs(app))
    assert float(badges(app, "green")[0]) < 1e-14
    assert len(badges(app, "red")) == 1  # the plain mean
    row, heads, _ = links(app)
    shared = {"algorithm": "split_kv", "kv_len": "640", "kv_splits": "5", "inputs": "growing_max"}
    assert (shared | {"q_heads": "1"}).items() <= row.items()
    assert (shared | {"q_heads": "32", "kv_heads": "8"}).items() <= heads.items()


def test_the_topic_of_flash_attention_3_follows_its_inputs_and_the_launch():
    app = open_topic("FlashAttention-3", after_tokens=64)
    (before,) = [spec for spec in specs(app) if "root mean square error" in spec]
    assert before.count("e4m3,") == 4
    head_dims = ALGORITHMS["flash3"].needs.head_dims
    for said in ("SDPA</dfn>", f"{head_dims[0]} to {head_dims[-1]}", f"at most {MAX_PACKED_ROWS} queries"):
        assert said in words(app)
    app.number_input(key="after_size").set_value(100.0).run()
    assert not app.exception
    assert before not in specs(app)


def test_late_rescales_keep_the_output():
    app = give_up(open_topic("FlashAttention-4"))
    assert "640 rescales" in words(app)
    app.select_slider(key="after_threshold").set_value(0).run()
    assert "3,968 rescales" in words(app)
    assert float(badges(app, "green")[0]) < 1e-14
    assert links(app)[0]["inputs"] == "growing_max"
    app.slider(key="after_units_share").set_value(25).run()
    assert any("polynomial" in spec for spec in specs(app))


def test_the_ring_is_predicted_and_then_told_by_what_four_gpus_did():
    app = give_up(give_up(open_topic("Several GPUs")))
    held, work = (info.value for info in app.info)
    assert held.startswith("chunk 0. In steps 1 to 4 it holds the chunks 2, 1, 0, 3,")
    assert work.startswith("rank 3.")
    runs = [runs_of(rank, 4, 4096, "contiguous")[0] for rank in range(4)]
    pairs = [sum(position + 1 for position in run.positions) for run in runs]
    assert all(f"{each / sum(pairs):.0%}" in work for each in pairs)
    assert [link.proto.page for link in app.get("page_link")][-1] == "ranks"


PROBLEM = AttentionProblem(q_len=256, kv_len=256, block_m=128, block_n=128)


@pytest.fixture
def known(monkeypatch):
    """Lanes by algorithm that are recorded for every problem."""
    found = {"flash2": plain_lanes(PROBLEM), "flash3": hopper_lanes(PROBLEM)}
    monkeypatch.setattr(player_lanes, "recorded_lanes", lambda problem, name: found.get(name))
    links = []
    monkeypatch.setattr(after_lanes, "explore_link", lambda *given, **more: links.append((given[2], more)))
    forget()
    yield found
    assert all(link == ("flash3", {"lanes": "open"}) for link in links)
    forget()


def forget():
    """What was read of other recordings."""
    player_lanes.recorded_lane_runs.cache_clear()
    after_lanes.recorded_pair.cache_clear()


def opened():
    def script():
        from viz.learn.after.page import lanes_panel

        lanes_panel()

    return run_script(script)


def shown(app):
    """Titles of the runs whose lanes are drawn."""
    (mounted,) = [json.loads(each.proto.json) for each in app.get("bidi_component")]
    return [run["title"] for run in mounted["lanes"]["runs"]]


def test_the_lanes_of_the_hopper_kernel_come_after_the_answer(known):
    app = opened()
    plain, hopper = (LanesRun(known[name], True) for name in ("flash2", "flash3"))
    assert shown(app) == [plain.label]
    (radio,) = app.radio
    assert {f"{each.lanes.product_share:.0%}" for each in (plain, hopper)} <= set(radio.options)
    radio.set_value(radio.options[0]).run()
    assert shown(app) == [hopper.label, plain.label]
    assert "Made-up GPU" in words(app)
    for share in (plain.lanes.hidden_share, hopper.lanes.hidden_share, own_overlap(hopper.lanes)):
        assert f"{share:.0%}" in words(app)


def test_without_recorded_lanes_the_story_is_left_out(known):
    del known["flash3"]
    assert not opened().subheader


def test_overlap_with_own_products_counts_each_moment_once():
    """Softmax from 0 to 100 ns; products of its lane from 50 to 80 and from 60 to 120, another lane's."""
    lanes = dataclasses.replace(
        plain_lanes(PROBLEM),
        event_program=np.zeros(4, np.int32),
        event_lane=np.array([0, 0, 0, 1], np.int8),
        event_activity=np.array([1, 0, 2, 0], np.int8),
        event_begin_ns=np.array([0.0, 50, 60, 0]),
        event_end_ns=np.array([100.0, 80, 120, 40]),
    )
    assert own_overlap(lanes) == pytest.approx(0.5)
    assert own_overlap(plain_lanes(PROBLEM)) == 0


@pytest.mark.parametrize("name", LANE_PROBLEMS)
def test_what_is_said_of_the_plain_kernels_tiles_is_so_in_the_recordings(name):
    """One program fills an SM. Tiles that tuning chose are smaller, and bring the times closer."""
    forget()
    problem = LANE_PROBLEMS[name]
    plain, hopper = (run.lanes for run in after_lanes.recorded_pair(problem))
    at_once = (plain.program_end_ns - plain.program_begin_ns).sum() / plain.sm_busy_ns.sum()
    assert at_once == pytest.approx(1, abs=0.02)
    tuned = json.loads((ROOT / "kernels" / "primitives" / "tuned" / "sm90.json").read_text())["classes"]
    own, other = (
        tuned[f"{kernel}-d{problem.head_dim}-2B-{problem.mask}-short"]
        for kernel in ("forward", "forward_hopper")
    )
    tile = plain.problem.block_m * plain.problem.block_n
    assert own["config"]["block_m"] * own["config"]["block_n"] < tile
    assert 1 < own["median_ms"] / other["median_ms"] < plain.plain_us / hopper.plain_us
