import assert from "node:assert/strict";
import { test } from "node:test";
import { takeGestures } from "../../../../viz/player/js/lanes/gestures.js";
import {
  activityOf,
  eventAt,
  eventsOf,
  lanesModel,
  positionOf,
  tileOf,
  tilesAt,
  visibleEvents,
} from "../../../../viz/player/js/lanes/lane_model.js";
import { makeModel } from "../../../../viz/player/js/run/model.js";
import { Span, tickWords, ticksOf } from "../../../../viz/player/js/lanes/span.js";
import { Timeline } from "../../../../viz/player/js/run/timeline.js";
import { given, range } from "./given.js";

const { lanes, player, backward, sweep } = given("lanes");
const namesOf = (run, events) => [...new Set(events.map((event) => activityOf(run, event).name))].toSorted();

// Where a player stands after a block about a tile was picked: its cursor and its tiles.
function led(model, tile, phase, kernel) {
  const line = new Timeline(model);
  line.position = positionOf(line, tile, phase, kernel);
  const at = line.cursor();
  return { at, tiles: tilesAt(line, at) };
}

test("the block under a time is found, and only what is seen is drawn", () => {
  const [run] = lanesModel(lanes).runs;
  const [track] = run.sms[0].tracks;
  const [first, ...others] = visibleEvents(run, track, 200, 700);
  assert.deepEqual([first, ...others], [1, 2]);
  const [before, after] = [0, 3]; // they touch the span, and are not in it
  assert.deepEqual(visibleEvents(run, track, run.end[before], run.begin[after]), [1, 2]);
  assert.equal(eventAt(run, track, run.begin[first] + 1, 5), first);
  assert.equal(eventAt(run, track, run.end[first] + 50, 5), -1);
});

test("a block leads to its phase in the grid, and a step to its blocks", () => {
  const model = makeModel(player);
  const tile = { head: 1, q: 2, kv: 3 };
  const { at, tiles } = led(model, tile, "PV");
  assert.deepEqual(
    [model.head[at.step], model.q[at.step], model.kv[at.step], at.phase.name],
    [1, 2, 3, "PV"],
  );
  assert.deepEqual(tiles, [{ kernel: "_attn_fwd", ...tile }]);
  const [own] = lanesModel(lanes).runs;
  const names = ["PV", "QK^T", "place for K", "softmax", "wait for K", "wait for PV"];
  assert.deepEqual(namesOf(own, eventsOf(own, tiles)), names);
  assert.equal(positionOf(new Timeline(model), { head: 9, q: 0, kv: 0 }, "PV"), -1);
  const stored = led(model, { head: 1, q: 2, kv: -1 }, "store O, lse"); // about the query tile alone
  assert.deepEqual([stored.at.phase.name, model.kv[stored.at.step]], ["store O, lse", 3]);
  assert.equal(stored.tiles.at(-1).kv, -1);
});

// Both backward kernels have a phase QK^T about every tile.
test("a block of one kernel leads to the step of that kernel, and back", () => {
  const model = makeModel(backward.player);
  const [own] = lanesModel(backward.lanes).runs;
  for (const [kernel, names] of Object.entries({
    _attn_bwd_dk_dv: ["P^T", "S^T", "dK", "wait for Q"],
    _attn_bwd_dq: ["P", "S", "dQ", "wait for K"],
  })) {
    const { at, tiles } = led(model, { head: 0, q: 2, kv: 3 }, "QK^T", kernel);
    assert.equal(model.kernels[model.kernel[at.step]].name, kernel);
    assert.deepEqual([at.phase.name, model.q[at.step], model.kv[at.step]], ["QK^T", 2, 3]);
    assert.deepEqual(namesOf(own, eventsOf(own, tiles)), names);
    const all = tiles.map(({ head, q, kv }) => ({ head, q, kv }));
    assert.equal(eventsOf(own, all).length, 8);
  }
});

// The plain backward kernels beside the sweep, which has kernels of other names.
test("a block of a kernel that is not played leads to its tile all the same", () => {
  const model = makeModel(sweep.player);
  const [plain] = lanesModel(sweep.lanes).runs;
  const event = range(plain.begin.length).find((each) => activityOf(plain, each).name === "dK");
  const { phase, kernel } = activityOf(plain, event);
  const { head, q, kv } = tileOf(plain, event);
  const { at, tiles } = led(model, { head, q, kv }, phase, kernel);
  assert.equal(at.phase.name, "dK");
  assert.deepEqual([model.head[at.step], model.q[at.step], model.kv[at.step]], [head, q, kv]);
  assert.ok(eventsOf(plain, tiles).includes(event));
});

test("lanes begin at the SM that is done last", () => {
  for (const { sms, latest, end, lastEnd } of lanesModel(sweep.lanes).runs) {
    const { tracks, end: past } = sms[latest];
    const [{ first }] = tracks;
    assert.equal(Math.max(...end.subarray(first, past)), lastEnd);
    assert.equal(Math.max(...end), lastEnd);
  }
});

test("a press that is let go outside moves nothing afterwards", () => {
  const heard = {};
  const canvas = {
    addEventListener: (name, listener) => (heard[name] = listener),
    setPointerCapture() {},
  };
  const did = [];
  takeGestures({ canvas, panBy: () => did.push("pan"), hover: () => did.push("hover") });
  heard.pointerdown({ pointerId: 1, offsetX: 0, buttons: 1 });
  heard.pointermove({ pointerId: 1, offsetX: 20, buttons: 1 });
  heard.pointermove({ pointerId: 1, offsetX: 90, buttons: 0 });
  assert.deepEqual(did, ["pan", "hover"]);
});

// --- the part of the time that is seen ---

test("the seen span stays within the run and zooms about a time", () => {
  const seen = new Span(1000);
  seen.zoom(0.5, 250);
  assert.deepEqual([seen.from, seen.to], [125, 625]);
  seen.pan(5000);
  assert.deepEqual([seen.from, seen.to], [500, 1000]);
  seen.reveal(10, 20);
  assert.ok(seen.from <= 10 && seen.to >= 20);
  seen.zoom(100);
  assert.deepEqual([seen.from, seen.to], [0, 1000]);
});

// Blocks stay marked for long at the start of a run: a view three times as long would hide the zoom.
for (const [begin, end] of [
  [0, 100],
  [500, 2600],
  [9000, 9700],
]) {
  test(`${begin} to ${end} is seen whole and fills most of the view`, () => {
    const seen = new Span(10000);
    seen.show(begin, end);
    assert.ok(seen.from <= begin && end <= seen.to);
    assert.ok(end - begin > 0.8 * seen.length);
  });
}

test("the axis has round times, as many as fit, in the unit that suits them", () => {
  assert.deepEqual(ticksOf({ from: 90, to: 510 }, 5), { step: 100, times: [100, 200, 300, 400, 500] });
  assert.equal(tickWords(300, 100, 510), "300 ns");
  assert.equal(tickWords(3000, 1000, 9000), "3 µs");
});
