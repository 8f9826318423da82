// The row that is told, large, above m and l of all: its old sums are seen to shrink, with the number.

import { roundBox, text } from "./draw.js";
import { finishOf, heldIn, matricesIn, progressIn } from "../run/bench.js";
import { figureOf, softmaxState } from "../run/figure.js";
import { formatSteady } from "../run/formats.js";
import { rowCalled } from "../run/sentences.js";
import { UNCHANGED, drawL } from "./state.js";
import { drawSum, largestSum } from "./sums.js";

const [NARROWEST, LOWEST, HIGHEST] = [140, 84, 190]; // of its room
const [HEAD, NAME, NUMBER, PAD] = [26, 34, 48, 8];
export const STRIP = 56; // its height across a chip that is too narrow

// `strip` is its room across the chip; else it stands above m and l, from `top` on, or the factor alone does.
export function drawLens(context, { state, strip }, top, how) {
  const { model, palette, at, strong, row, kernel } = how;
  const now = softmaxState(model, at.step, row);
  if (!now) return;
  const { oldM, oldL, m, l, alpha } = now;
  const [max, rescale] = ["max", "rescale"].map((role) => progressIn(model, at, role, 1));
  const finish = finishOf(model, at);
  const isSeen = rescale > 0 && oldL > 0 && at.melt < 1 && !finish;
  const shrinks = isSeen && alpha < UNCHANGED && at.phase.rescales;
  const [named, factor] = shrinks
    ? [`α = ${formatSteady(alpha)}`, "×α"]
    : [`m = ${formatSteady(max < 0.5 ? oldM : m)}`, finish > 0 ? "÷sum" : ""];
  const high = state && Math.min(state.y - HEAD - top, HIGHEST);
  const { x, y, w, h } = strip ?? { x: state.x - 3, y: state.y - HEAD - high, w: state.w + 6, h: high };
  const [left, right, bottom] = [x + PAD, x + w - PAD, y + h];
  const write = (words, from, middle, color, more) =>
    text(context, words, from, middle, color, { size: 14, weight: "650", alpha: strong, ...more });
  const atEnd = (words, end, middle, size = 14) =>
    write(words, end, middle, palette.now, { align: "right", size });
  if (!strip && w < NARROWEST) return shrinks && atEnd(named, right, state.y - 30, 16);
  if (!strip && h < LOWEST) return; // each row has its own

  roundBox(context, { x, y, w, h }, 4, { line: palette.text, width: 1.25, alpha: 0.6 * strong });
  write(rowCalled(model, at.step, row), left, y + 13, palette.now, { size: 15 });
  atEnd(named, right, y + 13, shrinks ? 20 : 14);

  const ends = strip ? x + w / 2 : right; // of l; O stands below it, or beside it
  const [from, end, middle] = [left + NAME, ends - NUMBER, y + HEAD + 8];
  const ranges = { most: Math.max(largestSum(model, at, row), oldL) };
  const bar = { palette, strong, tall: 28, ranges, place: { l: from, end } };
  const [, added] = drawL(context, now, middle, { ...bar, rescale });
  write("sum", left, middle, palette.state);
  const below = (words, edge, align) => write(words, edge, middle + 16, palette.state, { size: 12.5, align });
  if (isSeen) below(`old ${formatSteady(rescale < 0.25 ? oldL : alpha * oldL)}`, left, "left");
  if (isSeen && added > 0) below(`new ${formatSteady(l - alpha * oldL)}`, ends, "right");
  if (shrinks) atEnd(factor, ends, middle, 22);
  else atEnd(formatSteady(rescale < 0.5 ? oldL : l), ends, middle);

  const slot = kernel.slots.find(({ name }) => name === "O");
  const figure = slot && figureOf(model, at.step);
  const shown = figure && matricesIn(model, figure, slot, at);
  if (!shown?.isSum) return;
  const beside = { x: ends + PAD + NAME, y: y + HEAD - 4, w: right - NUMBER - ends - PAD - NAME, h: 30 };
  const box = strip ? beside : { x: from, y: middle + 24, w: end - from, h: bottom - middle - 27 };
  drawSum(context, slot, box, { ...how, ...shown, ...heldIn(model, at, "O") }, [model.offsets[row]]);
  write("O", box.x - NAME, box.y + box.h / 2, palette.output);
  atEnd(factor, right, box.y + box.h / 2, shrinks ? 22 : 16);
}
