// What a first visitor sees: the run once from its start to its end, slowly at one good tile.

import { smooth } from "./run/easing.js";
import { shrinkingRows } from "./run/figure.js";
import { hasTile } from "./run/model.js";

const STANDS_MS = 1500; // before anything moves
const [BEFORE_MS, TILE_MS, AFTER_MS] = [3000, 17_000, 5000];
const [FIRST, SLOW, LAST] = [4, 0.2, 20]; // tiles per second, as they are seen
const BEFORE =
  "Standard attention writes all scores to HBM and reads them back. " +
  "Here a tile of them is made on the chip, used and dropped.";
const AFTER = "The same for all other tiles. O of a row goes to HBM once, after its last tile.";

const pace = (from, to) => (part) => from * (to / from) ** smooth(part);

export function overtureOf(model) {
  const last = model.phaseStart[model.count];
  const good = goodTile(model);
  const [first, next] = [good, good + 1].map((step) => model.phaseStart[step]);
  return [
    { from: 0, to: 0, ms: STANDS_MS, rate: () => FIRST, says: BEFORE },
    { from: 0, to: first, ms: BEFORE_MS, rate: pace(FIRST, SLOW), says: BEFORE },
    { from: first, to: next, ms: TILE_MS, rate: () => SLOW, shape: (part) => part },
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
