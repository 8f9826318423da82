// The row that is told, large, above m and l of all: its old sums are seen to shrink, with the number.

import { inkOn, roundBox, text } from "./draw.js";
import { finishOf, heldIn, matricesIn, progressIn, progressOfPhase, sumOf } from "../run/bench.js";
import { figureOf, softmaxState } from "../run/figure.js";
import { formatNumber, formatSteady } from "../run/formats.js";
import { rowBox } from "../run/model.js";
import { rowCalled } from "../run/sentences.js";
import { UNCHANGED, drawL, rangesOf } from "./state.js";
import { drawSum } from "./sums.js";

const [NARROWEST, LOWEST, HIGHEST] = [160, 92, 150]; // of its room
const [HEAD, NAME, NUMBER, PAD] = [26, 20, 50, 8];
const ROOM_FOR_A_WORD = 30;

// What happens to the sums: “×0.54”, “÷7.42”, or nothing.
function factorOf(model, at, { oldL, l, alpha }) {
  if (finishOf(model, at) > 0) return `÷${formatSteady(l)}`;
  const isUnderWay = progressIn(model, at, "rescale", 0) > 0;
  const isSeen = isUnderWay && progressOfPhase(model, at, (phase) => sumOf(phase) === "O", 0) < 1;
  return isSeen && oldL > 0 && alpha < UNCHANGED ? `×${formatNumber(alpha, 2)}` : "";
}

// `top` is where its room begins. In too little of it the factor stands alone.
export function drawLens(context, { state: { x: left, y: below, w: wide }, slots }, top, how) {
  const { model, palette, at, strong, row } = how;
  const state = softmaxState(model, at.step, row);
  if (!state) return;
  const bottom = below - HEAD;
  const h = Math.min(bottom - top, HIGHEST);
  const box = { x: left - 3, y: bottom - h, w: wide + 6, h };
  const right = box.x + box.w;
  const write = (words, x, y, color, more) =>
    text(context, words, x, y, color, { size: 14, weight: "650", alpha: strong, ...more });
  const atEnd = (words, y, color, more) => write(words, right - PAD, y, color, { align: "right", ...more });
  const factor = factorOf(model, at, state);
  const large = () => atEnd(factor, below - 30, palette.now, { size: 18 });
  if (box.w < NARROWEST || h < LOWEST) return large();
  const thin = { line: palette.text, width: 1.25, alpha: 0.6 * strong };
  roundBox(context, box, 4, thin);
  const place = rowBox(model, slots.S, row).y - 1.5;
  roundBox(context, { x: right, y: bottom, w: 0.01, h: place - bottom }, 0, thin); // down to its place
  write(rowCalled(model, at.step, row), box.x + PAD, box.y + 13, palette.now, { size: 15 });
  const isNew = progressIn(model, at, "max", 1) >= 0.5;
  const max = `max m ${formatSteady(isNew ? state.m : state.oldM)}`;
  atEnd(max, box.y + 13, isNew && state.m > state.oldM ? palette.now : palette.text);
  drawSums(context, box, state, factor, { ...how, write, atEnd });
}

// Its l, of the old part and the new one, and its O.
function drawSums(context, box, state, factor, { write, atEnd, ...how }) {
  const { model, palette, at, strong, row, kernel } = how;
  const rescale = progressIn(model, at, "rescale", 1);
  const place = { l: box.x + PAD + NAME, end: box.x + box.w - PAD - NUMBER };
  const middle = box.y + HEAD + 9;
  const big = factor ? { size: 18 } : {};
  write("l", box.x + PAD, middle, palette.state);
  const look = { palette, strong, place, ranges: rangesOf(model, at), tall: 32, finish: finishOf(model, at) };
  const [kept, added] = drawL(context, state, middle, { ...look, rescale });
  const inside = (words, x, long, color) => long > ROOM_FOR_A_WORD && write(words, x + 5, middle, color);
  if (rescale > 0) inside("old", place.l, kept, inkOn(palette.state, palette));
  inside("new", place.l + kept, added, palette.text);
  atEnd(factor || formatSteady(rescale < 1 ? state.oldL : state.l), middle, palette.now, big);

  const slot = kernel.slots.find(({ name }) => name === "O");
  const figure = figureOf(model, at.step);
  const shown = slot && figure && matricesIn(model, figure, slot, at);
  if (!shown?.isSum) return;
  const bars = { x: place.l, y: middle + 12, w: place.end - place.l, h: box.y + box.h - middle - 15 };
  const sum = { ...how, ...shown, ...heldIn(model, at, "O") };
  drawSum(context, slot, bars, sum, [model.offsets[row]]);
  write("O", box.x + PAD, bars.y + bars.h / 2, palette.output);
  atEnd(factor, bars.y + bars.h / 2, palette.now, big);
}
