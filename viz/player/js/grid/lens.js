// The row that is told, large, above m and l of all: its old sums are seen to shrink, with the number.

import { inkOn, roundBox, text } from "./draw.js";
import { finishOf, heldIn, matricesIn, progressIn, progressOfPhase, sumOf } from "../run/bench.js";
import { figureOf, softmaxState } from "../run/figure.js";
import { formatNumber, formatSteady } from "../run/formats.js";
import { rowBox } from "../run/model.js";
import { rowCalled } from "../run/sentences.js";
import { UNCHANGED, drawL } from "./state.js";
import { drawSum } from "./sums.js";

const [NARROWEST, LOWEST, HIGHEST] = [140, 84, 190]; // of its room
const [HEAD, NAME, NUMBER, PAD, WORD] = [26, 20, 60, 8, 30];
export const STRIP = 56; // its height across a chip that is too narrow

// `strip` is its room across the chip, if it has one; else it stands above m and l, from `top` on, and in too
// little of that the factor stands alone.
export function drawLens(context, { state, slots, strip }, top, how) {
  const { model, palette, at, strong, row, kernel } = how;
  const now = softmaxState(model, at.step, row);
  if (!now) return;
  const { oldM, oldL, m, l, alpha } = now;
  const [max, rescale] = ["max", "rescale"].map((role) => progressIn(model, at, role, 1));
  const finish = finishOf(model, at);
  const isAdded = progressOfPhase(model, at, (phase) => sumOf(phase) === "O", 0) > 0;
  const shrinks = rescale > 0 && oldL > 0 && alpha < UNCHANGED && !isAdded;
  const factor = finish > 0 ? `÷${formatSteady(l)}` : shrinks ? `×${formatNumber(alpha, 2)}` : "";
  const high = Math.min(state.y - HEAD - top, HIGHEST);
  const above = { x: state.x - 3, y: state.y - HEAD - high, w: state.w + 6, h: high };
  const { x, y, w, h } = strip ?? above;
  const [left, right, bottom] = [x + PAD, x + w - PAD, y + h];
  const write = (words, from, middle, color, more) =>
    text(context, words, from, middle, color, { size: 14, weight: "650", alpha: strong, ...more });
  const atEnd = (words, end, middle, size = 14) =>
    write(words, end, middle, palette.now, { align: "right", size });
  const large = (end, middle) => atEnd(factor, end, middle, 22);
  if (!strip && (w < NARROWEST || h < LOWEST)) return large(right, state.y - 30);

  const thin = { line: palette.text, width: 1.25, alpha: 0.6 * strong };
  roundBox(context, { x, y, w, h }, 4, thin);
  const long = rowBox(model, slots.S, row).y - bottom;
  if (!strip) roundBox(context, { x: x + w, y: bottom, w: 0.01, h: long }, 0, thin);
  write(rowCalled(model, at.step, row), left, y + 13, palette.now, { size: 15 });
  atEnd(`max m ${formatSteady(max < 0.5 ? oldM : m)}`, right, y + 13);

  const ends = strip ? x + w / 2 : right; // of l; O stands below it, or beside it
  const [from, end, middle] = [left + NAME, ends - NUMBER, y + HEAD + (strip ? 14 : 9)];
  const bar = { palette, strong, tall: 32, ranges: { most: Math.max(oldL, l) }, place: { l: from, end } };
  const [kept, added] = drawL(context, now, middle, { ...bar, rescale, finish });
  write("l", left, middle, palette.state);
  if (rescale > 0 && kept > WORD) write("old", from + 5, middle, inkOn(palette.state, palette));
  if (added > WORD) write("new", from + kept + 5, middle, palette.text);
  if (factor) large(ends, middle);
  else atEnd(formatSteady(rescale < 0.5 ? oldL : l), ends, middle);

  const slot = kernel.slots.find(({ name }) => name === "O");
  const figure = slot && figureOf(model, at.step);
  const shown = figure && matricesIn(model, figure, slot, at);
  if (!shown?.isSum) return;
  const beside = { x: ends + PAD + NAME, y: y + HEAD - 4, w: right - NUMBER - ends - PAD - NAME, h: 30 };
  const box = strip ? beside : { x: from, y: middle + 12, w: end - from, h: bottom - middle - 15 };
  drawSum(context, slot, box, { ...how, ...shown, ...heldIn(model, at, "O") }, [model.offsets[row]]);
  write("O", box.x - NAME, box.y + box.h / 2, palette.output);
  large(right, box.y + box.h / 2);
}
