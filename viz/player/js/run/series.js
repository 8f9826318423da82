// The curves beside the grid, by the names of an entry's `series`: state of a row or of a tile, step by step.
// `changes` tells the phase of a step in which the value becomes what was recorded after the step.

import { tellingRow } from "./figure.js";
import { range, stepsOfTile, tileNumber, valueAt } from "./model.js";

const makes = (name) => (phase) => phase.makes.includes(name);
const rescales = (phase) => phase.rescales;
const showsShare = (phase) => phase.shows === "share";

const distance = (name, color) => ({
  name: `|${name} − final|`,
  title: `distance of ${name} so far from the final one`,
  color,
  changes: makes(name),
});
const share = (name, title, color) => ({ name, title, color, range: [0, 1], changes: showsShare });
const sumOf = (key, name, title) => ({ name, title, color: "state", range: [0, 1], sumOf: key });

export const SERIES = {
  m: { name: "m", title: "row max", color: "state", changes: makes("m") },
  l: { name: "l", title: "row sum", color: "state", changes: makes("l") },
  alpha: { name: "α", title: "rescale factor", color: "state", range: [0, 1], changes: rescales },
  distance: distance("O", "output"),
  share: share("P", "this tile's part of the row of P", "muted"),
  shares: sumOf("share", "Σ P", "the row of P so far"),
  weight: share("weight", "exp(lse of the part − lse)", "state"),
  weights: sumOf("weight", "Σ weight", "all weights so far"),
  dQ: distance("dQ", "query"),
  dK: distance("dK", "key"),
  dV: distance("dV", "value"),
};

// The series of a kernel that were recorded: of which value, whether per tile or on a log scale. If sums
// of a key tile are among them, they alone: the others are of a row.
export function recordedSeries(model, kernel) {
  const { series } = model.kernels[kernel];
  const all = series.flatMap((name) => {
    const value = SERIES[name].sumOf ?? name;
    const sent = model.values[value];
    const { scale, per_tile: perTile } = sent ?? {};
    const { changes } = SERIES[value];
    return sent ? [{ ...SERIES[name], changes, key: name, value, log: scale === "log", perTile }] : [];
  });
  return areOfKeys(model, kernel) ? all.filter(({ perTile }) => perTile) : all;
}

// Whether a kernel adds sums of a key tile up, which belong to no row.
export function areOfKeys(model, kernel) {
  const { series, stays } = model.kernels[kernel];
  return stays === "kv_tile" && series.some((name) => model.values[name]?.per_tile);
}

// The row that the curves show, and the steps that changed it: those of its query tile in the kernel at hand.
export function shownRow(model, at, pinned) {
  const step = at.step >= 0 ? at.step : at.started ? model.count - 1 : 0;
  const head = pinned?.head ?? model.head[step];
  const q = pinned?.q ?? Math.max(model.q[step], 0);
  const row = pinned?.row ?? tellingRow(model, step);
  return { head, q, row, steps: stepsOfTile(model, at.kernel, head, q), step };
}

// The steps of a series (of the row shown, or of the turn for a value of the tile), its values (of a sum what
// it has grown to), the index of the last one that is known, and of which tile that is, in words.
export function curveOf(model, series, at, shown) {
  const turn = () => range(model.turnLast[shown.step] + 1, model.turnFirst[shown.step]);
  const steps = series.perTile ? turn() : shown.steps;
  const own = steps.map((step) => valueAt(model, series.value, step, shown.row));
  let total = 0;
  const values = series.sumOf ? own.map((value) => (total += value)) : own;
  const current = lastKnown(model, series, at, steps);
  return { steps, values, current, whose: whoseWords(model, series, at, steps, current) };
}

// How far a series has come: the index of its last step whose value is known, -1 before the first.
export function lastKnown(model, series, at, steps) {
  const unknown = steps.findIndex((step) => !isKnown(model, series, at, step));
  return (unknown < 0 ? steps.length : unknown) - 1;
}

// " after tile 3", if the last known value is of an earlier tile than the one in progress.
function whoseWords(model, series, at, steps, last) {
  if (last < 0 || at.step < 0 || steps[last] === at.step || !steps.includes(at.step)) return "";
  const isOfKeys = series.perTile && model.kernels[at.kernel].stays === "kv_tile";
  const tile = isOfKeys ? tileNumber(model, model.q[steps[last]]) : model.kv[steps[last]];
  return tile < 0 ? "" : ` after tile ${tile}`;
}

function isKnown(model, series, at, step) {
  if (at.isDone(step)) return true;
  if (step !== at.step) return false;
  const phases = model.phases[step];
  return !phases.slice(phases.indexOf(at.phase) + 1).some(series.changes);
}
