import assert from "node:assert/strict";
import { test } from "node:test";
import {
  figureOf,
  knowsRow,
  lseOfPart,
  rowOf,
  shrinkingRows,
  softmaxState,
  stepToOpen,
  tellingRow,
  toldRow,
} from "../../../../viz/player/js/run/figure.js";
import { formatSteady } from "../../../../viz/player/js/run/formats.js";
import { makeModel, valueAt } from "../../../../viz/player/js/run/model.js";
import { sentenceOf, stateWords } from "../../../../viz/player/js/run/sentences.js";
import { shownIn as shownAt } from "../../../../viz/player/js/run/cell.js";
import { givenRun, inPhase, isNear, range, stepsWhere } from "./given.js";

const full = givenRun("full");
const causal = givenRun("causal");
const large = givenRun("large");

// What stands in each slot in a phase, by its name.
function shownIn({ model }, step, phase) {
  const at = inPhase(model, step, phase);
  return shownAt(model, figureOf(model, step), at);
}

function areNear(values, expected) {
  assert.equal(values.length, expected.length);
  values.forEach((value, i) => assert.ok(isNear(value, expected[i]), `${value} and ${expected[i]}`));
}

test("each phase fills its slot with what the kernel recorded", () => {
  const { data, trace } = causal;
  const [step] = stepsWhere(trace, { q_tile: 1, kv_tile: 2 }); // the mask cuts it
  const shown = Object.fromEntries(
    ["load K", "QK^T", "mask", "exponentials", "PV"].map((phase) => [phase, shownIn(causal, step, phase)]),
  );
  assert.deepEqual(
    Object.values(shown).map(({ S }) => S?.name),
    [undefined, "QK^T", "S", "P", "P"],
  );
  assert.equal(shown["QK^T"].Q.name, "Q"); // loaded before the loop
  assert.equal(shown["load K"].V, undefined);
  const scaled = trace["QK^T"][step][1].map((score) => score * data.problem.scale);
  areNear(rowOf(shown["QK^T"].S, 1), scaled);
  areNear(rowOf(shown.PV.O, 1), trace.acc[step][1]);
  areNear(rowOf(shown["load K"].O, 1), trace.acc[step - 1][1]); // of the step before
  const [last] = stepsWhere(trace, { q_tile: 2, kv_tile: 3 });
  const { S, K } = shownIn(causal, last, "PV");
  assert.deepEqual([S.rows, S.columns, K.rows, K.columns], [2, 2, 2, 16]); // nothing past the end
});

test("a sum starts empty and travels through HBM in FlashAttention-1", () => {
  const run = givenRun("flash1");
  const [first] = stepsWhere(run.trace, { q_tile: 1, kv_tile: 0 });
  const [later] = stepsWhere(run.trace, { q_tile: 1, kv_tile: 1 });
  const loaded = (step) => rowOf(shownIn(run, step, "load Q, O, m, l").O, 1);
  assert.deepEqual(loaded(first), Array(16).fill(0));
  areNear(loaded(later), run.trace.acc[first][1]);
});

test("backward fills both products", () => {
  const run = givenRun("backward");
  const [step] = stepsWhere(run.trace, { kernel: 1, q_tile: 1, kv_tile: 0 });
  const names = Object.entries(shownIn(run, step, "dK")).map(([slot, shown]) => [slot, shown.name]);
  const stand = { Q: "Q", K: "K", S: "P", lse: "lse", dO: "dO", V: "V", dS: "dS", D: "D", dV: "acc_dv" };
  assert.deepEqual(Object.fromEntries(names), { ...stand, dK: "acc_dk" });
});

test("the state before a step is that after the one before it", () => {
  const { model, trace } = full;
  range(4).forEach((row) => {
    const state = softmaxState(model, 1, row);
    assert.deepEqual(
      [state.oldM, state.oldL, state.m],
      [trace.row_max[0][row], trace.row_sum[0][row], trace.row_max[1][row]],
    );
    assert.deepEqual([softmaxState(model, 3, row).oldL, softmaxState(model, 3, row).alpha], [0, 0]);
  });
});

test("a query tile is told for one row: its old sums shrink most often, its word is there once", () => {
  const { model } = full;
  const steps = stepsWhere(full.trace, { q_tile: 0, batch_head: 0 });
  const isTold = (row) => (step) => shrinkingRows(model, step).includes(row);
  const counts = range(4).map((row) => steps.filter(isTold(row)).length);
  const best = counts.indexOf(Math.max(...counts));
  assert.deepEqual(
    steps.map((step) => tellingRow(model, step)),
    steps.map(() => best),
  );
  const words = range(model.data.problem.q_len).map((row) => (row === (best + 1) % 4 ? "once" : "often"));
  const told = makeModel({ ...model.data, words: [words, words] });
  assert.equal(tellingRow(told, steps.at(-1)), (best + 1) % 4);
});

test("the tile that is opened holds the picked row, with the key tile in progress or the nearest", () => {
  const { model } = givenRun("three"); // steps: tile 0: key 0; 1: 0, 1; 2: 0, 1, 2
  const opened = (pinned) => range(6).map((step) => stepToOpen(model, step, pinned));
  assert.deepEqual(opened(null), range(6));
  assert.deepEqual(opened({ head: 0, q: 1, row: 0 }), [1, 1, 2, 1, 2, 2]);
  assert.deepEqual(opened({ head: 1, q: 1, row: 0 }), Array(6).fill(-1));
  assert.equal(stepToOpen(givenRun("keyless").model, 2, { head: 0, q: 0, row: 0 }), -1);
});

test("a picked row of large tiles is known and stands in its slots, and no other", () => {
  const { model, trace } = large;
  const [row, step] = [model.offsets.indexOf(5), stepsWhere(trace, { q_tile: 1, kv_tile: 1 })[0]];
  assert.deepEqual([knowsRow(model, row), knowsRow(model, row + 1)], [true, false]);
  assert.equal(toldRow(model, 0, null), row);
  const stands = (phase, slot) => shownIn({ model }, step, phase)[slot];
  areNear(rowOf(stands("exponentials", "S"), 5), trace.P[step][0]);
  areNear(rowOf(stands("load K", "O"), 5), trace.acc[step - 1][5]);
  assert.equal(stands("QK^T", "K"), undefined);
  assert.ok(rowOf(stands("PV", "O"), 4).every(Number.isNaN));
  assert.equal(knowsRow(givenRun("wide").model, 0), false);
  assert.ok(figureOf(givenRun("standard").model, 0));
});

// --- sentences ---

const says = ({ model }, step, phase, row = 0) => sentenceOf(model, inPhase(model, step, phase), row);

const FACTOR = / = e\^\((-?[\d.]+) - \(?(.+?)\)?\) = (.+?), they fit/;
const SUMMED = /l of .+? = (.+?) × (.+?) \+ (.+?) = (.+?)\. O likewise/;

test("a rescale is told so that whoever counts again gets the numbers of the run", () => {
  const { trace } = full;
  for (const row of range(4)) {
    const [old, now] = [0, 1].map((step) => trace.row_max[step][row]);
    const words = says(full, 1, "rescale", row).replaceAll("−", "-");
    const numbersOf = (pattern) => pattern.exec(words)?.slice(1).map(Number);
    const [alpha, l, added, newL] = numbersOf(SUMMED);
    assert.equal(words.includes("No larger score came"), now === old, words);
    const [m, newM, factor] = numbersOf(FACTOR) ?? [0, 0, 1];
    assert.equal(factor, alpha);
    for (const [shown, value] of [
      [alpha, trace.alpha[1][row]],
      [alpha, Math.exp(m - newM)],
      [newL, trace.row_sum[1][row]],
      [newL, alpha * l + added],
    ])
      assert.equal(formatSteady(shown), formatSteady(value), words);
    assert.equal(says(full, 1, "row max", row).includes("grows"), now > old);
  }
  const first = says(full, 0, "rescale"); // there is nothing to shrink yet
  assert.ok(!first.includes("α =") && first.includes(formatSteady(trace.row_sum[0][0])), first);
});

test("a row without a key is told as such, without numbers of a max", () => {
  const blind = givenRun("blind");
  for (const phase of ["row max", "exponentials", "rescale", "store O, lse"]) {
    assert.match(says(blind, 0, phase, 1), /Row 1 sees no key: /);
    assert.doesNotMatch(says(blind, 0, phase, 4), /no key/);
  }
  const late = givenRun("late"); // the last rows of the tile see none of its first keys
  assert.match(says(late, 0, "exponentials", 7), /Row 7 has seen no key so far: /);
  const backward = givenRun("blind_backward");
  assert.match(says(backward, 1, "P from lse", 1), /Row 1 sees no key: /);
  assert.doesNotMatch(says(backward, 1, "P from lse", 4), /no key/);
});

test("a row of split keys is told of its part", () => {
  assert.match(says(givenRun("parts"), 3, "row max"), /m of row 0 in this part grows from −∞/);
});

test("a merge starts from the sum of the part before, and says no weights of keys", () => {
  const run = givenRun("parts");
  const [before, step] = stepsWhere(run.trace, { kernel: 1, q_tile: 0 });
  const { O } = shownIn(run, step, "load partial O");
  areNear(rowOf(O, 0), run.trace.O[before][0]);
  assert.equal(stateWords(run.model, inPhase(run.model, step, "weigh"), 0, 0), "");
});

test("standard attention has no state of a row to tell", () => {
  const { model } = givenRun("standard");
  range(model.count).forEach((step) => assert.equal(stateWords(model, { step, part: 1 }, 0, 0), ""));
});

test("a part's share of a row is e^(its lse - lse of all parts), and the shares add up to one", () => {
  const { model, trace } = givenRun("parts");
  for (const row of range(model.offsets.length)) {
    const steps = stepsWhere(trace, { kernel: 1, q_tile: 0, batch_head: 0 });
    const terms = steps.map((step) => lseOfPart(model, step, row));
    const all = Math.log(terms.reduce((sum, lse) => sum + Math.exp(lse), 0));
    steps.forEach((step, i) => {
      const share = valueAt(model, "weight", step, row); // sent in 16 bits
      assert.ok(Math.abs(share - Math.exp(terms[i] - all)) < 1 / 65535, `${share} in row ${row}`);
    });
  }
});

test("sentences tell the picked row of large tiles with its numbers, and no other", () => {
  const { model, trace } = large;
  const [step] = stepsWhere(trace, { q_tile: 1, kv_tile: 2 }); // the mask cuts it
  const row = model.offsets.indexOf(5);
  const total = trace.P[step][0].reduce((sum, p) => sum + p);
  assert.ok(says(large, step, "exponentials", row).includes(` ${formatSteady(total)}.`));
  assert.doesNotMatch(says(large, step, "QK^T", row + 1), /NaN|Best/);
});
