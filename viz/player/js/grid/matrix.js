// A matrix on the chip. Of recorded numbers: between what it was and what the phase makes of it; those
// that are written are never between two. Of others: whether the data are there, and how much of them.

import { fillBox, inkOn, mixed, shareColor, text } from "./draw.js";
import { formatNumber } from "../run/formats.js";
import { sidesOf } from "./layout.js";
import { clamp, lerp, smooth } from "../run/easing.js";
import { visiblePath } from "./map.js";
import { figureOf, seenShares, softmaxState } from "../run/figure.js";
import { adds, finishOf, isSquare, progressIn, progressOfPhase, roleOf, slotOf } from "../run/bench.js";
import {
  KIND,
  once,
  range,
  rowAbove,
  rowBox,
  rowCount,
  rowsOfTile,
  stepsOfTile,
  tileKind,
  valueAt,
} from "../run/model.js";

const [SMALLEST, SOURCE, LARGEST] = [9.9, 10.3, 17]; // of a number, and of one that another is made of
const WAVE = 0.11; // of a row: how much later the next column of a product appears
const ABOVE = 0.47; // of a cell, for the number that the one below is made of
const USED = 0.3; // how strong a tile is drawn that nothing needs any more

export function drawMatrix(context, slot, box, how) {
  const { now, old, part, phase, beside, held, used, last, model, palette, strong } = how;
  const role = phase ? roleOf(phase) : "";
  if (role === "move" && part < 1) return; // it is on its way
  const square = isSquare(slot);
  if (square && used === 1) return; // it was used up, and never leaves the chip
  const { only = null } = how;
  const [down, across] = countsOf(model, slot, only);
  const [cw, ch] = [box.w / across, box.h / down];
  const colorOf = colorsOf(slot, how);
  const isSpent = square && last && roleOf(last) === "product";
  const size = Math.min(LARGEST, cw / 3.3, ch * 0.8);
  const hasRoom = size >= SMALLEST && strong === 1;
  const hasBoth = square && hasRoom && beside > 0 && ch >= 2.2 * SOURCE;
  const gap = hasBoth ? 2 : Math.min(cw, ch) > 5 ? 1 : 0;
  const alpha = (square ? 1 : held) * (used === 1 ? USED : 1) * strong;
  for (let i = 0; i < down; i++) {
    for (let j = 0; j < across; j++) {
      const [r, c] = slot.transposed ? [j, i] : [only ?? i, j];
      if ((only === null && r >= now.rows) || c >= now.columns) continue;
      const come = comes(role, part, { i, j, down, across });
      const scale = (old || !role ? 1 : come) * (isSpent ? left(used, j, across) : 1);
      if (scale < 0.04) continue;
      const [was, value] = [old ? old.at(r, c) : NaN, now.at(r, c)];
      const before = old && colorOf(old, was);
      const color = old && come < 1 ? mixed(before, colorOf(now, value), clamp(come)) : colorOf(now, value);
      const [w, h] = [(cw - gap) * scale, (ch - gap) * scale];
      const [x, y] = [box.x + (j + 0.5) * cw - gap / 2 - w / 2, box.y + (i + 0.5) * ch - gap / 2 - h / 2];
      const top = hasBoth ? ABOVE * beside * smooth(2 * come) * h : 0; // what it is made of stays above it
      const write = hasRoom && scale >= 0.8 ? Math.min(size, (h - top) * 0.86) : 0;
      const isNew = come > 0.5 || !old;
      const shown = isNew ? value : top ? NaN : was;
      drawCell(context, { x, y: y + top, w, h: h - top }, color, shown, { palette, alpha, size: write });
      if (top) drawCell(context, { x, y, w, h: top }, before, was, { palette, alpha, size: SOURCE });
    }
  }
  if (square && role === "product" && part < 1 && strong > 0.5) {
    const front = { x: box.x - 4, y: box.y + part * box.h - 1, w: box.w + 8, h: 2 };
    fillBox(context, palette.query, front, 0.9);
  }
}

function drawCell(context, box, color, value, { palette, alpha, size }) {
  fillBox(context, color, box, alpha);
  if (size < SMALLEST || box.h < size || Number.isNaN(value)) return;
  const style = { size, align: "center" };
  const words = formatNumber(value, 2);
  text(context, words, box.x + box.w / 2, box.y + box.h / 2, inkOn(color, palette), style);
}

// Rows and columns of a slot's tile, as they are drawn; `only` is a row that is drawn alone.
export function countsOf(model, slot, only = null) {
  const { block_n: keys, head_dim: width } = model.data.problem;
  const sizes = { q_tile: only === null ? rowsOfTile(model) : 1, kv_tile: keys, head_dim: width, one: 1 };
  return sidesOf(slot).map((side) => sizes[side]);
}

// How far a cell has come: a product goes row by row, exponentials go column by column.
function comes(role, part, { i, j, down, across }) {
  if (role === "product") return smooth(part * (down + 1 + WAVE * across) - i - WAVE * j);
  if (role === "mask") return smooth(part * (down + 1) - i);
  if (["exponentials", "elements"].includes(role)) return smooth(part * 2 - j / across);
  return smooth(part);
}

// What is left of a cell in a column that a product uses up.
const left = (used, column, columns) => 1 - smooth((used * (columns + 2) - column - 0.6) / 1.6);

// The colour of a number: weights from the scale, scores and gradients by sign, tensors in their own colour.
function colorsOf(slot, { palette, model }) {
  const base = palette.surface;
  const color = palette[slot.color];
  const pale = mixed(base, color, 0.14);
  return (matrix, value) => {
    if (value === -Infinity) return palette.hidden;
    if (slot.name === "S" && !matrix.scaled) return shareColor(palette, value);
    const part = value / largestOf(model, matrix);
    if (isSquare(slot))
      return mixed(base, part < 0 ? palette.cold : palette.warm, clamp(Math.abs(part)) ** 0.7);
    return mixed(pale, color, clamp(0.5 + 0.8 * part) ** 1.4);
  };
}

const larger = (most, value) => (Number.isFinite(value) ? Math.max(most, Math.abs(value)) : most);

// The largest number of a matrix over the whole run, so that colours mean the same in every step.
function largestOf(model, { name, scaled }) {
  const most = once(model, name, () => model.matrices[name].values.reduce(larger, 1e-9));
  return scaled ? most * model.data.problem.scale : most;
}

// A running sum as one row of bars per row of the tile: it shrinks by alpha, grows by what is added, and is
// divided by l at the end. Between two recorded states the bars are between them too.
export function drawSum(context, slot, box, { now, old, part, phase, held, model, palette, at, strong }) {
  const [down, across] = countsOf(model, slot);
  const [cw, ch] = [box.w / across, box.h / down];
  const largest = largestOfRows(model, slot, at);
  const divided = smooth(finishOf(model, at) * 2);
  const color = palette[slot.color];
  for (let r = 0; r < now.rows; r++) {
    const middle = box.y + (r + 0.5) * ch;
    fillBox(context, palette.line, { ...box, y: middle - 0.5, h: 1 }, 0.6 * strong);
    const unit = (ch / 2 - 0.4) / largest[r];
    const l = softmaxState(model, at.step, rowAbove(model, r))?.l || 1;
    const factor = divided ? lerp(1, 1 / l, divided) : 1;
    const bar = (c, size, alpha) => {
      const high = clamp(size * unit, -ch / 2, ch / 2);
      const top = Math.min(middle, middle - high);
      const w = Math.max(cw - 0.6, 0.5);
      fillBox(context, color, { x: box.x + c * cw, y: top, w, h: Math.abs(high) }, alpha);
    };
    for (let c = 0; c < now.columns; c++) {
      const [from, to] = [old ? old.at(r, c) : 0, now.at(r, c)];
      if (phase?.rescales && old && part < 1) bar(c, from, 0.25 * strong); // what it was
      bar(c, lerp(from, to, smooth(part)) * factor, strong * held);
    }
  }
}

// The largest number of each row of a sum, in all steps that add to it.
function largestOfRows(model, slot, at) {
  const [q, kv] = [model.q[at.step], model.kv[at.step]];
  const isOfRows = slot.rows === "q_tile";
  return once(model, `${slot.name}|${at.kernel}|${at.head}|${isOfRows ? q : `kv ${kv}`}`, () => {
    const { matrices } = figureOf(model, at.step);
    const { name } = matrices.find((each) => each.slot === slot.name && each.is_field);
    const { rows, columns, values } = model.matrices[name];
    const turn = range(model.turnLast[at.step] + 1, model.turnFirst[at.step]);
    const steps = isOfRows ? stepsOfTile(model, at.kernel, at.head, q) : turn;
    const most = new Float64Array(rows).fill(1e-9);
    for (const step of steps) {
      const own = values.subarray(step * rows * columns, (step + 1) * rows * columns);
      own.forEach((value, i) => {
        const r = Math.floor(i / columns);
        if (Number.isFinite(value)) most[r] = Math.max(most[r], Math.abs(value));
      });
    }
    return most;
  });
}

const FULL = 0.75; // how strong a tensor's colour is

export function drawBlock(context, slot, box, how) {
  const { model, palette, at, strong, held, used, last } = how;
  if (held <= 0) return;
  if (isSquare(slot)) {
    if (used < 1) drawSquare(context, slot, box, how);
    return;
  }
  const kernel = model.kernels[at.kernel];
  const isSum = ({ needs, makes }) => needs.includes(slot.name) && makes.includes(slot.name);
  if (kernel.phases[1].some(isSum)) {
    drawSumOfRows(context, slot, box, how, isSum);
    return;
  }
  const come = progressOfPhase(model, at, ({ loads }) => loads.includes(slot.name), 1);
  if (held < 1 && come < 1) return; // it is on its way
  const isGiven = used === 1 || (last && used > 0 && adds(last, slot)); // it is seen on its way
  fillBox(context, palette[slot.color], box, (isGiven ? 0.25 : FULL) * held * strong);
}

// Scores come from the top, weights from the left in the colour of their share; the product uses them up.
function drawSquare(context, slot, box, { model, palette, at, strong, used, last }) {
  const fills = ({ makes, loads, needs }) =>
    [...(needs.length ? makes : []), ...loads].some((name) => slotOf(name) === slot.name);
  const showsWeights = ({ shows }) => slot.name === "S" && shows === "share";
  const gone = last && roleOf(last) === "product" ? used * box.w : 0;
  const made = progressOfPhase(model, at, fills, 1);
  const rest = { ...box, x: box.x + gone };
  fillBox(context, palette.plain, { ...rest, w: box.w - gone, h: box.h * made }, 0.5 * strong);
  const weights = progressOfPhase(model, at, showsWeights, 0) * box.w;
  const color = shareColor(palette, model.tileShare[at.step] / model.scaleShare);
  fillBox(context, color, { ...rest, w: weights - gone }, strong);
  const isCut = tileKind(model, at.step) === KIND.partial && gone === 0;
  const mask = isCut ? progressIn(model, at, "mask", 1) : 0;
  if (mask > 0) shadeHidden(context, model, at, box, { palette, mask, strong });
}

function shadeHidden(context, model, at, box, { palette, mask, strong }) {
  context.save();
  context.beginPath();
  context.rect(box.x, box.y, box.w, box.h * mask);
  context.clip();
  visiblePath(context, model, at.step, box);
  context.rect(box.x + box.w, box.y, -box.w, box.h);
  Object.assign(context, { globalAlpha: strong, fillStyle: palette.hidden });
  context.fill("evenodd");
  context.restore();
}

// A sum by its rows, each as wide as it is and as high as the weight that it holds: what is kept of the old
// one, and what the tile adds on top of it.
function drawSumOfRows(context, slot, box, { model, palette, at, strong, held }, isSum) {
  const color = palette[slot.color];
  const come = progressOfPhase(model, at, (phase) => isSum(phase) && !phase.rescales, 1);
  const added = smooth(come);
  const isOfRows = model.q[at.step] >= 0 && slot.rows === "q_tile";
  if (!isOfRows || !weightsOfRow(model, at, slot, 0)) {
    fillBox(context, color, box, (0.35 + 0.4 * added) * held * strong);
    return;
  }
  const rescaled = progressIn(model, at, "rescale", 0);
  const isLaid = model.phases[at.step].some((phase) => isSum(phase) && phase.loads.length); // it flies there
  for (let row = 0; row < rowCount(model, model.q[at.step]); row++) {
    const { y, h: high } = rowBox(model, box, row);
    const [old, kept, all] = weightsOfRow(model, at, slot, row);
    const tall = Math.max(high - (high > 4 ? 1 : 0), 0.6);
    const layer = (from, to, alpha) => {
      const band = { ...box, y: y + high - to * tall, h: (to - from) * tall };
      fillBox(context, color, band, alpha * held * strong);
    };
    if (rescaled > 0 && added < 1) layer(kept, old, 0.18);
    layer(0, kept, 0.85);
    layer(kept, kept + (all - kept) * (isLaid ? Math.floor(come) : added), 0.5);
  }
}

// The weight in a row of O before the step, what is kept of it, and that after the step: of the most that the
// row ever holds, and of all once it is divided by l. null if it is not known.
function weightsOfRow(model, at, slot, row) {
  const state = softmaxState(model, at.step, row);
  if (!state) {
    const [before, after] = (slot.name === "O" && seenShares(model, at, row)) || [];
    return after === undefined ? null : [before, before, after];
  }
  const { oldL, l, alpha } = state;
  const isWhole = model.kernels[at.kernel].phases[1].some(({ stores }) => stores.includes(slot.name));
  const divided = smooth(finishOf(model, at) * 2);
  const most = isWhole ? l : lerp(largestSum(model, at, row), l, divided);
  const old = isWhole ? Number(oldL > 0) : oldL / most;
  const kept = (alpha * oldL) / most;
  return [old, lerp(old, kept, smooth(progressIn(model, at, "rescale", 0))), l / most];
}

// The largest l of a row in the steps of its turn, or of its tile if it comes back to the chip.
function largestSum(model, at, row) {
  const [first, last] = [model.turnFirst[at.step], model.turnLast[at.step]];
  return once(model, `l|${first}|${row}`, () =>
    Math.max(...range(last + 1, first).map((step) => valueAt(model, "l", step, row) || 0)),
  );
}
