// What a first visitor sees: the run once from its start to its end, slowly at one good tile.

import { smooth, within } from "./run/easing.js";
import { softmaxState } from "./run/figure.js";
import { hasTile, range, rowCount } from "./run/model.js";

const STANDS_MS = 1500; // before anything moves
const [BEFORE_MS, TILE_MS, AFTER_MS] = [3000, 17_000, 5000];
const [FAST, SLOW] = [20, 0.2]; // tiles per second, as they are seen
const BEFORE =
  "Standard attention writes all scores to HBM and reads them back. " +
  "Here a tile of them is made on the chip, used and dropped.";
const AFTER = "The same for all other tiles. O of a row goes to HBM once, after its last tile.";

const evenly = (part) => part;
const brake = (part) => FAST * (SLOW / FAST) ** smooth(within(part, 0.75, 1));

export function overtureOf(model) {
  const last = model.phaseStart[model.count];
  const good = goodTile(model);
  const [first, next] = [good, good + 1].map((step) => model.phaseStart[step]);
  return [
    { from: 0, to: 0, ms: STANDS_MS, rate: () => FAST, says: BEFORE },
    { from: 0, to: first, ms: BEFORE_MS, rate: brake, says: BEFORE },
    { from: first, to: next, ms: TILE_MS, rate: () => SLOW, shape: evenly },
    { from: next, to: last, ms: AFTER_MS, rate: (part) => brake(1 - part), says: AFTER },
  ];
}

// A tile in which old sums of many rows shrink by about half; without such sums one past the first third.
export function goodTile(model) {
  let [best, most] = [Math.floor(model.count * 0.4), 0];
  for (let step = 0; step < model.count; step++) {
    if (!hasTile(model, step) || !model.values.alpha) continue;
    const told = range(rowCount(model, model.q[step])).filter((row) => {
      const state = softmaxState(model, step, row);
      return state && state.oldL > 0 && state.alpha > 0.2 && state.alpha < 0.85;
    });
    if (told.length > most) [best, most] = [step, told.length];
  }
  return best;
}
