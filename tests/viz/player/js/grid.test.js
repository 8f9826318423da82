import assert from "node:assert/strict";
import { test } from "node:test";
import { headLayouts } from "../../../../viz/player/js/grid/layout.js";
import { drawMap, visiblePath } from "../../../../viz/player/js/grid/map.js";
import { drawStrips, nameHeads, stripState } from "../../../../viz/player/js/grid/strips.js";
import { KIND, stepsOfTile, tileKind } from "../../../../viz/player/js/run/model.js";
import { given, givenRun, isNear, range, standing, stepsWhere } from "./given.js";

// A palette whose colours are their names.
const named = new Proxy({}, { get: (_, name) => name });

// A context that notes the boxes that are filled; other calls do nothing.
function noting() {
  const boxes = [];
  const known = {
    globalAlpha: 1,
    measureText: (words) => ({ width: 5 * words.length }),
    fillRect: (x, y, w, h) => boxes.push({ x, y, w, h, alpha: context.globalAlpha, fill: context.fillStyle }),
  };
  const context = new Proxy(known, { get: (own, name) => own[name] ?? (() => {}) });
  return { context, boxes };
}

// The boxes of the path of a tile's visible part.
function boxesOf(model, step, box) {
  const boxes = [];
  visiblePath({ beginPath() {}, rect: (...each) => boxes.push(each) }, model, step, box);
  return boxes;
}

const isInside = (boxes, x, y) =>
  boxes.some(([left, top, w, h]) => left <= x && x < left + w && top <= y && y < top + h);

for (const { name, visible, rows } of given("cut")) {
  test(`a partly masked tile of ${name} shows exactly the keys that its rows see`, () => {
    const { model } = givenRun(name);
    const { block_m: high, block_n: wide, q_len: queries } = model.data.problem;
    const isCut = (step) =>
      !model.kernel[step] && !model.head[step] && tileKind(model, step) === KIND.partial;
    const steps = range(model.count).filter(isCut);
    assert.ok(steps.length > 0);
    for (const step of steps) {
      const boxes = boxesOf(model, step, { x: 0, y: 0, w: wide, h: high });
      assert.ok(boxes.every(([x, y, w, h]) => x >= 0 && y >= 0 && x + w <= wide && y + h <= high));
      for (const offset of range(high)) {
        const row = model.q[step] * high + offset;
        if (row >= rows) continue;
        const [first, end] = visible[row % queries];
        for (const place of range(wide)) {
          const key = model.kv[step] * wide + place;
          assert.equal(
            isInside(boxes, place + 0.5, offset + 0.5),
            first <= key && key < end,
            `${row} ${key}`,
          );
        }
      }
    }
  });
}

for (const count of [2, 48, 683, 4096]) {
  test(`the grids of ${count} heads lie beside each other on a phone`, () => {
    const grids = headLayouts(
      { x: 0, y: 0, w: 366, h: 250 },
      { kvTiles: 4, qTiles: 3, data: { problem: { kv_heads: count } } },
      Array(count).fill(0),
    );
    assert.equal(grids.length, count);
    for (const { x, y, width, height, cellWidth } of grids) {
      assert.ok(x >= 0 && y >= 0 && width > 0 && height > 0 && x + width <= 366 && y + height <= 250);
      assert.ok(isNear(cellWidth, width / 4));
    }
    const row = grids.filter(({ y }) => y === grids[0].y);
    row.slice(1).forEach((grid, i) => assert.ok(row[i].x + row[i].width < grid.x));
  });
}

test("heads are named as their room allows", () => {
  for (const [room, names] of [
    [40, ["head 9", "head 10"]],
    [20, ["9", "10"]],
    [10, []],
  ]) {
    const said = [];
    const context = {
      measureText: ({ length }) => ({ width: 5 * length }),
      fillText: (words) => said.push(words),
    };
    const layouts = [0, 1].map((i) => ({ x: room * i, y: 40, room }));
    nameHeads(context, layouts, [9, 10], givenRun("clocked").model, { muted: "" });
    assert.deepEqual(said, names);
  }
});

// How bright a tile of a strip is, after so many steps.
function levelsOf({ model }, name, tile, ends) {
  const strip = model.strips.find((each) => each.name === name);
  return ends.map((done) => {
    const at = { step: -1, phase: null, head: 0, kernel: 0, finished: false, isDone: (i) => i < done };
    return stripState(model, strip, at, tile, tile + 1).level;
  });
}

// The sweep adds to dQ, which one kernel has set to zero and another scales: zeros fill nothing.
test("a written strip fills with the steps that store into it", () => {
  const levels = levelsOf(givenRun("clocked"), "O", 1, range(4)); // steps 1 and 2; the second one stores
  assert.deepEqual(levels, [0, 0, 0, 1]);
  const sweep = givenRun("sweep");
  const ends = [0, 1, 2].map((kernel) => stepsOfTile(sweep.model, kernel, 0, 2).at(-1) + 1);
  const [zeros, sums, scaled] = levelsOf(sweep, "dQ", 2, ends);
  assert.ok(zeros < 0.2 && zeros < sums && sums < scaled && scaled === 1);
});

// V comes after the exponentials: its tile is not bright before, as the chip does not hold it.
test("a tile of a strip is bright once its phase has loaded it", () => {
  const { model } = givenRun("clocked");
  const isBright = (name, phase) => {
    const strip = model.strips.find((each) => each.name === name);
    const from = strip.along === "q" ? model.q[1] : model.kv[1];
    const at = { step: 1, phase, kernel: 0, complete: false, isDone: (step) => step < 1 };
    return stripState(model, strip, at, from, from + 1).level === 1;
  };
  for (const [name, phase] of Object.entries({ Q: "load Q", K: "load K", V: "load V" })) {
    const bright = model.phases[1].filter((each) => isBright(name, each)).map((each) => each.name);
    assert.equal(bright[0], phase);
    assert.equal(bright.at(-1), model.phases[1].at(-1).name);
  }
});

test("in a pool the page that a step fetches is bright, those of other sequences are faint", () => {
  const { model, trace } = givenRun("paged");
  const K = model.strips.find(({ name }) => name === "K");
  assert.equal(K.edges.length - 1, 21); // 14 pages of two sequences, and half as many of others
  const isOf = (batch) => (_, i) => trace.batch_head[i] >> 1 === batch; // two K heads each
  const own = [0, 1].map((batch) => new Set(trace.page.filter(isOf(batch))));
  for (const step of stepsWhere(trace, { kernel: 0, kv_tile: 4 })) {
    const sequence = trace.batch_head[step] >> 1;
    const phase = model.phases[step].find(({ name }) => name === "load K");
    const at = { step, phase, kernel: 0, head: trace.batch_head[step], complete: false };
    for (const page of range(21)) {
      const { level, active } = stripState(model, K, at, page, page + 1);
      const isFetched = page === trace.page[step];
      assert.equal(level, isFetched ? 1 : own[sequence].has(page) ? 0.6 : 0.14);
      assert.equal(active, isFetched);
    }
  }
});

test("a line leads from the entry of the block table to its page of K, and on to that of V", () => {
  const { model, trace } = givenRun("paged");
  model.hasMatrices = false; // their numbers are a picture
  const grid = { x: 0, y: 100, cellWidth: 30, cellHeight: 30, width: 210, height: 30, strip: 10, letter: 0 };
  const ends = [];
  const context = new Proxy(
    {},
    {
      get: (own, name) => own[name] ?? ((x) => /^(move|line)To$/.test(name) && ends.push(x)),
    },
  );
  const lines = (place) => {
    ends.length = 0;
    drawStrips(context, grid, model, named, standing(model, place).at);
    return [...ends];
  };
  const [step] = stepsWhere(trace, { kernel: 0, kv_tile: 4 });
  const page = (210 / 21) * (trace.page[step] + 0.5);
  assert.deepEqual(lines(`${step}.1`), [4.5 * 30, page, page, page]);
  assert.deepEqual(lines("0"), []); // nothing was read yet
});

test("tiles narrower than a pixel are drawn together, and the strip has no gap", () => {
  const { model } = givenRun("long");
  const { at } = standing(model, "1600.3");
  const grid = {
    x: 40.3,
    y: 50,
    cellWidth: 0.12,
    cellHeight: 90,
    width: 600,
    height: 90,
    room: 700,
    strip: 13,
    letter: 18,
  };
  const { context, boxes } = noting();
  drawStrips(context, grid, model, named, at);
  const keys = boxes.filter(({ y }) => y === boxes[0].y); // those of K or of V
  assert.ok(keys.length <= 600);
  keys.slice(1).forEach(({ x }, i) => assert.equal(x, keys[i].x + keys[i].w));
  assert.deepEqual([keys[0].x, keys.at(-1).x + keys.at(-1).w], [40, 640]);
  const loaded = keys.filter(({ alpha }) => alpha === 1);
  assert.equal(loaded.length, 1);
  assert.ok(Math.abs(loaded[0].x - (40.3 + (600 * 2 * 1600) / 5000)) <= 2); // a step is about two tiles
});

test("a hidden tile that was computed looks like those that are skipped", () => {
  const { model } = givenRun("standard_causal");
  const isHidden = (i) =>
    tileKind(model, i) === KIND.hidden && model.kernels[model.kernel[i]].cells === "share";
  const step = range(model.count).find(isHidden);
  const { context, boxes } = noting();
  const grid = { x: 0, y: 0, width: 80, height: 80, cellWidth: 8, cellHeight: 8 };
  const palette = { scale: ["#000000", "#ffffff"], hidden: "hidden", line: "line", plain: "plain" };
  drawMap(context, { layouts: [], layoutOf: () => grid, model, palette, steps: [step], at: { step: -1 } });
  assert.deepEqual(
    boxes.map(({ fill }) => fill),
    ["hidden"],
  );
});
