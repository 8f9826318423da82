"""The story of FlashAttention-3 by its lanes: the plain kernel's first, a question, then both."""

import json

import pytest

from kernels.problem import AttentionProblem
from tests import ROOT
from tests.app.pages import run_script, words
from tests.lanes import hopper_lanes, plain_lanes
from viz.learn.after import page as after_lanes
from viz.player import lanes as player_lanes
from viz.player.lanes import LanesRun

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
    return [run["title"] for run in mounted["run"]["lanes"]["runs"]]


def test_the_lanes_of_the_hopper_kernel_come_after_the_answer(known):
    app = opened()
    plain, hopper = (LanesRun(known[name], True) for name in ("flash2", "flash3"))
    assert shown(app) == [plain.kernel.label]
    (radio,) = app.radio
    assert {f"{each.lanes.product_share:.0%}" for each in (plain, hopper)} <= set(radio.options)
    radio.set_value(radio.options[0]).run()
    assert shown(app) == [hopper.kernel.label, plain.kernel.label]
    assert "Made-up GPU" in words(app)
    for share in (plain.lanes.hidden_share, hopper.lanes.hidden_share):
        assert f"{share:.0%}" in words(app)


def test_what_is_said_of_the_plain_kernels_tiles_is_so_in_the_recording():
    """One program fills an SM. Tiles that tuning chose are smaller, and bring the times closer."""
    forget()
    plain, hopper = (run.lanes for run in after_lanes.recorded_pair())
    problem = plain.problem
    at_once = (plain.program_end_ns - plain.program_begin_ns).sum() / plain.sm_busy_ns.sum()
    assert at_once == pytest.approx(1, abs=0.02)
    tuned = json.loads((ROOT / "kernels" / "primitives" / "tuned" / "sm90.json").read_text())["classes"]
    own, other = (
        tuned[f"{kernel}-d{problem.head_dim}-2B-{problem.mask}-short"]
        for kernel in ("forward", "forward_hopper")
    )
    tile = plain.problem.block_m * plain.problem.block_n
    assert own["config"]["block_m"] * own["config"]["block_n"] < tile
    closer = own["median_ms"] / other["median_ms"]
    assert 1 < closer < plain.plain_us / hopper.plain_us
    assert f"takes {closer:.2f} times as long" in after_lanes.WORDS.sections["lanes overlap"]
