// What a first visitor sees: the whole run once, then back to one good tile, and its trip slowly.

import { lerp } from "./run/easing.js";
import { softmaxState } from "./run/figure.js";
import { hasTile, range, rowCount } from "./run/model.js";

const WHOLE_MS = 3400;
const STANDS_MS = 2000;
const FADES_MS = 1300;
const TILE_MS = 17_000;
const ROW_MS = 3000; // of each tile that follows in its row
const BEGUN = 1e-3; // of a phase
const [FAST, SLOW] = [20, 0.2]; // tiles per second, as they are seen
const WHOLE =
  "The whole run, once: tiles of queries Q, keys K and values V come to the chip. Only O goes back.";
const SLOWLY = "Back in time, to one tile: slowly now.";
const ROW = "The same for the next keys: m, l and O stay on the chip.";

const fast = () => FAST;
const slow = () => SLOW;
const evenly = (part) => part;

export function overtureOf(model) {
  const last = model.phaseStart[model.count];
  const good = goodTile(model);
  const [first, next] = [good, good + 1].map((step) => model.phaseStart[step]);
  const begun = first + BEGUN; // so that its frame and its row are seen, and not those of the step before
  const ends = model.turnLast[good] + 1;
  const tiles = { from: next, to: model.phaseStart[ends], ms: ROW_MS * (ends - good - 1) + 1 };
  return [
    { from: 0, to: last, ms: WHOLE_MS, rate: fast, says: WHOLE },
    { from: last, to: last, ms: STANDS_MS, rate: fast },
    { from: begun, to: begun, ms: FADES_MS, rate: slow, says: SLOWLY, ghost: (part) => 1 - part },
    { from: first, to: next, ms: TILE_MS, rate: slow, shape: evenly },
    { ...tiles, rate: (part) => lerp(SLOW, 1, part), shape: evenly, says: ROW },
  ];
}

// A tile in which old sums of many rows shrink by about half; of a run without such sums one past its first
// third.
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
