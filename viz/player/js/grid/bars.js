// One bar per row of the query tile in progress: its row sum l, or how much of its attention was seen.

import { drawLine, fillBox, text } from "./draw.js";
import { formatNumber } from "../run/formats.js";
import { range, rowCount, stepsOfTile, valueAt } from "../run/model.js";
import { lastKnown, recordedSeries } from "../run/series.js";

const TITLES = {
  l: "row sum l of the tile's rows",
  share: "rows of P seen so far",
  weight: "weights of the parts so far",
};
const FOOT = 18; // for words below the bars

export function drawRowBars(context, box, model, palette, at) {
  const { bars } = model.kernels[at.kernel];
  text(context, TITLES[bars], box.x, box.y + 8, palette.text, { size: 12, weight: "600" });
  if ("time" in at) text(context, "shown when played one by one", box.x, box.y + 26, palette.muted);
  if (at.step < 0 || model.q[at.step] < 0) return;
  const { before, after, largest, isKnown } = sumsOf(model, at, bars);
  const [wide, scale] = [box.w / before.length, (box.h - 2 * FOOT) / largest];
  const bottom = box.y + box.h - FOOT;
  // a piece of a row's bar, from `base` on
  const bar = (row, base, size, color, alpha = 1) => {
    const [x, w] = [box.x + row * wide, Math.max(wide - (wide > 3 ? 1 : 0), 0.8)];
    fillBox(context, color, x, bottom - (base + size) * scale, w, size * scale, alpha);
  };
  const isRescaling = bars === "l" && at.phase?.rescales;
  const tween = isRescaling ? at.tween : 1;
  before.forEach((old, row) => {
    // In the phase that rescales, the old sum shrinks by alpha, then what the tile adds grows on top of it.
    const kept = isKnown && bars === "l" ? old * valueAt(model, "alpha", at.step, row) : old;
    const shrunk = old + (kept - old) * Math.min(1, tween * 2);
    if (isRescaling && old > kept) bar(row, shrunk, old - shrunk, palette.line);
    bar(row, 0, shrunk, palette.state);
    if (isKnown) bar(row, shrunk, Math.max(0, tween * 2 - 1) * (after[row] - kept), palette.state, 0.55);
  });
  drawLine(context, palette.muted, 1, [box.x, bottom + 0.5, box.x + box.w, bottom + 0.5]);
  text(context, footWords(model, at, bars, isKnown), box.x, bottom + 10, palette.muted, { size: 11 });
}

function footWords(model, at, bars, isKnown) {
  if (bars !== "l") return "light: this step; all of them: 1";
  if (model.kv[at.step] < 0) return "no key in sight";
  const [least, most] = at.alphaRange.map((alpha) => formatNumber(alpha, 2));
  return isKnown ? `old sum × α, α = ${least} to ${most}` : "";
}

// Of each row what there is before the step and after it, and whether the phase that changes it has come.
// l is a sum already, without the turns of other key tiles; shares and weights add up to 1.
function sumsOf(model, at, name) {
  const q = model.q[at.step];
  const isSum = name === "l";
  const isOwn = (step) =>
    model.kernels[at.kernel].stays === "kv_tile" || model.turn[step] === model.turn[at.step];
  const steps = stepsOfTile(model, at.kernel, at.head, q).filter((step) => !isSum || isOwn(step));
  const rows = range(rowCount(model, q));
  const values = steps.map((step) => rows.map((row) => valueAt(model, name, step, row) || 0));
  const now = steps.indexOf(at.step);
  const until = (end) =>
    rows.map((row) => {
      const known = values.slice(0, end).map((each) => each[row]);
      return isSum ? (known.at(-1) ?? 0) : known.reduce((sum, value) => sum + value, 0);
    });
  const series = recordedSeries(model, at.kernel).find(({ key }) => key === name);
  return {
    before: until(now),
    after: until(now + 1),
    largest: isSum ? Math.max(1e-30, ...values.flat()) : 1,
    isKnown: lastKnown(model, series, at, steps) >= now,
  };
}
