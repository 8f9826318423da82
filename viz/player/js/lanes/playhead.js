// From where a player stands to tiles of the lanes, and back.

import { hasTile, range, stepsAbout, tileNumber } from "../run/model.js";

// The tiles that a player works on, each with its kernel: of the step that it stands at, or of all that are
// under way at a moment.
export function tilesAt(timeline, at) {
  const { model, moments } = timeline;
  if (at.step >= 0) return tilesOfStep(model, at.step, at.phase);
  if (at.time === undefined || !at.started || at.finished) return [];
  const isUnderWay = (i) => moments.start[i] <= at.time && at.time < moments.end[i];
  return range(model.count)
    .filter((i) => isUnderWay(i) && hasTile(model, i))
    .flatMap((i) => tilesOfStep(model, i));
}

function tilesOfStep(model, step, phase = null) {
  const kernel = model.kernels[model.kernel[step]].name;
  const [head, q] = [model.head[step], tileNumber(model, model.q[step])];
  const keys = range(model.kvEnd[step], model.kv[step]);
  const whole = phase?.stores.length ? [-1] : []; // what is about the query tile alone
  return [...keys, ...whole].map((kv) => ({ kernel, head, q, kv }));
}

// The position of a player in that phase of the step about a tile, or after the step if it has no such phase;
// -1 if no step is about the tile. What is about a query tile alone is in its first or its last step. If a
// kernel of the run is named, only its steps count.
export function positionOf(model, { head, q, kv }, phase, named = "") {
  const own = model.kernels.findIndex(({ name }) => name === named);
  const kernels = own < 0 ? [...model.kernels.keys()] : [own];
  const tile = { head, q: model.tileNumbers.indexOf(q), kv };
  const isInPhase = (i) => model.phases[i].some(({ name }) => name === phase);
  const steps = kernels.flatMap((kernel) => stepsAbout(model, kernel, tile));
  if (!steps.length) return -1;
  const step = steps.find(isInPhase) ?? steps.at(-1);
  const number = model.phases[step].findIndex(({ name }) => name === phase);
  return model.phaseStart[step] + (number < 0 ? model.phases[step].length : number + 1);
}
