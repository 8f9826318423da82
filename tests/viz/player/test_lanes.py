"""What the view of an SM is sent, and its modules: times, blocks under a point, and the way to the grid."""

import base64
import dataclasses
import json

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_lanes, recorded_run
from tests.lanes import PROBLEM, backward_lanes, hopper_lanes, plain_lanes
from tests.viz.player.runs import GPU
from tests.viz.player.test_data import hand_built
from viz.player import lanes as sent
from viz.player.data import player_data
from viz.player.lanes import LanesRun, figures_of, lanes_data, recorded_lane_runs


@pytest.fixture(scope="module")
def runs():
    return LanesRun(hopper_lanes(), recorded=True), LanesRun(plain_lanes(), recorded=False)


def numbers(text, dtype):
    return np.frombuffer(base64.b64decode(text), np.dtype(dtype).newbyteorder("<"))


def small(sent_numbers):
    return numbers(sent_numbers["data"], sent_numbers["dtype"])


def test_each_event_is_sent_with_its_time_activity_and_tile(runs):
    for run, data in zip(runs, lanes_data(runs)["runs"], strict=True):
        lanes = run.lanes
        begin, length = numbers(data["begin"], "uint32") / 1.5, small(data["length"]) / 1.5
        places = small(data["places"]).reshape(-1, 4)[small(data["place"])]
        names = [data["activities"][number]["name"] for number in numbers(data["activity"], "uint8")]
        got = sorted(zip(begin.round(3), (begin + length).round(3), names, places.tolist(), strict=True))
        wanted = sorted(
            (
                lanes.event_begin_ns[i],
                lanes.event_end_ns[i],
                lanes.activities[lanes.event_activity[i]][0],
                [
                    lanes.event_program[i],
                    lanes.event_batch_head[i],
                    lanes.event_q_tile[i],
                    lanes.event_kv_tile[i],
                ],
            )
            for i in range(len(lanes.event_program))
        )
        assert [each[2:] for each in got] == [each[2:] for each in wanted]
        times = [[each[:2] for each in those] for those in (got, wanted)]
        np.testing.assert_allclose(*times, atol=0.34)  # half a cycle
        assert sum(track["count"] for sm in data["sms"] for track in sm["tracks"]) == len(begin)


def test_the_words_of_origin_are_right(runs):
    hopper, plain = lanes_data(runs)["runs"]
    assert hopper["provenance"] == "recorded on Made-up GPU, Triton 3.0, 2026-11-22"
    assert plain["provenance"] == "measured here on Made-up GPU, Triton 3.0"


def test_sms_beyond_the_limit_are_left_out_and_those_with_the_same_tiles_stay(runs, monkeypatch):
    monkeypatch.setattr(sent, "MAX_EVENTS", 150)
    hopper, _ = lanes_data(runs)["runs"]
    assert [sm["sm"] for sm in hopper["sms"]] == [0]
    assert hopper["notes"] == ["The blocks of 1 more SM are not shown here."]
    monkeypatch.setattr(sent, "MAX_EVENTS", 60)
    swapped = LanesRun(hopper_lanes(program_sm=np.array([1, 0], np.int32)), recorded=True)
    shown = [
        [[sm["sm"] for sm in each["sms"]] for each in lanes_data((first, runs[1]))["runs"]]
        for first in (runs[0], swapped)
    ]
    assert shown == [[[0], [0]], [[0], [1]]]  # SM 1 of the plain kernel has the tiles of program 1


def test_figures_are_those_of_the_lanes(runs):
    figures = {figure.name: figure for figure in figures_of(runs)}
    hopper = runs[0].lanes
    assert figures["A product was under way"].values == (f"{100 * hopper.product_share:.0f} %", "72 %")
    assert figures["Softmax beside a product"].values == (f"{100 * hopper.hidden_share:.0f} %", "22 %")
    assert figures["Wait for K"].values == ("5.6 %", "–")
    assert figures["Wait for K"].words.startswith("of the time of warpgroup 1 and warpgroup 2;")
    assert figures["Place for K"].words.startswith("of the time of loads: until a place")
    assert figures["Marks change its time by"].values == ("+5 %", "+5 %")
    no_softmax = dataclasses.replace(hopper, sm_softmax_ns=np.zeros(2), sm_hidden_ns=np.zeros(2))
    with np.errstate(invalid="ignore"):
        assert figures_of([LanesRun(no_softmax, True)])[2].values == ("–",)


def test_figures_say_that_marks_also_gain_only_if_they_did(runs):
    (slower,) = [each for each in figures_of(runs) if each.name == "Marks change its time by"]
    assert slower.values == ("+5 %", "+5 %")
    assert "sooner" not in slower.words
    faster = LanesRun(hopper_lanes(plain_us=100.0, marked_us=93.0), True)
    (gained,) = [each for each in figures_of([faster]) if each.name == "Marks change its time by"]
    assert gained.values == ("−7 %",)
    assert "93 µs" in gained.words
    assert "sooner" in gained.words


def test_a_block_keeps_its_tile_if_an_sm_worked_on_more_tiles_than_16_bits_count():
    count = (1 << 16) + 10
    whole = ("program", "lane", "activity", "batch_head", "q_tile")
    events = {f"event_{name}": np.zeros(count, int) for name in whole}
    begin = 10.0 * np.arange(count)
    events |= {"event_kv_tile": np.arange(count), "event_begin_ns": begin, "event_end_ns": begin + 5}
    lanes = dataclasses.replace(plain_lanes(), **events)
    (data,) = lanes_data([LanesRun(lanes, recorded=False)])["runs"]
    about = small(data["places"]).reshape(-1, 4)[small(data["place"])]
    assert about[:, 3].tolist() == list(range(count))


def test_the_waits_of_every_sm_are_sent(runs):
    lanes = runs[0].lanes
    waits = lanes_data(runs)["runs"][0]["waits"]
    shares = numbers(waits["shares"], "uint16").reshape(len(lanes.sm), -1) / 65535
    assert waits["names"] == ["wait for K", "wait for PV"]
    np.testing.assert_allclose(shares[:, 0], lanes.sm_activity_ns[:, 3] / lanes.sm_lane_ns[:, 3], atol=1e-4)


def test_waits_of_lanes_with_different_roles_add_up_to_the_time_of_all_of_them():
    """Two lanes of 100 ns: one waits for 60 ns, the other for 80 ns. A third one loads."""
    activities = (("S", "product"), ("wait a", "wait"), ("wait b", "wait"), ("dQ", "product"), ("w", "wait"))
    lanes = dataclasses.replace(
        hopper_lanes(),
        activities=activities,
        event_lane=np.array([0, 0, 1, 1, 2], np.int8),
        event_activity=np.array([0, 1, 2, 3, 4], np.int8),
        **{f"event_{name}": np.zeros(5, np.int32) for name in ("program", "batch_head", "q_tile", "kv_tile")},
        event_begin_ns=np.zeros(5),
        event_end_ns=np.ones(5),
        sm=np.array([0], np.int32),
        sm_activity_ns=np.array([[1.0, 60, 80, 1, 90]]),
        sm_lane_ns=np.full((1, 5), 100.0),
    )
    waits = lanes_data([LanesRun(lanes, True)])["runs"][0]["waits"]
    assert waits["names"] == ["wait a", "wait b"]
    np.testing.assert_allclose(numbers(waits["shares"], "uint16") / 65535, [0.3, 0.4], atol=1e-4)


def test_recorded_lanes_come_with_the_fastest_kernel_first(monkeypatch):
    known = {"flash3": hopper_lanes(plain_us=9.0), "flash2": plain_lanes(plain_us=12.0)}
    monkeypatch.setattr(sent, "recorded_lanes", lambda problem, name: known.get(name))
    recorded_lane_runs.cache_clear()
    found = recorded_lane_runs(PROBLEM, "forward")
    recorded_lane_runs.cache_clear()
    assert [run.lanes.plain_us for run in found] == [9.0, 12.0]
    assert all(run.recorded for run in found)


def test_the_data_of_4000_blocks_are_small():
    problem = PROBLEM.with_(q_len=4096, kv_len=256, block_m=64, block_n=16)
    data = lanes_data([LanesRun(hopper_lanes(problem), True)])
    events = len(base64.b64decode(data["runs"][0]["activity"]))
    assert events > 3000
    assert len(json.dumps(data)) < 20 * events


# --- in the browser ---


@pytest.fixture(scope="module")
def given(runs):
    trace = hand_built(PROBLEM)
    return {"lanes": lanes_data(runs), "player": player_data(trace, "made up", GPU)}


@pytest.mark.browser
def test_the_block_under_a_time_is_found_and_only_what_is_seen_is_drawn(run, given):
    script = """(() => {
      const [made] = lane_model.lanesModel(given.lanes).runs;
      const track = made.sms[0].tracks[0];
      const [first, end] = lane_model.visibleEvents(made, track, 200, 700);
      const seen = [];
      const isSeen = (i) => made.end[i] > 200 && made.begin[i] < 700;
      for (let i = track.first; i < track.end; i++) if (isSeen(i)) seen.push(i);
      const at = lane_model.eventAt(made, track, made.begin[first] + 1, 5);
      const none = lane_model.eventAt(made, track, made.end[first] + 50, 5);
      return { first, end, seen, at, none };
    })()"""
    got = run(script, given)
    assert got["seen"] == list(range(got["first"], got["end"]))
    assert len(got["seen"]) > 1
    assert (got["at"], got["none"]) == (got["first"], -1)


@pytest.mark.browser
def test_a_block_leads_to_its_phase_in_the_grid_and_a_step_to_its_blocks(run, given):
    script = """(() => {
      const made = model.makeModel(given.player);
      const line = new timeline.Timeline(made);
      const tile = { head: 1, q: 2, kv: 3 };
      line.position = playhead.positionOf(made, tile, "PV");
      const at = line.cursor();
      const shown = { ...tile, step: at.step, phase: at.phase.name };
      const tiles = playhead.tilesAt(line, at);
      const [own] = lane_model.lanesModel(given.lanes).runs;
      const names = lane_model.eventsOf(own, tiles).map((event) => lane_model.activityOf(own, event).name);
      const none = playhead.positionOf(made, { head: 9, q: 0, kv: 0 }, "PV");
      line.position = playhead.positionOf(made, { head: 1, q: 2, kv: -1 }, "store O, lse");
      const stored = line.cursor();
      const stores = playhead.tilesAt(line, stored).at(-1);
      return { step: [made.head[at.step], made.q[at.step], made.kv[at.step]], phase: at.phase.name, tiles,
        names: [...new Set(names)].sort(), none,
        stored: [stored.phase.name, made.kv[stored.step], stores.kv] };
    })()"""
    got = run(script, given)
    assert got["step"] == [1, 2, 3]
    assert got["phase"] == "PV"
    assert got["tiles"] == [{"kernel": "_attn_fwd", "head": 1, "q": 2, "kv": 3}]
    assert got["names"] == ["PV", "QK^T", "place for K", "softmax", "wait for K", "wait for PV"]
    assert got["none"] == -1
    assert got["stored"] == ["store O, lse", 3, -1]


@pytest.mark.browser
def test_a_block_of_one_kernel_leads_to_the_step_of_that_kernel_and_back(run):
    """Both backward kernels have a phase QK^T about every tile."""
    problem = PRESETS["tiny"].problem
    trace = recorded_run(problem, "backward").trace
    lanes = lanes_data([LanesRun(backward_lanes(problem), True)])
    script = """(() => {
      const made = model.makeModel(given.player);
      const line = new timeline.Timeline(made);
      const [own] = lane_model.lanesModel(given.lanes).runs;
      return ["_attn_bwd_dk_dv", "_attn_bwd_dq"].map((kernel) => {
        line.position = playhead.positionOf(made, { head: 0, q: 2, kv: 3 }, "QK^T", kernel);
        const at = line.cursor();
        const tiles = playhead.tilesAt(line, at);
        const events = lane_model.eventsOf(own, tiles);
        const names = events.map((event) => lane_model.activityOf(own, event).name);
        const all = lane_model.eventsOf(own, tiles.map((tile) => ({ ...tile, kernel: undefined })));
        return { step: [made.q[at.step], made.kv[at.step]], phase: at.phase.name, tiles, names,
          kernel: made.kernels[made.kernel[at.step]].name, all: all.length };
      });
    })()"""
    keys, queries = run(script, {"lanes": lanes, "player": player_data(trace, "made up", GPU)})
    for got, kernel in ((keys, "_attn_bwd_dk_dv"), (queries, "_attn_bwd_dq")):
        assert (got["kernel"], got["phase"], got["step"]) == (kernel, "QK^T", [2, 3])
        assert got["tiles"] == [{"kernel": kernel, "head": 0, "q": 2, "kv": 3}]
        assert got["all"] == 8
    assert sorted(keys["names"]) == ["P^T", "S^T", "dK", "wait for Q"]
    assert sorted(queries["names"]) == ["P", "S", "dQ", "wait for K"]


@pytest.mark.browser
def test_a_block_of_a_kernel_that_is_not_played_leads_to_the_tile_all_the_same(run):
    """The plain backward kernels beside the sweep, which has kernels of other names."""
    problem = ALGORITHMS["flash3_backward"].with_own_tiles(PRESETS["layer"].problem)
    trace = recorded_run(problem, "flash3_backward").trace
    lanes = lanes_data([LanesRun(recorded_lanes(problem, "backward_plain"), True)])
    script = """(() => {
      const made = model.makeModel(given.player);
      const line = new timeline.Timeline(made);
      const [plain] = lane_model.lanesModel(given.lanes).runs;
      const event = plain.begin.findIndex((_, i) => lane_model.activityOf(plain, i).name === "dK");
      const tile = lane_model.tileOf(plain, event);
      line.position = playhead.positionOf(made, tile, "dK", lane_model.activityOf(plain, event).kernel);
      const at = line.cursor();
      const events = lane_model.eventsOf(plain, playhead.tilesAt(line, at));
      return { tile, step: [made.head[at.step], made.q[at.step], made.kv[at.step]],
        phase: at.phase.name, marks: events.includes(event) };
    })()"""
    got = run(script, {"lanes": lanes, "player": player_data(trace, "made up", GPU)})
    assert got["step"] == [got["tile"][name] for name in ("head", "q", "kv")]
    assert (got["phase"], got["marks"]) == ("dK", True)


@pytest.mark.browser
def test_lanes_begin_at_the_sm_with_the_most_blocks(run):
    script = """(() => {
      const of = (...counts) => {
        let first = 0;
        return { sms: counts.map((count) => ({ first, end: (first += count) })) };
      };
      return [of(3, 8, 5), of(4, 4), of(7)].map(lane_model.busiestSm);
    })()"""
    assert run(script) == [1, 0, 0]


@pytest.mark.browser
def test_the_name_of_a_block_stands_in_what_is_seen_of_it(run, given):
    script = """(() => {
      const model = lane_model.lanesModel(given.lanes);
      const layout = lane_layout.layoutLanes(model, [0, 0], 1000);
      const [made] = model.runs;
      const [track] = made.sms[0].tracks;
      const event = Array.from({ length: track.end - track.first }, (_, i) => track.first + i)
        .toSorted((a, b) => made.end[b] - made.begin[b] - (made.end[a] - made.begin[a]))[0];
      const length = made.end[event] - made.begin[event];
      const seen = new span.Span(made.lastEnd);
      const tallied = [];
      const context = document.createElement("canvas").getContext("2d");
      context.fillText = (words, x, y) => tallied.push([words, x, y]);
      const palette = new Proxy({}, { get: () => "#888888" });
      const told = { model, palette, marked: [new Set(), new Set()], picked: null, tiles: [] };
      const middles = [0, 0.5].map((part) => {
        tallied.length = 0;
        seen.place(made.begin[event] + part * length, 2 * length);
        lane_draw.drawLanes(context, layout, seen, told);
        const { y, h } = layout.runs[0].tracks[0];
        const own = tallied.filter(([words, , at]) => words === lane_model.activityOf(made, event).name
          && at > y && at < y + h);
        return own.map(([, x]) => Math.round(x))[0];
      });
      const at = (time) => lane_layout.xOf(layout, seen, time);
      const half = (at(made.end[event]) - layout.left) / 2;
      return { middles, wanted: Math.round(layout.left + half) };
    })()"""
    got = run(script, given)
    assert got["middles"][1] == got["wanted"] < got["middles"][0]


def test_a_press_that_is_let_go_outside_moves_nothing_afterwards(run):
    script = """(() => {
      const canvas = document.createElement("canvas");
      const did = [];
      const view = { canvas, panBy: () => did.push("pan"), hover: () => did.push("hover") };
      gestures.takeGestures(view);
      canvas.setPointerCapture = () => {};
      const send = (name, clientX, buttons) =>
        canvas.dispatchEvent(new PointerEvent(name, { pointerId: 1, clientX, buttons }));
      send("pointerdown", 0, 1);
      send("pointermove", 20, 1);
      send("pointermove", 90, 0);
      return did;
    })()"""
    assert run(script) == ["pan", "hover"]
