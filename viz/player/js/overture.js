// What a first visitor sees: the whole run once, then back to one good tile, and its trip slowly.

import { lerp } from "./run/easing.js";
import { softmaxState } from "./run/figure.js";
import { hasTile, range, rowCount } from "./run/model.js";

const WHOLE_MS = 3600;
const STANDS_MS = 1900;
const BACK_MS = 1500;
const TILE_MS = 8500;
const ROW_MS = 2600; // of each tile that follows in its row
const [FAR, NEAR] = [20, 0.2]; // tiles per second, as they are seen

const far = () => FAR;
// The camera comes down from the map to the chip.
const comes = (part) => FAR * (NEAR / FAR) ** Math.max(0, part * 2 - 1);
const evenly = (part) => part;

// The acts for transport.js, from the start of the run.
export function overtureOf(model) {
  const last = model.phaseStart[model.count];
  const good = goodTile(model);
  const [first, next] = [good, good + 1].map((step) => model.phaseStart[step]);
  const ends = model.turnLast[good] + 1;
  return [
    { from: 0, to: last, ms: WHOLE_MS, rate: far },
    { from: last, to: last, ms: STANDS_MS, rate: far },
    { from: last, to: first, ms: BACK_MS, rate: comes },
    { from: first, to: next, ms: TILE_MS, rate: () => NEAR, shape: evenly },
    {
      from: next,
      to: model.phaseStart[ends],
      ms: ROW_MS * (ends - good - 1) + 1,
      rate: (part) => lerp(NEAR, 1, part),
      shape: evenly,
    },
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
