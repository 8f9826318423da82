// m and l of the rows of a tile: the max slides, the old sum shrinks by alpha, and new weights stand on it.

import { fillBox, mixed, roundBox, text } from "./draw.js";
import { formatSteady } from "../run/formats.js";
import { clamp, lerp, smooth } from "../run/easing.js";
import { softmaxState } from "../run/figure.js";
import { finishOf, progressIn } from "../run/bench.js";
import { once, range, rowBox, rowCount, stepsOfTile, valueAt } from "../run/model.js";

const [TOLD, ROOM, TWO] = [13, 40, 78]; // size of the numbers, and the room of one, and of two
export const UNCHANGED = 0.995; // an alpha above it is not seen to shrink anything

export function drawState(context, { state: box, slots }, { model, palette, at, strong, row: told }) {
  const style = { size: 14, weight: "650", alpha: strong };
  const isWide = box.w > 110;
  const { h: tall } = rowBox(model, slots.S, 0);
  const isTold = isWide && tall > 1.3 * TOLD; // then each row has its numbers
  const [m, l, right] = [0, isTold ? 0.48 : isWide ? 0.42 : 0.5, 1].map((part) => box.x + part * box.w);
  const place = { m, l, end: right - (isTold ? ROOM : 0), half: box.w * (isTold ? 0.18 : 0.36) };
  const isFolded = isTold && finishOf(model, at) > 0.5; // m and l are one number, lse, which leaves
  roundBox(context, { ...box, x: box.x - 4, w: box.w + 8 }, 3, { fill: palette.surface, line: palette.line });
  const names = isFolded ? ["lse", ""] : isWide ? ["max m", "sum l"] : ["m", "l"];
  names.forEach((name, i) => text(context, name, [m, l][i], box.y - 10, palette.state, style));
  const isAdded = at.phase?.rescales && softmaxState(model, at.step, told)?.oldL > 0;
  const parts = isTold && isAdded ? ["old", "new"] : [];
  parts.forEach((part, i) => text(context, part, l + 30 * i, box.y + box.h + 9, tones(palette)[i], style));
  if (model.q[at.step] < 0) return;
  const [max, rescale, exp] = ["max", "rescale", "exponentials"].map((of) => progressIn(model, at, of, 1));
  const how = { palette, strong, place, tall, ranges: rangesOf(model, at), max, rescale, exp };
  for (let row = 0; row < rowCount(model, model.q[at.step]); row++) {
    const state = softmaxState(model, at.step, row);
    const middle = rowBox(model, box, row).y + tall / 2;
    if (!state) continue;
    if (!isFolded) drawMax(context, state, middle, how);
    const [kept, added] = isFolded ? [0, 0] : drawL(context, state, middle, how);
    if (!isTold) continue;
    const now = isFolded ? state.lse : max < 1 ? state.oldM : state.m;
    const color = row === told ? palette.now : palette.text;
    const write = (words, x, more) =>
      text(context, words, x, middle, color, { size: TOLD, weight: "700", alpha: strong, ...more });
    write(formatSteady(now), isFolded ? m : place.m + place.half + 5);
    const sum = rescale < 1 ? state.oldL : state.l;
    if (!isFolded && (sum || !rescale)) write(formatSteady(sum), right, { align: "right" });
    const bar = ((kept + added) * (place.end - place.l)) / how.ranges.most;
    const isScaled = at.phase?.rescales && rescale > 0 && state.oldL > 0 && place.l + bar + TWO < right;
    if (isScaled) write(`α ${formatSteady(state.alpha)}`, right - ROOM, { align: "right" });
  }
}

const tones = ({ state, text: ink }) => [state, mixed(state, ink, 0.5)]; // of the old sum, and of what is new
const barOf = (tall) => Math.max(1, tall * 0.6);

// A tick on an axis; where it was stays for a moment.
function drawMax(context, { oldM, m }, middle, { palette, strong, place, tall, ranges, max, exp }) {
  const { low, high } = ranges;
  const x = (value) => place.m + clamp((value - low) / (high - low)) * place.half;
  const isFirst = !Number.isFinite(oldM);
  const grows = !isFirst && m > oldM && exp < 1;
  const now = isFirst ? m : lerp(oldM, m, smooth(max));
  const tick = { x: x(now) - 1.5, y: middle - barOf(tall) / 2, w: 3, h: barOf(tall) };
  fillBox(context, palette.line, { x: place.m, y: middle - 0.5, w: place.half, h: 1 }, 0.7 * strong);
  if (grows) fillBox(context, palette.muted, { ...tick, x: x(oldM) - 1, w: 2 }, 0.6 * strong * (1 - exp));
  if (!Number.isFinite(now)) return;
  const color = grows && max > 0 ? palette.now : palette.text;
  fillBox(context, color, tick, (isFirst ? max : 1) * strong);
}

// The old sum shrinks, then what the tile adds stands on it. Returns both, as they are at this moment.
export function drawL(context, { oldL, l, alpha }, middle, how) {
  const { palette, strong, place, ranges, tall, rescale } = how;
  const unit = (place.end - place.l) / ranges.most;
  const hasOld = oldL > 0;
  const shrinks = hasOld && alpha < UNCHANGED && rescale > 0;
  const kept = hasOld ? oldL * lerp(1, alpha, smooth(rescale * 2)) : 0;
  const added = (l - (hasOld ? alpha * oldL : 0)) * smooth(hasOld ? rescale * 2 - 1 : rescale);
  const from = { x: place.l, y: middle - barOf(tall) / 2, h: barOf(tall) };
  const was = { ...from, w: oldL * unit };
  if (shrinks && rescale <= 0.5) roundBox(context, was, 1, { line: palette.state, alpha: strong });
  const [old, fresh] = tones(palette);
  fillBox(context, old, { ...from, w: kept * unit }, strong);
  fillBox(context, hasOld ? fresh : old, { ...from, x: place.l + kept * unit, w: added * unit }, strong);
  return [kept, added];
}

function rangesOf(model, at) {
  const steps = stepsOfTile(model, at.kernel, at.head, model.q[at.step]);
  return once(steps, "ranges", () => {
    const rows = range(rowCount(model, model.q[at.step]));
    const valuesOf = (name) => steps.flatMap((step) => rows.map((row) => valueAt(model, name, step, row)));
    const [m, l] = ["m", "l"].map((name) => valuesOf(name).filter(Number.isFinite));
    const [low, high] = [Math.min(...m, Infinity), Math.max(...m, -Infinity)];
    const margin = Math.max(0.05 * (high - low), 1e-6);
    return { low: low - margin, high: high + margin, most: Math.max(1e-30, ...l) };
  });
}
