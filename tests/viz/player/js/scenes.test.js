import assert from "node:assert/strict";
import { test } from "node:test";
import { spread } from "../../../../viz/player/js/talk/chart.js";
import { Link } from "../../../../viz/player/js/talk/presenter.js";
import {
  beatsOf,
  firstStop,
  moved,
  placeOfText,
  placeText,
  sentenceAt,
} from "../../../../viz/player/js/talk/scenes.js";

const SCENES = [
  { sentence: "a", stops: [{ sentence: "" }, { sentence: "b" }, { sentence: "" }] },
  { sentence: "c", stops: [{ sentence: "" }, { sentence: "" }] },
];
const PLACES = ["1.1", "1.2", "1.3", "2.1", "2.2"];

for (const [direction, places] of [
  [1, PLACES],
  [-1, PLACES.toReversed()],
]) {
  test(`moves by ${direction} go through every beat and stop at the end`, () => {
    const seen = [placeOfText(SCENES, places[0])];
    for (let i = 0; i < 5; i++) seen.push(moved(SCENES, seen.at(-1), direction));
    assert.deepEqual(seen.map(placeText), [...places, places.at(-1)]);
  });
}

test("any words are a place of the talk", () => {
  const words = ["", "#2", "2.2", "9.9", "0.0", "x", "1.9"];
  const places = words.map((each) => placeText(placeOfText(SCENES, each)));
  assert.deepEqual(places, ["1.1", "2.1", "2.2", "2.2", "1.1", "1.1", "1.3"]);
});

test("a stop is a beat, and a sentence stays until the next", () => {
  assert.deepEqual(SCENES.map(beatsOf), [3, 2]);
  assert.deepEqual(
    [0, 1, 2].map((stop) => sentenceAt(SCENES[0], stop)),
    ["a", "b", "b"],
  );
});

test("a scene whose first way says its seconds opens on that way", () => {
  const scene = { stops: [{ step: "1" }, { step: "2", seconds: 3 }, { step: "3" }] };
  assert.deepEqual([firstStop(scene), beatsOf(scene)], [1, 2]);
  assert.equal(beatsOf({ ...scene, chart: {} }), 3); // its stops are curves
});

test("labels keep their order and do not touch", () => {
  const wanted = [50, 51, 49, 5, 99, 98];
  const placed = spread(wanted, 10, 0, 100);
  const heights = wanted
    .map((_, i) => i)
    .toSorted((a, b) => wanted[a] - wanted[b])
    .map((i) => placed[i]);
  assert.ok(heights.every((height, i) => i === 0 || height - heights[i - 1] >= 10 - 1e-9));
  assert.ok(heights[0] >= 0 && heights.at(-1) <= 100);
});

// --- windows in step ---

async function until(holds) {
  // oxlint-disable-next-line no-await-in-loop -- it looks again after each message
  while (!holds()) await new Promise((done) => setTimeout(done));
}

test("windows that write at once end with the same state, and one that opens late takes it", async () => {
  const nobody = { addEventListener: () => {}, location: { protocol: "file:" } };
  const { location } = nobody;
  Object.assign(globalThis, { window: { ...nobody, BroadcastChannel }, document: nobody, location });
  const heard = [];
  const ends = new AbortController();
  const links = [0, 1, 2].map(() => new Link("t", () => {}, null, ends.signal));
  for (let i = 0; i < 50; i++) links[i % 3].send(i);
  links.forEach((link, i) => link.send(`last of ${i}`));
  await until(() => new Set(links.map(({ known }) => known.state)).size === 1);
  links.push(new Link("t", (state) => heard.push(state), "its own", ends.signal)); // late
  links.push(new Link("another talk", () => heard.push("another talk"), null, ends.signal));
  await until(() => heard.length > 0);
  ends.abort();
  assert.deepEqual(heard, [links[0].known.state]);
});
