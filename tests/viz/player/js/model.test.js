import assert from "node:assert/strict";
import { test } from "node:test";
import {
  KIND,
  hasTile,
  keysOfRow,
  makeModel,
  stepsAbout,
  tileKind,
  valueAt,
} from "../../../../viz/player/js/run/model.js";
import { given, givenRun, isNear, range, stepsWhere } from "./given.js";

const clocked = givenRun("clocked");
const backward = givenRun("window");
const parts = givenRun("parts");
const names = (phases) => phases.map(({ name }) => name);

test("a pattern gives each row its ranges of keys, and each head its own if heads differ", () => {
  const seen = [
    [
      [[0, 1]],
      [
        [0, 1],
        [3, 5],
      ],
    ],
    [[], [[2, 4]]],
  ];
  assert.deepEqual(keysOfRow({ seen: seen.slice(0, 1) }, 1, 7), [
    [0, 1],
    [3, 5],
  ]);
  assert.deepEqual(keysOfRow({ seen }, 0, 3), []);
  assert.deepEqual(keysOfRow({ seen }, 1, 3), [[2, 4]]);
});

test("bytes before each step are those of the trace", () => {
  const { model, trace } = clocked;
  let total = 0;
  trace.tensor_bytes_read.forEach((read, step) => {
    const moved = read.map((bytes, tensor) => bytes + trace.tensor_bytes_written[step][tensor]);
    total += moved.reduce((sum, bytes) => sum + bytes, 0);
    assert.equal(model.bytes[step + 1], total);
    assert.deepEqual(
      read.map((_, tensor) => model.stepBytes[step].read[tensor] + model.stepBytes[step].written[tensor]),
      moved,
    );
  });
});

test("shares come back as they were recorded", () => {
  const { model, trace } = backward;
  for (const step of range(model.count)) {
    model.offsets.forEach((offset, row) => {
      const share = Math.max(0, Math.min(1, trace.row_share[step][offset] || 0));
      assert.ok(Math.abs(valueAt(model, "share", step, row) - share) < 1e-5);
    });
  }
});

test("phases of a step depend on its place in the turn and on the mask", () => {
  const [before, loop, after] = clocked.data.kernels[0].phases.map(names);
  const { phases } = clocked.model;
  assert.deepEqual(names(phases[0]), [...before, ...loop, ...after]); // one tile, cut by the mask
  assert.deepEqual(names(phases[1]), [...before, ...loop.filter((name) => name !== "mask")]);
  assert.deepEqual(names(phases[2]), [...loop, ...after]);
  assert.deepEqual(names(givenRun("keyless").model.phases[0]), [...before, ...after]);
});

test("a step is about a tile of the grid, or about a query or a key tile alone", () => {
  const { model, trace } = backward;
  const both = range(model.count).map((i) => trace.q_tile[i] >= 0 && trace.kv_tile[i] >= 0);
  assert.deepEqual(
    both,
    both.map((_, i) => hasTile(model, i)),
  );
  assert.ok(both.includes(false));
  const kinds = new Set(both.map((_, i) => tileKind(model, i)));
  assert.deepEqual([...kinds].toSorted(), [KIND.skipped, KIND.partial]);
});

test("a step about several key tiles is that of each, and shares its attention out among them", () => {
  const { model } = parts;
  const tiles = range(model.count).map((i) => model.kvEnd[i] - model.kv[i]);
  assert.deepEqual([...new Set(tiles)].toSorted(), [1, 3]);
  tiles.forEach((count, i) => assert.ok(isNear(model.tileShare[i], model.share[i] / 65535 / count)));
  assert.equal(model.scaleShare, Math.max(...model.tileShare));
  assert.deepEqual(
    [2, 3, 5, -1].map((kv) => stepsAbout(model, 1, { head: 0, q: 0, kv }).length),
    [1, 1, 1, 3],
  );
});

for (const name of ["window", "window_q_outer", "window_kv_outer"]) {
  test(`the strips of ${name} know the steps that fill them`, () => {
    const { data, model, trace } = givenRun(name);
    for (const strip of model.strips) {
      const alongKeys = strip.side === "top";
      assert.deepEqual(strip.edges, range((alongKeys ? 5 : 3) + 1));
      const stores = ({ phases }) => phases.flat().some((phase) => phase.stores.includes(strip.name));
      const kernel = data.kernels.findIndex(stores);
      assert.equal(strip.isFilled, kernel >= 0);
      if (kernel < 0) continue;
      const isStored = (step) => model.phases[step].some((phase) => phase.stores.includes(strip.name));
      for (const batch_head of range(2)) {
        strip.filling.forEach((steps, tile) => {
          const where = { kernel, batch_head, [alongKeys ? "kv_tile" : "q_tile"]: tile };
          const ofHead = steps.filter((step) => model.head[step] === batch_head);
          assert.deepEqual(ofHead, stepsWhere(trace, where).filter(isStored));
        });
      }
    }
  });
}

test("the strip of the parts has a tile for each part", () => {
  const { data, model, trace } = parts;
  assert.deepEqual(model.keyParts, [0, 3, 6, 7]);
  const strips = Object.fromEntries(model.strips.map((strip) => [strip.name, strip]));
  assert.deepEqual(strips["partial O"].edges, [0, 3, 6, 7]);
  assert.deepEqual(strips.K.edges, range(8));
  assert.deepEqual(strips.O.edges, [0, 1]);
  strips["partial O"].filling.forEach((steps, kv_tile) => {
    const lastOfPart = [3, 6, 7].includes(kv_tile + 1); // which stores it
    assert.deepEqual(steps, lastOfPart ? stepsWhere(trace, { kernel: 0, kv_tile }) : []);
  });
  assert.deepEqual(makeModel({ ...data, key_parts: [0, 7] }).keyParts, []); // one part is no split
});

test("the keys of a row are those of the mask", () => {
  for (const { problem, visible } of given("masks")) {
    visible.forEach(([first, end], row) => {
      assert.deepEqual(keysOfRow(problem, row), first < end ? [[first, end]] : []);
    });
  }
});
