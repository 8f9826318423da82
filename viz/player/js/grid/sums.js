// The sums on the chip, by their rows: what is kept of the old one, and what a tile adds to it.

import { fillBox } from "./draw.js";
import { finishOf, progressIn, progressOfPhase } from "../run/bench.js";
import { clamp, lerp, smooth } from "../run/easing.js";
import { figureOf, seenShares, softmaxState } from "../run/figure.js";
import { countsOf } from "./layout.js";
import { once, range, rowAbove, rowBox, rowCount, stepsOfTile, valueAt } from "../run/model.js";

// A running sum as one row of bars per row of the tile, `own` or all: it shrinks by alpha, grows by what is
// added, and is divided by l, on one scale. Between recorded states the bars are between them, or as a row
// `adds` value by value.
export function drawSum(context, slot, box, how, own = null) {
  const { now, old, part, phase, held, model, palette, at, strong, adds } = how;
  const [down, across] = countsOf(model, slot);
  const [cw, ch] = [box.w / across, box.h / (own?.length ?? down)];
  const deep = slot.transposed ? cw : ch; // its bars stand across it
  const largest = largestOfRows(model, slot, at);
  const divided = smooth(finishOf(model, at) * 2);
  const come = smooth(phase?.rescales ? part * 2 : part); // it shrinks together with l
  const color = palette[slot.color];
  for (const [i, r] of (own ?? range(now.rows)).entries()) {
    const middle = (slot.transposed ? box.x : box.y) + (i + 0.5) * deep;
    const line = slot.transposed ? { x: middle - 0.5, w: 1 } : { y: middle - 0.5, h: 1 };
    fillBox(context, palette.line, { ...box, ...line }, 0.6 * strong);
    const unit = (deep / 2 - 0.4) / (largest[r] ?? largest[0]); // of one row alone
    const l = softmaxState(model, at.step, rowAbove(model, r))?.l || 1;
    const bar = (c, size, alpha, fill = color) => {
      const high = clamp(size * unit, -deep / 2, deep / 2) * (slot.transposed ? -1 : 1);
      const [from, long] = [Math.min(middle, middle - high), Math.abs(high)];
      const place = slot.transposed
        ? { x: from, y: box.y + c * ch, w: long, h: Math.max(ch - 0.6, 0.5) }
        : { x: box.x + c * cw, y: from, w: Math.max(cw - 0.6, 0.5), h: long };
      fillBox(context, fill, place, alpha);
    };
    for (let c = 0; c < now.columns; c++) {
      const [from, to] = adds ? [adds.was(c), adds.now(c)] : [old ? old.at(r, c) : 0, now.at(r, c)];
      const grows = from * to >= 0 && Math.abs(from) < Math.abs(to);
      if (adds) bar(c, to, strong, palette.value);
      else bar(c, divided ? to : phase?.rescales && part <= 0.5 ? from : 0, 0.25 * strong * held);
      bar(c, adds ? (grows ? from : to) : lerp(from, to, come) / lerp(1, l, divided), strong * held);
    }
  }
}

// The largest number of each row of a sum, in all steps that add to it.
function largestOfRows(model, slot, at) {
  const [q, kv] = [model.q[at.step], model.kv[at.step]];
  const isOfRows = slot.rows === "q_tile";
  return once(model, `${slot.name}|${at.kernel}|${at.head}|${isOfRows ? q : `kv ${kv}`}`, () => {
    const { matrices } = figureOf(model, at.step);
    const { name } = matrices.findLast((each) => each.slot === slot.name);
    const { rows, columns, values } = model.matrices[name];
    const turn = range(model.turnLast[at.step] + 1, model.turnFirst[at.step]);
    const steps = isOfRows ? stepsOfTile(model, at.kernel, at.head, q) : turn;
    const most = new Float64Array(rows).fill(1e-9);
    for (const step of steps) {
      values.subarray(step * rows * columns, (step + 1) * rows * columns).forEach((value, i) => {
        const r = Math.floor(i / columns);
        if (Number.isFinite(value)) most[r] = Math.max(most[r], Math.abs(value));
      });
    }
    return most;
  });
}

// A sum by its rows, each as high as the weight that it holds: what is kept, and what the tile adds on top.
export function drawSumOfRows(context, slot, box, { model, palette, at, strong, held }, isSum) {
  const color = palette[slot.color];
  const added = smooth(progressOfPhase(model, at, (phase) => isSum(phase) && !phase.rescales, 1));
  if (model.q[at.step] < 0 || slot.rows !== "q_tile" || !weightsOfRow(model, at, slot, 0))
    return fillBox(context, color, box, (0.35 + 0.4 * added) * held * strong);
  for (let row = 0; row < rowCount(model, model.q[at.step]); row++) {
    const { y, h: high } = rowBox(model, box, row);
    const [old, kept, all] = weightsOfRow(model, at, slot, row);
    const tall = Math.max(high - (high > 4 ? 1 : 0), 0.6);
    const layer = (from, to, alpha) => {
      const band = { ...box, y: y + high - to * tall, h: (to - from) * tall };
      fillBox(context, color, band, alpha * held * strong);
    };
    if (added < 1 && progressIn(model, at, "rescale", 0) > 0) layer(kept, old, 0.18);
    layer(0, kept, 0.85);
    layer(kept, kept + (all - kept) * added, 0.5);
  }
}

// The weight in a row of O before the step, what is kept of it, and that after the step: of the most that the
// row ever holds, and of all once it is divided by l. null if it is not known.
function weightsOfRow(model, at, slot, row) {
  const state = softmaxState(model, at.step, row);
  if (!state) {
    const [before, after] = (slot.name === "O" && seenShares(model, at, row)) || [];
    return after === undefined ? null : [before, before, after];
  }
  const { oldL, l, alpha } = state;
  const isWhole = model.kernels[at.kernel].phases[1].some(({ stores }) => stores.includes(slot.name));
  const divided = smooth(finishOf(model, at) * 2);
  const most = isWhole ? l : lerp(largestSum(model, at, row), l, divided);
  const old = isWhole ? Number(oldL > 0) : oldL / most;
  const kept = (alpha * oldL) / most;
  return [old, lerp(old, kept, smooth(progressIn(model, at, "rescale", 0))), l / most];
}

// The largest l of a row in the steps of its turn, or of its tile if it comes back to the chip.
export function largestSum(model, at, row) {
  const [first, last] = [model.turnFirst[at.step], model.turnLast[at.step]];
  const lOf = (step) => valueAt(model, "l", step, row) || 0;
  return once(model, `l|${first}|${row}`, () => Math.max(...range(last + 1, first).map(lOf)));
}
