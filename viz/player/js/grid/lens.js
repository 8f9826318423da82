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
const [HEAD, NAME, NUMBER, PAD, WORD] = [26, 20, 50, 8, 30];

// `top` is where its room begins. In too little of it the factor stands alone.
export function drawLens(context, { state: { x, y, w }, slots }, top, how) {
  const { model, palette, at, strong, row, kernel } = how;
  const state = softmaxState(model, at.step, row);
  if (!state) return;
  const { oldM, oldL, m, l, alpha } = state;
  const [max, rescale] = ["max", "rescale"].map((role) => progressIn(model, at, role, 1));
  const finish = finishOf(model, at);
  const isAdded = progressOfPhase(model, at, (phase) => sumOf(phase) === "O", 0) === 1;
  const shrinks = rescale > 0 && oldL > 0 && alpha < UNCHANGED && !isAdded;
  const factor = finish > 0 ? `÷${formatSteady(l)}` : shrinks ? `×${formatNumber(alpha, 2)}` : "";
  const [left, right, bottom] = [x + PAD - 3, x + w + 3, y - HEAD];
  const h = Math.min(bottom - top, HIGHEST);
  const write = (words, from, middle, color, more) =>
    text(context, words, from, middle, color, { size: 14, weight: "650", alpha: strong, ...more });
  const atEnd = (words, middle, more) =>
    write(words, right - PAD, middle, palette.now, { align: "right", ...more });
  const large = (middle) => atEnd(factor, middle, { size: 18 });
  if (w < NARROWEST || h < LOWEST) return large(y - 30);

  const thin = { line: palette.text, width: 1.25, alpha: 0.6 * strong };
  roundBox(context, { x: x - 3, y: bottom - h, w: w + 6, h }, 4, thin);
  roundBox(context, { x: right, y: bottom, w: 0.01, h: rowBox(model, slots.S, row).y - bottom }, 0, thin);
  write(rowCalled(model, at.step, row), left, bottom - h + 13, palette.now, { size: 15 });
  atEnd(`max m ${formatSteady(max < 0.5 ? oldM : m)}`, bottom - h + 13);

  const [from, end, middle] = [left + NAME, right - PAD - NUMBER, bottom - h + HEAD + 9];
  const bar = { palette, strong, tall: 32, ranges: { most: Math.max(oldL, l) }, place: { l: from, end } };
  const [kept, added] = drawL(context, state, middle, { ...bar, rescale, finish });
  write("l", left, middle, palette.state);
  if (rescale > 0 && kept > WORD) write("old", from + 5, middle, inkOn(palette.state, palette));
  if (added > WORD) write("new", from + kept + 5, middle, palette.text);
  if (factor) large(middle);
  else atEnd(formatSteady(rescale < 1 ? oldL : l), middle);

  const slot = kernel.slots.find(({ name }) => name === "O");
  const figure = slot && figureOf(model, at.step);
  const shown = figure && matricesIn(model, figure, slot, at);
  if (!shown?.isSum) return;
  const box = { x: from, y: middle + 12, w: end - from, h: bottom - middle - 15 };
  drawSum(context, slot, box, { ...how, ...shown, ...heldIn(model, at, "O") }, [model.offsets[row]]);
  write("O", left, box.y + box.h / 2, palette.output);
  large(box.y + box.h / 2);
}
