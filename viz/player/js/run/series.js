// The curves beside the code, by the names of an entry's `series`: the state of one row, step by step.
// `changes` tells the phase of a step in which the value becomes what was recorded after the step.

import { tellingRow } from "./figure.js";
import { stepsOfTile, valueAt } from "./model.js";

const makes = (name) => (phase) => phase.makes.includes(name);
const rescales = (phase) => phase.rescales;

const SERIES = {
  m: { value: "m", name: "m", title: "row max", changes: makes("m") },
  l: { value: "l", name: "l", title: "row sum", changes: makes("l") },
  alpha: { value: "alpha", name: "α", title: "rescale factor", range: [0, 1], changes: rescales },
};

// The series of a kernel that were recorded.
export function recordedSeries(model, kernel) {
  const known = model.kernels[kernel].series.filter((name) => model.values[name]);
  return known.map((name) => SERIES[name]);
}

// The row that the curves show, and the steps that changed it: those of its query tile in the kernel at hand.
export function shownRow(model, at, pinned) {
  const step = at.step >= 0 ? at.step : at.started ? model.count - 1 : 0;
  const head = pinned?.head ?? model.head[step];
  const q = pinned?.q ?? Math.max(model.q[step], 0);
  const row = pinned?.row ?? tellingRow(model, step);
  return { head, q, row, steps: stepsOfTile(model, at.kernel, head, q) };
}

// The values of a series, and the index of the last one that is known, -1 before the first.
export function curveOf(model, series, at, { steps, row }) {
  const values = steps.map((step) => valueAt(model, series.value, step, row));
  const unknown = steps.findIndex((step) => !isKnown(model, series, at, step));
  return { values, current: (unknown < 0 ? steps.length : unknown) - 1 };
}

function isKnown(model, series, at, step) {
  if (at.isDone(step)) return true;
  if (step !== at.step) return false;
  const phases = model.phases[step];
  return !phases.slice(phases.indexOf(at.phase) + 1).some(series.changes);
}
