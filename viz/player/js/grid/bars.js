// One bar per row of the query tile in progress: its row sum l, or how much of its attention was seen.

import { text } from "./draw.js";
import { formatNumber } from "../run/formats.js";
import { rowCount, stepsOfTile, valueAt } from "../run/model.js";
import { lastKnown, recordedSeries } from "../run/series.js";

const TITLES = {
  l: "row sum l of the tile's rows",
  share: "rows of P seen so far",
  weight: "weights of the parts so far",
};

export function drawRowBars(context, box, model, palette, at) {
  const { bars } = model.kernels[at.kernel];
  text(context, TITLES[bars], box.x, box.y + 8, palette.text, { size: 12, weight: "600" });
  if ("time" in at) text(context, "shown when played one by one", box.x, box.y + 26, palette.muted);
  if (at.step < 0 || model.q[at.step] < 0) return;
  const { before, after, largest, isKnown } = bars === "l" ? sumsOf(model, at) : sharesOf(model, at, bars);
  const bar = barsIn(context, box, before.length, (box.h - 36) / largest);
  const isRescaling = bars === "l" && at.phase?.rescales;
  const tween = isRescaling ? at.tween : 1;
  before.forEach((old, row) => {
    if (!isKnown) {
      bar(row, 0, old, palette.state);
      return;
    }
    // In the phase that rescales, the old sum shrinks by alpha, then what the tile adds grows on top of it.
    const kept = bars === "l" ? old * valueAt(model, "alpha", at.step, row) : old;
    const shrunk = old + (kept - old) * Math.min(1, tween * 2);
    const grown = Math.max(0, tween * 2 - 1) * (after[row] - kept);
    if (isRescaling && old > kept) bar(row, shrunk, old - shrunk, palette.line);
    bar(row, 0, shrunk, palette.state);
    bar(row, shrunk, grown, palette.state, 0.55);
  });
  drawFloor(context, box, palette, floorWords(model, at, bars, isKnown));
}

function floorWords(model, at, bars, isKnown) {
  if (bars !== "l") return "light: this step; all of them: 1";
  if (model.kv[at.step] < 0) return "no key in sight";
  const [least, most] = at.alphaRange.map((alpha) => formatNumber(alpha, 2));
  return isKnown ? `old sum × α, α = ${least} to ${most}` : "";
}

// Of each row its sum l before the step and after it, and whether the phase that changes it has come.
function sumsOf(model, at) {
  const q = model.q[at.step];
  const kernel = model.kernels[at.kernel];
  const isOneTurn = (step) => kernel.stays === "kv_tile" || model.turn[step] === model.turn[at.step];
  const steps = stepsOfTile(model, at.kernel, at.head, q).filter(isOneTurn);
  const rows = rowCount(model, q);
  const sum = (step, row) => valueAt(model, "l", step, row) || 0;
  const sums = (step) => Array.from({ length: rows }, (_, row) => sum(step, row));
  let largest = 1e-30;
  for (const step of steps) for (let row = 0; row < rows; row++) largest = Math.max(largest, sum(step, row));
  const last = steps.indexOf(at.step) - 1;
  const phases = model.kernelPhases[at.kernel];
  const after = sums(at.step);
  return {
    before: last < 0 ? after.map(() => 0) : sums(steps[last]),
    after,
    largest,
    isKnown: at.complete || phases.indexOf(at.phase) >= phases.findIndex((phase) => phase.rescales),
  };
}

// What earlier tiles hold of each row, and this one with them. All tiles together hold 1.
function sharesOf(model, at, name) {
  const q = model.q[at.step];
  const steps = stepsOfTile(model, at.kernel, at.head, q);
  const earlier = steps.slice(0, steps.indexOf(at.step));
  const series = recordedSeries(model, at.kernel).find(({ key }) => key === name);
  const rows = Array.from({ length: rowCount(model, q) }, (_, row) => row);
  const before = rows.map((row) => earlier.reduce((sum, step) => sum + valueAt(model, name, step, row), 0));
  return {
    before,
    after: before.map((sum, row) => sum + valueAt(model, name, at.step, row)),
    largest: 1,
    isKnown: lastKnown(model, series, at, steps) >= earlier.length,
  };
}

// A function that draws a piece of a row's bar: from `base` on, `size` tall; `scale` turns both into pixels.
function barsIn(context, box, count, scale) {
  const step = box.w / count;
  const bottom = box.y + box.h - 18;
  const width = Math.max(step - (step > 3 ? 1 : 0), 0.8);
  return (row, base, size, color, alpha = 1) => {
    context.globalAlpha = alpha;
    context.fillStyle = color;
    context.fillRect(box.x + row * step, bottom - (base + size) * scale, width, size * scale);
    context.globalAlpha = 1;
  };
}

function drawFloor(context, box, palette, words) {
  const y = box.y + box.h - 17.5;
  context.strokeStyle = palette.muted;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(box.x, y);
  context.lineTo(box.x + box.w, y);
  context.stroke();
  text(context, words, box.x, box.y + box.h - 8, palette.muted, { size: 11 });
}
