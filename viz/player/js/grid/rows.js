// Curves of one row's state, drawn step by step.

import { fillBox, fitCanvas, text } from "./draw.js";
import { formatNumber } from "../run/formats.js";
import { curveOf, recordedSeries, shownRow } from "../run/series.js";

const NAMES = 118; // width of the names and values: "−0.326 after tile 15"
const TALLEST = 64;
const MARKED = 40; // steps; more than that are drawn as a line alone
const DOT = 4; // radius of the dot at the present value
const LEAST = 1e-9; // of a logarithmic scale

export function drawRows(canvas, model, palette, at, pinned) {
  if (!canvas.clientWidth) return; // hidden
  const { context, width, height } = fitCanvas(canvas);
  context.clearRect(0, 0, width, height);
  const shown = shownRow(model, at, pinned);
  const curves = recordedSeries(model, at.kernel);
  if (!curves.length) {
    const { observed } = model.data;
    const words = observed ? "they stay inside this kernel" : "this kernel sums nothing up over its steps";
    text(context, words, 0, 12, palette.muted, { size: 12.5 });
  }
  const tall = Math.min(height / Math.max(curves.length, 1), TALLEST);
  curves.forEach((series, index) => {
    const box = { x: NAMES, y: index * tall + 3, w: width - NAMES - 6, h: tall - 6 };
    drawSeries(context, box, { model, palette, at, series, shown });
  });
}

// Each part of the keys begins with an empty state.
function beginsAnew(model, step) {
  return model.kernels[model.kernel[step]].splits_keys && model.keyParts.includes(model.kv[step]);
}

function drawSeries(context, box, { model, palette, at, series, shown }) {
  const { steps, values, current, whose } = curveOf(model, series, at, shown);
  const fresh = steps.map((step) => beginsAnew(model, step));
  const color = palette[series.color];
  const middle = box.y + box.h / 2;
  const size = series.name.length > 8 ? 10.5 : 13;
  text(context, series.name, 0, middle - 7, color, { size, weight: "600" });
  const value = current >= 0 ? formatNumber(values[current]) : "–";
  text(context, value, 0, middle + 8, palette.text, { size: 12.5 });
  const wide = context.measureText(value).width;
  if (whose) text(context, whose, wide, middle + 8.5, palette.muted, { size: 10.5 });
  fillBox(context, palette.surface, box);
  const points = placePoints(box, series, values);
  if (!points || current < 0) return; // what is still to come is never drawn: the reader may be predicting it
  drawTrail(context, points, fresh, current, color);
  if (!points[current]) return;
  context.fillStyle = palette.now;
  context.beginPath();
  context.arc(...points[current], DOT, 0, 7);
  context.fill();
}

// [x, y] of each value, null for one that is not finite; null if none is finite.
function placePoints(box, series, values) {
  const scaled = values.map((value) => (series.log ? Math.log10(Math.max(value, LEAST)) : value));
  const finite = scaled.filter(Number.isFinite);
  if (!finite.length) return null;
  let [low, high] = series.range ?? [Math.min(...finite), Math.max(...finite)];
  if (!(high > low)) [low, high] = [low - 0.5, low + 0.5];
  const margin = Math.min(DOT + 1, box.h / 4); // so that the dot stays inside of the strip
  const bottom = box.y + box.h - margin;
  return scaled.map((value, i) => {
    if (!Number.isFinite(value)) return null;
    const x = box.x + (box.w * (i + 0.5)) / values.length;
    return [x, bottom - ((box.h - 2 * margin) * (value - low)) / (high - low)];
  });
}

function drawTrail(context, points, fresh, last, color) {
  context.strokeStyle = context.fillStyle = color;
  context.lineWidth = 2;
  context.beginPath();
  const reached = points.slice(0, last + 1);
  reached.forEach((point, i) => point && context[fresh[i] ? "moveTo" : "lineTo"](...point));
  context.stroke();
  if (points.length <= MARKED) {
    reached.filter(Boolean).forEach(([x, y]) => context.fillRect(x - 2, y - 2, 4, 4));
  }
}
