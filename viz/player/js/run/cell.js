// How a number of a tile was made: the terms of a product, or the numbers that it was made of.

import { matricesIn } from "./bench.js";
import { figureOf, lineOf, matrixNamed } from "./figure.js";
import { formatSteady } from "./formats.js";

const TERMS = 6; // of a dot product that are written out

export function shownIn(model, figure, at) {
  return Object.fromEntries(figure.slots.map((one) => [one.name, matricesIn(model, figure, one, at)?.now]));
}

// "scores: 0.602 = 0.250 × (1.20 × −0.310 + …) = ": the number in a cell {slot, row, column}; "" if none is.
export function cellWords(model, at, { slot, row, column }) {
  const figure = figureOf(model, at.step);
  const shown = shownIn(model, figure, at);
  const matrix = shown[slot];
  const value = matrix && row < matrix.rows && column < matrix.columns ? matrix.at(row, column) : NaN;
  if (Number.isNaN(value)) return "";
  const result = `${matrix.label}${placeWords(model, figure, at, { slot, column })}: ${formatSteady(value)}`;
  const lines = factorLines(model, at, { slot, row, column });
  const factors = lines.map(({ slot: name, by, index }) => lineOf(shown[name], by, index));
  if (factors.length && value !== -Infinity)
    return `${result}${termWords(factors, value, model.data.problem.scale)}`;
  return result + partWords(model, at, matrix, { row, column });
}

// Of a row of a large tile: which key, or which column.
function placeWords(model, figure, at, { slot, column }) {
  if (model.matrixRow === null) return "";
  const { columns } = figure.slots.find(({ name }) => name === slot);
  const first = Math.max(model.kv[at.step], 0) * model.data.problem.block_n;
  return columns === "kv_tile" ? `, key ${first + column}` : `, column ${column}`;
}

// The lines of the factors that a product of this step made a cell of: [{slot, by, index}]; else none.
export function factorLines(model, at, { slot, row, column }) {
  const figure = figureOf(model, at.step);
  const shown = shownIn(model, figure, at);
  const { phase, step } = shown[slot] ?? {};
  const product = figure.products.find((each) => each.result === slot && each.phase === phase);
  if (!product || step !== at.step || model.matrixRow !== null) return [];
  const first = { slot: product.first, by: product.first_by, index: row };
  const second = { slot: product.second, by: product.second_by, index: column };
  return shown[first.slot] && shown[second.slot] ? [first, second] : [];
}

function termWords([first, second], value, scale) {
  const terms = first.slice(0, TERMS).map((each, i) => `${formatSteady(each)} × ${formatSteady(second[i])}`);
  const rest = first.length > TERMS ? ` + … (${first.length} terms)` : "";
  const dot = first.reduce((sum, each, i) => sum + each * second[i], 0);
  const sum = `${terms.join(" + ")}${rest} = ${formatSteady(dot)}`;
  const isNear = (one, part) => Math.abs(one - value) < part * Math.max(1, Math.abs(value));
  if (scale !== 1 && isNear(dot * scale, 1e-3)) return ` = ${formatSteady(scale)} × (${sum})`;
  return isNear(dot, 1e-2) ? ` = ${sum}` : `; this tile adds ${sum}`;
}

// ", from score −0.602 and lse 4.10": what an element was made of.
function partWords(model, at, { made_of: names }, { row, column }) {
  const parts = names.flatMap((name) => {
    const part = matrixNamed(model, name, at.step);
    const value = part?.at(row, part.columns === 1 ? 0 : column);
    return part ? [`${part.scaled ? "score" : name} ${formatSteady(value)}`] : [];
  });
  return parts.length ? `, from ${parts.join(", ")}` : "";
}
