// The curves beside the grid, by the names of an entry's `series`: state of a row or of a tile, step by step.

import { stepsOfTile, valueAt } from "./model.js";

export const SERIES = {
  m: { name: "m", title: "row max", color: "state" },
  l: { name: "l", title: "row sum", color: "state" },
  alpha: { name: "α", title: "rescale factor", color: "state", range: [0, 1] },
  distance: { name: "|O − O_final|", title: "distance of O so far from the final one", color: "output" },
  share: { name: "P", title: "this tile's part of the row of P", color: "muted", range: [0, 1] },
  shares: { name: "Σ P", title: "the row of P so far", color: "state", range: [0, 1], sumOf: "share" },
  weight: { name: "weight", title: "exp(lse of the part − lse)", color: "state", range: [0, 1] },
  weights: { name: "Σ weight", title: "all weights so far", color: "state", range: [0, 1], sumOf: "weight" },
  dQ: { name: "|dQ − final|", title: "distance of dQ so far from the final one", color: "query" },
  dK: { name: "|dK − final|", title: "distance of dK so far from the final one", color: "key" },
  dV: { name: "|dV − final|", title: "distance of dV so far from the final one", color: "value" },
};

// The series of a kernel that were recorded: of which value, whether per tile, whether on a log scale.
export function recordedSeries(model, kernel) {
  return model.kernels[kernel].series.flatMap((name) => {
    const value = SERIES[name].sumOf ?? name;
    const sent = model.values[value];
    const { scale, perTile } = sent ?? {};
    return sent ? [{ ...SERIES[name], key: name, value, log: scale === "log", perTile }] : [];
  });
}

// The row that the curves show, and the steps that changed it: those of its query tile in the kernel at hand.
export function shownRow(model, at, pinned) {
  const step = at.step >= 0 ? at.step : at.started ? model.count - 1 : 0;
  const head = pinned?.head ?? model.head[step];
  const q = pinned?.q ?? Math.max(model.q[step], 0);
  return { head, q, row: pinned?.row ?? 0, steps: stepsOfTile(model, at.kernel, head, q), step };
}

// Steps of a series: those of the row shown, or those of the turn in progress for a value of the whole tile.
export function stepsOfSeries(model, series, shown) {
  if (!series.perTile) return shown.steps;
  const [first, last] = [model.turnFirst[shown.step], model.turnLast[shown.step]];
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

// Values of a series over steps; of a sum, what it has grown to.
export function seriesValues(model, series, steps, row) {
  let sum = 0;
  return steps.map((step) => {
    const value = valueAt(model, series.value, step, row);
    sum += value;
    return series.sumOf ? sum : value;
  });
}
