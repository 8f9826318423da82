// A matrix on the chip whose numbers were not recorded: whether its data are there, and how far they have
// come.

import { fillBox, shareColor } from "./draw.js";
import { lerp, smooth } from "../run/easing.js";
import { seenShares, softmaxState } from "../run/figure.js";
import { isSquare, progressIn, progressOfPhase, roleOf, slotOf } from "../run/bench.js";
import { visiblePath } from "./map.js";
import { KIND, rowCount, tileKind } from "../run/model.js";

const FULL = 0.75; // how strong a tensor's colour is

export function drawBlock(context, slot, box, how) {
  const { model, palette, at, strong, held, used } = how;
  if (held <= 0) return;
  if (isSquare(slot)) {
    if (used < 1) drawSquare(context, slot, box, how);
    return;
  }
  const kernel = model.kernels[at.kernel];
  const isSum = ({ needs, makes }) => needs.includes(slot.name) && makes.includes(slot.name);
  if (kernel.phases[1].some(isSum)) {
    drawSum(context, slot, box, how, isSum);
    return;
  }
  const come = progressOfPhase(model, at, ({ loads }) => loads.includes(slot.name), 1);
  if (held < 1 && come < 1) return; // it is on its way
  fillBox(context, palette[slot.color], box, (used === 1 ? 0.25 : FULL) * held * strong);
}

// Scores, from the top as they are made; weights from the left, in the colour of the tile's share; and what
// the product has used up is gone.
function drawSquare(context, slot, box, { model, palette, at, strong, used, last }) {
  const fills = ({ makes, loads }) => [...makes, ...loads].some((name) => slotOf(name) === slot.name);
  const showsWeights = ({ shows }) => slot.name === "S" && shows === "share";
  const gone = last && roleOf(last) === "product" ? used * box.w : 0;
  const made = progressOfPhase(model, at, fills, 1);
  const left = { ...box, x: box.x + gone };
  fillBox(context, palette.plain, { ...left, w: box.w - gone, h: box.h * made }, 0.5 * strong);
  const weights = progressOfPhase(model, at, showsWeights, 0) * box.w;
  const color = shareColor(palette, model.tileShare[at.step] / model.scaleShare);
  fillBox(context, color, { ...left, w: weights - gone }, strong);
  const isCut = tileKind(model, at.step) === KIND.partial && !context.isVector && gone === 0;
  const mask = isCut ? progressIn(model, at, "mask", 1) : 0;
  if (mask > 0) shadeHidden(context, model, at, box, { palette, mask, strong });
}

function shadeHidden(context, model, at, box, { palette, mask, strong }) {
  context.save();
  context.beginPath();
  context.rect(box.x, box.y, box.w, box.h * mask);
  context.clip();
  visiblePath(context, model, at.step, box);
  context.rect(box.x + box.w, box.y, -box.w, box.h);
  Object.assign(context, { globalAlpha: strong, fillStyle: palette.hidden });
  context.fill("evenodd");
  context.restore();
}

// A sum by its rows: what is kept of the old one, and what the tile adds to it, as parts of the row.
function drawSum(context, slot, box, { model, palette, at, strong, held }, isSum) {
  const color = palette[slot.color];
  const added = smooth(progressOfPhase(model, at, (phase) => isSum(phase) && !phase.rescales, 1));
  const rescaled = smooth(progressIn(model, at, "rescale", 0));
  const isOfRows = model.q[at.step] >= 0 && slot.rows === "q_tile";
  if (!isOfRows || !keptOf(model, at, slot, 0, rescaled)) {
    fillBox(context, color, box, (0.35 + 0.4 * added) * held * strong);
    return;
  }
  const count = rowCount(model, model.q[at.step]);
  const high = box.h / count;
  for (let row = 0; row < count; row++) {
    const [kept, all] = keptOf(model, at, slot, row, rescaled);
    const whole = { ...box, y: box.y + row * high, h: Math.max(high - (high > 4 ? 1 : 0), 0.6) };
    if (kept > 0 && rescaled > 0 && added < 1) fillBox(context, color, whole, 0.18 * strong);
    fillBox(context, color, { ...whole, w: box.w * kept }, 0.85 * held * strong);
    const more = { ...whole, x: box.x + box.w * kept, w: box.w * (all - kept) * added };
    fillBox(context, color, more, 0.5 * held * strong);
  }
}

// The part of a row that was there before the step, as it shrinks, and that after it: of the whole, or of the
// weights that are known at once. null if neither is known.
function keptOf(model, at, slot, row, rescaled) {
  const state = softmaxState(model, at.step, row);
  if (state) return [state.oldL > 0 ? lerp(1, state.alpha, rescaled) : 0, 1];
  return slot.name === "O" ? seenShares(model, at, row) : null;
}
