// What a first visitor sees: the run once from its start to its end, slowly at one good tile.

import { smooth } from "./run/easing.js";
import { shrinkingRows, toldRow } from "./run/figure.js";
import { hasTile } from "./run/model.js";
import { sentenceOf } from "./run/sentences.js";

const [STANDS_MS, BEFORE_MS, AFTER_MS] = [4000, 4500, 5000]; // before anything moves, the tile, and the rest
const [A_GLANCE_MS, A_LETTER_MS] = [800, 28]; // a phase lasts until its sentence is read
const [SCAN, FIRST, SLOW, LAST] = [20, 4, 0.2, 20]; // tiles per second, as they are seen
const STANDS =
  "Each word gets a score with every word so far. Standard attention writes all scores to slow memory.";
const BEFORE =
  "FlashAttention makes a tile of scores on the chip, adds up what it gives, and drops it: sums are enough.";
const AFTER = "The same for all other tiles. O of a row goes to HBM once, after its last tile.";

const pace = (from, to) => (part) => from * (to / from) ** smooth(part);

export function overtureOf(model) {
  const last = model.phaseStart[model.count];
  const good = goodTile(model);
  const [first, next] = [good, good + 1].map((step) => model.phaseStart[step]);
  const row = toldRow(model, good, null);
  const told = model.phases[good].map((phase, k) => {
    const ms = A_GLANCE_MS + A_LETTER_MS * sentenceOf(model, { step: good, phase }, row).length;
    return { from: first + k, to: first + k + 1, ms, rate: () => SLOW };
  });
  return [
    { from: 0, to: 0, ms: STANDS_MS, rate: (part) => pace(SCAN, FIRST)(6 * part - 5), says: STANDS },
    { from: 0, to: first, ms: BEFORE_MS, rate: pace(FIRST, SLOW), says: BEFORE },
    ...told,
    { from: next, to: last, ms: AFTER_MS, rate: pace(SLOW, LAST), says: AFTER },
  ];
}

// A tile in which old sums of many rows shrink by about half; without such sums one past the first third.
export function goodTile(model) {
  let [best, most] = [Math.floor(model.count * 0.4), 0];
  for (let step = 0; step < model.count; step++) {
    if (!hasTile(model, step) || !model.values.alpha) continue;
    const told = shrinkingRows(model, step).length;
    if (told > most) [best, most] = [step, told];
  }
  return best;
}
