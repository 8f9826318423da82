// The row that is told, large, above m and l of all: its old sums are seen to shrink, with the number. In a
// film it opens over the whole chip, with its scores.

import { fillBox, roundBox, text } from "./draw.js";
import { middles } from "./layout.js";
import { columnsUsed, drawMatrix } from "./matrix.js";
import { finishOf, heldIn, matricesIn, progressIn, sumOf } from "../run/bench.js";
import { boxBetween, clamp, lerp, smooth, within } from "../run/easing.js";
import { figureOf, matrixNamed, rowNamed, rowOf, scoresOf, softmaxState, stepBefore } from "../run/figure.js";
import { cell, formatSteady } from "../run/formats.js";
import { range, rowBox, sum } from "../run/model.js";
import { rescaleWords, rowCalled } from "../run/sentences.js";
import { UNCHANGED, drawL } from "./state.js";
import { drawSum, largestSum } from "./sums.js";

const [NARROWEST, LOWEST, HIGHEST] = [140, 84, 190]; // of its room; without it the factor alone is there
const [HEAD, NAME, NUMBER, PAD, GHOST] = [26, 36, 48, 8, 0.75]; // how strong old weights are
const [HIGH, WIDE, LARGEST] = [172, 340, 3]; // of an open one, in units of so many pixels at most
const [FLAT, TURNED, LEGIBLE] = [[12, 22], [36, 38], 24]; // heights of words and scores; pixels of a word
const VALUES = 20; // height of those of a key
const [BACK, TOLD] = [0.0008, 0.002]; // of its time α waits: what was dropped is drawn again before
const [CANCELS, WEIGHTS] = [0.02, 0.2]; // then old weights take the factor, until the sums do

// Above m and l, from `top` on. As far as it is `near`, its scores grow out of their matrix, over the chip.
// Returns where V is there, if it is.
export function drawLens(context, { slots, state, chip }, top, how) {
  const { model, at, row, strong, palette } = how;
  const now = softmaxState(model, at.step, row);
  if (!now) return;
  const open = smooth(at.near ?? 0);
  const high = Math.min(state.y - HEAD - top, HIGHEST);
  const card = { x: state.x - 3, y: state.y - HEAD - high, w: state.w + 6, h: high };
  const draw = (box, zoom, more) => {
    context.save();
    context.transform(zoom, 0, 0, zoom, box.x, box.y);
    const V = drawTold(context, { w: box.w / zoom, h: box.h / zoom }, now, { ...how, zoom, ...more });
    context.restore();
    return V && { x: box.x + zoom * V.x, y: box.y + zoom * V.y, w: zoom * V.w, h: zoom * V.h };
  };
  if (open < 0.3) draw(card, 1, { open: 0, strong: strong * (1 - open / 0.3) });
  if (!open) return;
  const whole = { x: chip.x + 1, y: chip.y + HEAD, w: chip.w - 2, h: chip.h - HEAD - 1 };
  const { held, used } = heldIn(model, at, "S");
  const isOver = !held || used === 1; // its scores are gone
  const box = boxBetween(isOver ? card : rowBox(model, slots.S, row), whole, open);
  const zoom = lerp(1, Math.min(LARGEST, whole.h / HIGH, whole.w / WIDE), open);
  fillBox(context, palette.background, box);
  return draw(box, zoom, { open, strong: isOver ? strong : strong * within(open, 0.7, 1) });
}

function drawTold(context, { w, h }, state, how) {
  const { model, palette, at, strong, row, kernel, open, zoom } = how;
  const { oldM, oldL, m, alpha } = state;
  const [max, rescale] = ["max", "rescale"].map((role) => progressIn(model, at, role, 1));
  const isSeen = rescale > 0 && oldL > 0 && at.melt < 1 && !finishOf(model, at);
  const shrinks = isSeen && alpha < UNCHANGED && at.phase.rescales;
  const [was, is] = [oldM, m].map(formatSteady);
  const grows = open > 0.5 && oldL > 0 && was !== is ? `${was} → ${is}` : is;
  const rescaled = isSeen && rescale > TOLD ? rescale : 0;
  const isTold = shrinks && rescaled > 0;
  const named = isTold ? `α = ${formatSteady(alpha)}` : `max = ${max < 0.5 ? was : grows}`;
  const [left, right, from, end] = [PAD, w - PAD, PAD + NAME, w - PAD - NUMBER];
  const write = (words, x, y, color, more) =>
    text(context, words, x, y, color, { size: 14, weight: "650", alpha: strong, ...more });
  const atEnd = (words, x, y, size = 14) => write(words, x, y, palette.now, { align: "right", size });
  const isNarrow = w < NARROWEST; // else each row has its own factor
  if (!open && (isNarrow || h < LOWEST)) {
    if (isNarrow && shrinks) atEnd(named, right, h - 4, 16);
    return null;
  }

  roundBox(context, { x: 0, y: 0, w, h }, 4, {
    line: palette.text,
    width: 1.25,
    alpha: 0.6 - 0.6 * within(open, 0.8, 1),
  });
  write(rowCalled(model, at.step, row), left, 13, palette.now, { size: 15 });
  atEnd(named, right, 13, isTold ? 20 : 14);

  const isFlat = zoom * (right - from) > LEGIBLE * model.data.problem.block_n;
  const [above, tall] = isFlat ? FLAT : TURNED;
  const cells = { x: from, y: HEAD + above, w: right - from, h: tall };
  const grown = boxBetween({ x: 0, y: 0, w, h }, cells, open);
  const isOld = shrinks && rescale <= 0.5;
  const slot = kernel.slots.find(({ name }) => name === "O");
  const figure = slot && figureOf(model, at.step);
  const shown = figure && matricesIn(model, figure, slot, at);
  const adds = open > 0.5 && shown ? addedIn(model, at, row, shown) : null;
  if (open) drawCells(context, grown, { ...how, isFlat }, { state, max, rescale, isOld, isSeen, adds });
  const middle = HEAD + 8 + open * (above + tall + 8);
  const later = (part) => (part < 0.5 ? lerp(part, 0.5 * within(part, WEIGHTS, 0.5), open) : part);
  const all = drawTotal(context, { from, end, middle }, how, state, rescaled, later(rescale));
  atEnd(all, right, middle);

  const V = { x: from, y: middle + 24, w: end - from, h: open > 0.5 ? VALUES : 0 };
  if (isOld && at.cancels >= 0)
    drawIdentity(context, { x: from, y: V.y + V.h, most: Math.min(17, w / 24) }, how, state);
  const box = { ...V, y: V.y + 1.5 * V.h, h: h - V.y - 1.5 * V.h - 3 };
  if (box.h < 16) return null;
  if (adds) drawValues(context, V, how, adds);
  if (V.h || shown?.isSum) write("O", left, box.y + box.h / 2, palette.output);
  if (!shown?.isSum) return V.h && V; // O of a large tile is not known number by number
  const by = finishOf(model, at) > 0 ? `/ ${all}` : isOld && rescale > WEIGHTS ? "×α" : "";
  atEnd(by, right, box.y + box.h / 2, by.length > 2 ? 16 : 22);
  const sums = shown.phase?.rescales ? { ...shown, part: later(shown.part) } : shown;
  drawSum(context, slot, box, { ...how, ...sums, ...heldIn(model, at, "O"), adds }, [model.offsets[row]]);
  return V.h && V;
}

// The sum as a bar; below it, as far as it is `rescaled`, what it was and what is new. Returns its words.
function drawTotal(context, { from, end, middle }, how, state, rescaled, rescale) {
  const { model, palette, at, strong, row } = how;
  const write = (words, x, down, color, more) =>
    text(context, words, x, middle + down, color, { size: 12, weight: "650", alpha: strong, ...more });
  const ranges = { most: Math.max(largestSum(model, at, row), state.oldL) };
  const kind = { palette, strong, rescale, tall: 28, ranges, place: { l: from, end } };
  const [kept, added] = drawL(context, state, middle, kind);
  write("sum", PAD, 0, palette.state, { size: 13 });
  const bar = Math.max(from + ((kept + added) / ranges.most) * (end - from), from + 130);
  const edge = how.open > 0.5 ? bar : end + NUMBER;
  if (rescaled > 0.5) write(`old ${cell(kept)}`, from, 16, palette.state);
  else if (rescaled > WEIGHTS) write(`${cell(state.oldL)} × α`, from, 16, palette.state);
  if (rescaled > 0.5) write(`new ${cell(added)}`, edge, 16, palette.text, { align: "right" });
  return cell(kept + added);
}

// What P V adds to O of a row right now: of which key, its weight, and O before it and at this moment.
export function addedIn(model, { step }, row, { old, part, phase }) {
  const [P, V] = [rowNamed(model, "P", step, row), matrixNamed(model, "V", step)];
  if (!(phase && sumOf(phase) && part < 1) || !P || !V) return null;
  const seen = scoresOf(model, step, row).findLastIndex(Number.isFinite) + 1;
  const pace = (seen + 2) / (P.length + 2); // the time of the keys that are hidden is that of the others
  const used = clamp(columnsUsed(pace * part, P.length), 0, seen);
  const key = Math.min(Math.floor(used), seen - 1);
  const before = (c) => old?.at(model.offsets[row], c) ?? 0;
  const upTo = (c, n) => before(c) + sum(P.map((weight, k) => clamp(n - k) * weight * V.at(k, c)));
  const [was, now] = [key, used].map((n) => (c) => upTo(c, n));
  return { V, key, pace, part: used - key, weight: P[key], was, now };
}

// The values of the key that is added now; those of the next one come from below.
function drawValues(context, box, how, { V, key, part, weight }) {
  const slot = how.kernel.slots.find(({ name }) => name === "V");
  const w = box.w / V.columns;
  const most = Math.max(...range(V.rows).flatMap((k) => rowOf(V, k).map(Math.abs)));
  const next = box.h * smooth(within(part, 0.6, 1)) * Number(key + 1 < V.rows);
  middles(box.x, box.w, V.columns).forEach((x, c) => {
    const draw = (k, y, h) => {
      const tall = (V.at(k, c) / most) * (h / 2);
      const bar = { x: x - w / 2, y: y + h / 2 - Math.max(tall, 0), w: w - 0.6, h: Math.abs(tall) };
      fillBox(context, how.palette[slot.color], bar, how.strong);
    };
    draw(key, box.y, box.h - next);
    if (next) draw(key + 1, box.y + box.h - next, next);
  });
  const [middle, look] = [box.y + box.h / 2, { size: 14, weight: "650" }];
  text(context, "V", PAD, middle, how.palette[slot.color], look);
  text(context, `× ${cell(weight)}`, box.x + box.w + 6, middle, how.palette.now, look);
}

// What α does to the weight of a key: the old max is struck out of its power.
function drawIdentity(context, { x, y, most }, { model, palette, at, row }, state) {
  const [old, now] = rescaleWords(state).powers.split(" − ");
  const score = formatSteady(scoresOf(model, stepBefore(model, at.step), row)[at.key]);
  const weight = [[`“${at.word}”: e`], [`${score} − `, true], [old.replace(/^−.*/, "($&)"), true, true]];
  const factor = [[" × e"], [old, true, true], [` − ${now}`, true]];
  const pieces = [...weight, ...factor, [" = e"], [`${score} − ${now}`, true]];
  let left = x;
  for (const [words, isRaised, isStruck] of pieces) {
    const [size, middle] = isRaised ? [0.6 * most, y - 0.3 * most] : [most, y];
    text(context, words, left, middle, palette.text, { size, weight: "650" });
    const { width } = context.measureText(words);
    if (isStruck) fillBox(context, palette.now, { x: left, y: middle - 1, w: width * at.cancels, h: 1.5 });
    left += width;
  }
}

// The scores of the row, or its weights, below their words; the largest is ringed once it is known. While old
// sums shrink, the weights of the tile before, which were dropped, are there again: each takes the factor.
function drawCells(context, box, how, { state, max, rescale, isOld, isSeen, adds }) {
  const { model, palette, at, row, kernel, isFlat } = how;
  const slot = kernel.slots.find(({ name }) => name === "S");
  const step = isOld ? stepBefore(model, at.step) : at.step;
  const numbers = isOld ? rowNamed(model, "P", step, row) : scoresOf(model, step, row);
  const kept = lerp(1, state.alpha, smooth(within(rescale, CANCELS, WEIGHTS)));
  const recorded = isOld
    ? { now: { columns: numbers.length, at: (_, c) => kept * numbers[c] }, part: 1 }
    : { ...matricesIn(model, figureOf(model, step), slot, at), ...heldIn(model, at, "S") };
  if (!recorded.now || recorded.used === 1) return;
  if (adds) recorded.used *= adds.pace;
  const come = isSeen ? within(rescale, 0.5, 0.6) : 1;
  const [strong, shown] = isOld ? [GHOST, within(rescale, 0, BACK)] : [come, 1];
  context.save();
  context.beginPath();
  context.rect(0, 0, box.x + (box.w + 3) * shown, box.y + box.h + 3);
  context.clip();
  drawMatrix(context, slot, box, { ...how, ...recorded, strong, only: model.offsets[row] });
  const told = isOld ? at.key : adds ? adds.key : max > 0.3 ? numbers.indexOf(Math.max(...numbers)) : -1;
  const unit = box.w / numbers.length;
  middles(box.x, box.w, numbers.length).forEach((x, i) => {
    const color = i === told ? palette.now : palette.text;
    const word = model.data.words?.[1][model.kv[step] * numbers.length + i] ?? "";
    const flat = { size: 8, align: "center", widest: unit };
    const look = isFlat ? flat : { size: Math.min(11, unit), turned: true, widest: TURNED[0] - 6 };
    text(context, word, isFlat ? x : x + 1, box.y - 8, color, { ...look, alpha: strong * how.strong });
  });
  const ring = { x: box.x + told * unit - 1, y: box.y - 1, w: unit + 1.5, h: box.h + 1.5 };
  if (told >= 0) roundBox(context, ring, 3, { line: palette.now, width: 2, alpha: strong * how.strong });
  if (isOld) {
    text(context, "gone", PAD, box.y + box.h / 2, palette.muted, { size: 13, weight: "650" });
    context.setLineDash([3, 3]);
    roundBox(context, { ...box, w: box.w - 1, h: box.h - 1 }, 1, { line: palette.muted, width: 2 });
  }
  context.restore();
}
