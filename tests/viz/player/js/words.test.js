import assert from "node:assert/strict";
import { test } from "node:test";
import { Pane } from "../../../../viz/player/js/grid/pane.js";
import { bytesSoFar } from "../../../../viz/player/js/run/model.js";
import { curveOf, recordedSeries } from "../../../../viz/player/js/run/series.js";
import { ByteRace } from "../../../../viz/player/js/duel.js";
import { sentenceOf } from "../../../../viz/player/js/run/sentences.js";
import { Timeline } from "../../../../viz/player/js/run/timeline.js";
import {
  captionOf,
  countWords,
  duelWords,
  headName,
  saidWords,
  rowWords,
  tileWords,
} from "../../../../viz/player/js/run/words.js";
import { given, givenRun, inPhase, range, standing, stepsWhere } from "./given.js";

const clocked = givenRun("clocked");
const backward = givenRun("window");
const parts = givenRun("parts");
const paged = givenRun("paged");
const pageAt = (kv_tile) => paged.trace.page[stepsWhere(paged.trace, { kernel: 0, kv_tile })[0]];

function readout({ model }, place) {
  const { line, at } = standing(model, place);
  const bytes = bytesSoFar(line, at);
  return saidWords(line, at, captionOf(line, at, { row: 0, rate: 0, bytes, active: 3 }));
}

function readoutOf({ model }, step, phase) {
  return saidWords(new Timeline(model), inPhase(model, step, phase), "");
}

// What each place tells: which tile, which phase, what is known by then.
const TOLD = {
  1: ["key tile 0 (cut)"],
  1.2: ["Query tile 1", ": load K."],
  2.4: [": row max.", "m of row 16"],
  2.6: [": rescale.", "= 1 × 16 + 16 = 32. O likewise"],
  "gpu:2": ["3 tiles in progress", "the GPU's clock", "147 B"],
  "gpu:99": ["348 B"],
};

test("it is said aloud where the playback stands, and what happens there", () => {
  for (const [place, fragments] of Object.entries(TOLD)) {
    const words = readout(clocked, place);
    for (const each of fragments) assert.ok(words.includes(each), words);
  }
  assert.match(readout(givenRun("modelled"), "gpu:2"), /modelled: .* the H200/);
  assert.match(readout(givenRun("keyless"), "1"), /sees no key/);
  assert.match(readout(givenRun("sampled"), "8"), /^Query tile 4, /);
});

test("the end says what standard attention moves", () => {
  const [causal, full] = ["causal", "full"].map(givenRun).map((run) => readout(run, `${run.model.count}`));
  for (const words of [causal, full]) assert.match(words, /, in place of .*B\. .* were never stored\.$/);
});

test("the counter tells steps, phases or microseconds", () => {
  for (const [run, place, unit, words] of [
    [clocked, "3", "tile", "step 3 / 10"],
    [clocked, "3.2", "tile", "step 4 / 10"],
    [clocked, "0", "phase", "step 0 / 10"],
    [clocked, "3.2", "phase", "step 4 / 10, phase 2 / 8"],
    [clocked, "gpu:0", "tile", "0.0 / 0.3 µs"],
    [givenRun("modelled"), "gpu:3", "tile", "0.0 / 0.0 µs"],
  ]) {
    const { line, at } = standing(run.model, place);
    line.unit = unit;
    assert.equal(countWords(line, at), words);
  }
});

test("with all programs at once, bytes so far are those of the steps that are done", () => {
  const { model, trace } = clocked;
  const { line, at } = standing(model, "gpu:2"); // each query tile has done its first step
  const done = range(model.count).filter((step) => trace.end_ns[step] <= 100);
  assert.equal(done.length, 4);
  const moved = range(5).map((tensor) =>
    done.reduce(
      (sum, step) => sum + trace.tensor_bytes_read[step][tensor] + trace.tensor_bytes_written[step][tensor],
      0,
    ),
  );
  assert.deepEqual(bytesSoFar(line, at).perTensor, moved);
});

// In every phase: bytes grow if it loads or stores, and a value is there from its phase on.
for (const name of [...given("algorithms"), "hopper", "hopper_wide"]) {
  test(`bytes and values of ${name} come in their phases, which all have words`, () => {
    const { model } = givenRun(name);
    const line = new Timeline(model);
    let before = 0;
    for (const position of range(line.last() + 1).slice(1)) {
      line.position = position;
      const at = line.cursor();
      at.isDone = (step) => line.isDone(at, step);
      const { total } = bytesSoFar(line, at);
      assert.equal(total > before, at.phase.loads.length + at.phase.stores.length > 0, line.text());
      assert.doesNotMatch(sentenceOf(model, at, 0), /undefined|[{}]/);
      before = total;
      for (const series of recordedSeries(model, model.kernel[at.step])) {
        const phases = model.phases[at.step];
        const later = phases.slice(phases.indexOf(at.phase) + 1);
        const isPending = !at.complete && later.some((phase) => series.changes(phase));
        assert.equal(
          curveOf(model, series, at, { steps: [at.step], row: 0 }).current === 0,
          !isPending,
          `${line.text()} ${series.name}`,
        );
      }
    }
    assert.equal(before, model.bytes.at(-1));
  });
}

test("a step is told by its tiles, and of split keys by its part", () => {
  for (const [run, where, words, index = 0] of [
    [backward, { kernel: 0, q_tile: 1 }, "Query tile 1. "],
    [backward, { kernel: 1, q_tile: -1 }, "Key tile 0 is seen by no query. "],
    [backward, { kernel: 2, q_tile: 2, kv_tile: 4 }, "Query tile 2, key tile 4 (cut). "],
    [parts, { kernel: 0, kv_tile: 2 }, "Part 0, key tile 2. "],
    [parts, { kernel: 0, kv_tile: 3 }, "Part 1, key tile 3. "],
    [parts, { kernel: 1 }, "Part 0, key tiles 0 to 2. "],
    [parts, { kernel: 1 }, "Part 2, key tile 6. ", 2],
    [paged, { kernel: 0, kv_tile: 3 }, `Part 1, key tile 3 (page ${pageAt(3)}). `],
    [paged, { kernel: 1 }, "Part 0, key tiles 0 to 2. "],
  ])
    assert.equal(readoutOf(run, stepsWhere(run.trace, where)[index]), words);
  const [first] = stepsWhere(backward.trace, { kernel: 0, q_tile: 1 });
  assert.match(readoutOf(backward, first, "load O, dO"), /: load O, dO\. /);
});

test("the entry of the block table is told with the keys that its page holds", () => {
  for (const [kv_tile, keys] of [
    [2, "16 to 23"],
    [6, "48 to 49"], // of 50
  ]) {
    const [step] = stepsWhere(paged.trace, { kernel: 0, kv_tile });
    const told = sentenceOf(paged.model, inPhase(paged.model, step, "load table"), 0);
    assert.ok(told.startsWith("From HBM to the chip: table, 4 B. "), told);
    assert.ok(
      told.endsWith(` Page ${pageAt(kv_tile)} of the pool holds keys ${keys} of this sequence.`),
      told,
    );
  }
});

test("a tile is told by what the mask leaves of it, and its share in the head and kernel at hand", () => {
  const { model, trace } = backward;
  const told = (batch_head, kv_tile, kernel) => {
    const [step = -1] = stepsWhere(trace, { kernel, batch_head, q_tile: 2, kv_tile });
    const words = tileWords(model, { head: batch_head, q: 2, kv: kv_tile }, kernel, true);
    assert.equal(words.includes("skipped by the mask"), step < 0);
    const percent = Number(/, (\S+) % of the attention/.exec(words)?.[1]);
    assert.ok(step < 0 ? Number.isNaN(percent) : Math.abs(percent - model.share[step] / 655.35) < 0.06);
  };
  for (const kv_tile of range(5))
    [0, 1].forEach((head) => [1, 2].forEach((kernel) => told(head, kv_tile, kernel)));
  const { model: standard } = givenRun("standard");
  const isOfWeights = (kernel) => tileWords(standard, { head: 0, q: 1, kv: 0 }, kernel).includes("%");
  assert.deepEqual([0, 2].map(isOfWeights), [false, true]); // the first kernel only computes scores
  assert.match(tileWords(clocked.model, { head: 0, q: 0, kv: 0 }, 0), /cut, 100 %/);
  assert.match(tileWords(parts.model, { head: 0, q: 0, kv: 1 }, 1), /key tiles 0 to 2 together: /);
});

test("two runs are told by their steps, and at the end by what the longer one takes", () => {
  const bytes = [
    [500, 2000],
    [500, 3000],
  ];
  const race = new ByteRace(bytes);
  race.goToText("bytes:700");
  assert.equal(duelWords(race), "A is done: 2 kB. B: step 1 of 2.");
  race.goToText("bytes:1000");
  assert.match(duelWords(race), /^B asks for 1\.5 times as many bytes as A: 3 kB against 2 kB/);
});

test("a row is told by its number, and of packed heads by its head and query", () => {
  const at = { step: 1, kernel: 0 };
  assert.equal(rowWords(clocked.model, at, null), "row 16");
  assert.equal(rowWords(clocked.model, at, { head: 0, q: 2, row: 5 }), "row 37");
  assert.deepEqual([headName(clocked.model, 1), headName(parts.model, 1)], ["head 1", "K head 1"]);
  const begun = { step: -1, started: true, kernel: 0 };
  assert.equal(
    rowWords(givenRun("packed").model, begun, { head: 1, q: 0, row: 3 }),
    "row 3: head 3, query 1",
  );
});

const back = (model) => (words) => {
  const pane = Object.assign(Object.create(Pane.prototype), { model });
  pane.pinText(words);
  return pane.pinned && pane.pinnedText();
};

test("a picked row in words leads back to it", () => {
  const places = ["0.0", "0.37", "0.63", "0.64", "1.0", "0", "x", undefined];
  assert.deepEqual(places.map(back(clocked.model)), ["0.0", "0.37", "0.63", null, null, null, null, null]);
  assert.deepEqual(["1.33", "1.20", "0.33"].map(back(givenRun("sampled").model)), ["1.33", null, null]);
});
