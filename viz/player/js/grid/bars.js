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
  if (bars === "l") drawRowSums(context, box, model, palette, at);
  else drawShares(context, box, model, palette, at, bars);
}

// In the phase that rescales, the old sum shrinks by alpha, and what the tile adds grows on top of it.
function drawRowSums(context, box, model, palette, at) {
  const q = model.q[at.step];
  const count = rowCount(model, q);
  const kernel = model.kernels[at.kernel];
  const oneTurn = (step) => kernel.stays === "kv_tile" || model.turn[step] === model.turn[at.step];
  const steps = stepsOfTile(model, at.kernel, at.head, q).filter(oneTurn);
  const index = steps.indexOf(at.step);
  const sum = (step, row) => valueAt(model, "l", step, row) || 0;
  let largest = 1e-30;
  for (const step of steps) for (let row = 0; row < count; row++) largest = Math.max(largest, sum(step, row));
  const phases = model.kernelPhases[at.kernel];
  const rescaled = at.complete || phases.indexOf(at.phase) >= phases.findIndex((phase) => phase.rescales);
  const tween = at.phase?.rescales ? at.tween : 1;
  const bar = barsIn(context, box, count, (box.h - 36) / largest);
  for (let row = 0; row < count; row++) {
    const old = index > 0 ? sum(steps[index - 1], row) : 0;
    if (!rescaled) {
      bar(row, 0, old, palette.state);
      continue;
    }
    const kept = old * valueAt(model, "alpha", at.step, row);
    const shrunk = old + (kept - old) * Math.min(1, tween * 2);
    const grown = Math.max(0, tween * 2 - 1) * (sum(at.step, row) - kept);
    if (at.phase?.rescales && old > kept) bar(row, shrunk, old - shrunk, palette.line);
    bar(row, 0, shrunk, palette.state);
    bar(row, shrunk, grown, palette.state, 0.55);
  }
  const [least, most] = at.alphaRange.map((alpha) => formatNumber(alpha, 2));
  const product = `old sum × α, α = ${least} to ${most}`;
  drawFloor(context, box, palette, model.kv[at.step] < 0 ? "no key in sight" : rescaled ? product : "");
}

// What earlier tiles hold of the row, and what this tile adds. All tiles together hold 1.
function drawShares(context, box, model, palette, at, name) {
  const q = model.q[at.step];
  const count = rowCount(model, q);
  const steps = stepsOfTile(model, at.kernel, at.head, q);
  const bar = barsIn(context, box, count, box.h - 36);
  const earlier = steps.slice(0, steps.indexOf(at.step));
  const series = recordedSeries(model, at.kernel).find(({ key }) => key === name);
  const known = lastKnown(model, series, at, steps) >= earlier.length;
  for (let row = 0; row < count; row++) {
    const before = earlier.reduce((sum, step) => sum + valueAt(model, name, step, row), 0);
    bar(row, 0, before, palette.state);
    if (known) bar(row, before, valueAt(model, name, at.step, row), palette.state, 0.55);
  }
  drawFloor(context, box, palette, "light: this step; all of them: 1");
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
