// The numbers of a tile step: which matrix stands in which slot of the kernel's figure, a row's state.

import { hasTile, once, range, rowCount, rowNumber, stepsOfTile, sum } from "./model.js";
import { tileNumber, valueAt } from "./model.js";

const MOST_TELLING = 0.9; // α of a row that is told: a larger one is not seen to shrink anything

export function figureOf(model, step) {
  const { figure, phases } = model.kernels[model.kernel[step]] ?? {};
  return figure && step >= 0 && (hasTile(model, step) || !phases[1].length) ? figure : null;
}

// Whether the numbers of a drawn row were recorded: of small tiles all, of large ones a picked row at most.
export const knowsRow = (model, row) =>
  model.hasMatrices && (model.matrixRow === null || model.offsets[row] === model.matrixRow);

// A recorded matrix of a step: its rows and columns that exist, and `at(row, column)`.
export function matrixOf(model, figure, matrix, step) {
  const sent = model.matrices[matrix.name];
  if (!sent) return null;
  const slot = figure.slots.find(({ name }) => name === matrix.slot);
  const start = step * sent.rows * sent.columns;
  const factor = matrix.scaled ? model.data.problem.scale : 1;
  const isOfRow = model.matrixRow !== null && slot.rows === "q_tile"; // the others are not recorded
  const placeOf = (row) => (isOfRow ? (row === model.matrixRow ? 0 : NaN) : row * sent.columns);
  return {
    ...matrix,
    step,
    rows: Math.min(isOfRow ? Infinity : sent.rows, extent(model, slot.rows, step)),
    columns: Math.min(sent.columns, extent(model, slot.columns, step)),
    at: (row, column) => factor * (sent.values[start + placeOf(row) + column] ?? NaN),
  };
}

const larger = (most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most);

// The largest number of a matrix over the whole run, so that colours mean the same in every step.
export function largestOf(model, { name, scaled }) {
  const most = once(model, name, () => model.matrices[name].values.reduce(larger, 1e-9));
  return scaled ? most * model.data.problem.scale : most;
}

export function extent(model, what, step) {
  const { rows, block_m, kv_len: keys, block_n, head_dim: width } = model.data.problem;
  if (what === "q_tile") return Math.min(block_m, rows - tileNumber(model, model.q[step]) * block_m);
  if (what === "kv_tile") return model.kv[step] < 0 ? 0 : Math.min(block_n, keys - model.kv[step] * block_n);
  return what === "head_dim" ? width : 1;
}

// The step whose state this one goes on with; -1 if it starts anew.
export function stepBefore(model, step) {
  const kernel = model.kernel[step];
  const keepsKeys = model.kernels[kernel].stays === "kv_tile";
  const steps = stepsOfTile(model, kernel, model.head[step], model.q[step]);
  const before = steps[steps.indexOf(step) - 1] ?? -1;
  if (before < 0 || !hasTile(model, before)) return -1;
  const sameTurn = model.turnFirst[before] === model.turnFirst[step];
  return sameTurn || (keepsKeys && !model.kernels[kernel].splits_keys) ? before : -1;
}

// The step before in the same turn, where the sums of what stays were left; -1 if it is the first.
export function stepOfTurnBefore(model, step) {
  const before = step - 1;
  return before >= model.turnFirst[step] && hasTile(model, before) ? before : -1;
}

// m, l and alpha of a drawn row before and after a step; null if the kernel has no online softmax.
export function softmaxState(model, step, row) {
  const [m, l, alpha] = ["m", "l", "alpha"].map((name) => valueAt(model, name, step, row));
  if (alpha === null || !Number.isFinite(l)) return null;
  const before = stepBefore(model, step);
  const [oldM, oldL] =
    before < 0 ? stateAtStart(model, step) : ["m", "l"].map((name) => valueAt(model, name, before, row));
  return { oldM, oldL, m, l, alpha, lse: m + Math.log(l) };
}

// lse of the part that a step merges: m + ln l after its last tile, in the kernel that made it.
export function lseOfPart(model, step, row) {
  const steps = stepsOfTile(model, 0, model.head[step], model.q[step]);
  const last = steps.findLast((i) => model.kv[i] >= model.kv[step] && model.kv[i] < model.kvEnd[step]);
  return softmaxState(model, last, row)?.lse ?? -Infinity;
}

// m and l before the first tile: a sink was seen, a key that has no value.
function stateAtStart(model, step) {
  const { sinks } = model.data.problem;
  return sinks ? [sinks[model.head[step] % sinks.length], 1] : [-Infinity, 0];
}

// How much of a row was seen before a step and after it, where that is known at once: of its weights, or of
// the weights of its parts. null if the kernel has no such value.
export function seenShares(model, at, row) {
  const { bars } = model.kernels[at.kernel];
  if (!model.values[bars] || bars === "l" || model.q[at.step] < 0) return null;
  const steps = stepsOfTile(model, at.kernel, at.head, model.q[at.step]);
  const shares = steps.map((step) => valueAt(model, bars, step, row) || 0);
  const now = steps.indexOf(at.step);
  return [now, now + 1].map((end) => Math.min(1, sum(shares.slice(0, end))));
}

// Rows whose old sums are seen to shrink in a step.
export function shrinkingRows(model, step) {
  return range(rowCount(model, model.q[step])).filter((row) => {
    const state = softmaxState(model, step, row);
    return state && state.oldL > 0 && state.alpha < MOST_TELLING && state.alpha > 1 - MOST_TELLING;
  });
}

// The second tile of a row in which old sums of most rows shrink, or any second tile.
export function goodTile(model) {
  const second = range(model.count).filter((step) => step === model.turnFirst[step] + 1);
  const shrinks = (step) => shrinkingRows(model, step).length;
  return second.reduce((best, step) => (shrinks(step) > shrinks(best) ? step : best), second[0] ?? 0);
}

// The drawn row that a query tile is told for: whose old sums shrink most often, whose word is there once.
export function tellingRow(model, step) {
  const q = model.q[step];
  if (q < 0) return 0;
  const steps = stepsOfTile(model, model.kernel[step], model.head[step], q);
  return once(steps, "telling row", () => {
    const rows = range(rowCount(model, q));
    const shrinks = steps.flatMap((each) => shrinkingRows(model, each));
    const numberOf = (row) => rowNumber(model, { q, row }) % model.data.problem.q_len;
    const words = rows.map((row) => model.data.words?.[0][numberOf(row)] ?? `row ${row}`);
    const isOwn = (word) => /^\p{L}/u.test(word) && words.filter((each) => each === word).length === 1;
    const telling = (word, row) => isOwn(word) * (1 + shrinks.filter((each) => each === row).length);
    const counts = words.map(telling);
    return counts.indexOf(Math.max(...counts));
  });
}

// The drawn row that a step is told for: the picked one if it is there, else the recorded, else the best.
export function toldRow(model, step, pinned) {
  if (pinned && pinned.q === model.q[step] && pinned.head === model.head[step]) return pinned.row;
  const known = model.matrixRow === null || model.q[step] < 0 ? -1 : model.offsets.indexOf(model.matrixRow);
  return known >= 0 && known < rowCount(model, model.q[step]) ? known : tellingRow(model, step);
}

// The step whose tile is opened at step `from`: of a picked row the one at the same key tile, or the nearest;
// without one, `from` or the next that has a figure. -1 if there is none.
export function stepToOpen(model, from, pinned) {
  const isOpenable = (step) => figureOf(model, step) !== null;
  const isOfRow = (step) => model.q[step] === pinned.q && model.head[step] === pinned.head;
  const steps = range(model.count).filter(isOpenable);
  if (!pinned) return steps.find((step) => step >= from) ?? steps.at(-1) ?? -1;
  if (isOpenable(from) && isOfRow(from)) return from;
  const far = (step) => {
    const [kernel, key] = [model.kernel[step] !== model.kernel[from], model.kv[step] !== model.kv[from]];
    return (2 * kernel + key) * model.count + Math.abs(step - from);
  };
  return steps.filter(isOfRow).reduce((best, step) => (best < 0 || far(step) < far(best) ? step : best), -1);
}

export function matrixNamed(model, name, step) {
  const figure = figureOf(model, step);
  const named = figure?.matrices.find((each) => each.name === name);
  return named ? matrixOf(model, figure, named, step) : null;
}

// The numbers of a drawn row in the matrix of that name; null if they were not recorded.
export function rowNamed(model, name, step, row) {
  const matrix = matrixNamed(model, name, step);
  const values = matrix && model.offsets[row] < matrix.rows ? rowOf(matrix, model.offsets[row]) : [];
  return values.every(Number.isNaN) ? null : values; // of a row that was not recorded all is NaN
}

export const nameOfScores = ({ phases }, step) =>
  phases[step].some(({ tells }) => tells === "mask") ? "S" : "QK^T";

// The scores of a drawn row, those that the mask hides as -Infinity.
export const scoresOf = (model, step, row) => rowNamed(model, nameOfScores(model, step), step, row);

export const rowOf = (matrix, row) => range(matrix.columns).map((column) => matrix.at(row, column));

export const lineOf = (matrix, by, at) =>
  by === "row" ? rowOf(matrix, at) : range(matrix.rows).map((each) => matrix.at(each, at));
