// A matrix on the chip. Of recorded numbers: between what it was and what the phase makes of it; those
// that are written are never between two. Of others: whether the data are there, and how much of them.

import { colorsOf, fillBox, inkOn, mixed, shareColor, text } from "./draw.js";
import { cell } from "../run/formats.js";
import { countsOf } from "./layout.js";
import { clamp, smooth } from "../run/easing.js";
import { visiblePath } from "./map.js";
import { isSquare, progressIn, progressOfPhase, roleOf, slotOf } from "../run/bench.js";
import { KIND, tileKind } from "../run/model.js";
import { drawSumOfRows } from "./sums.js";

const [SMALLEST, LARGEST] = [11, 17]; // of a number
const sizeIn = (wide, high) => Math.min(LARGEST, high * 0.8, wide * 0.317); // of a number in a cell
export const isReadable = (wide, high = LARGEST / 0.8) => sizeIn(wide, high) >= SMALLEST;
const ALONE = 1.4; // how much larger it is if a row has no other
const WAVE = 0.11; // of a row: how much later the next column of a product appears
const USED = 0.6; // how strong a tile is drawn that nothing needs any more

export function drawMatrix(context, slot, box, how) {
  const { now, old, part, phase, held, used, last, model, palette, strong, only = null, zoom = 1 } = how;
  const role = phase ? roleOf(phase).replace("move", "") : ""; // what has landed stands
  const square = isSquare(slot);
  if (square && used === 1) return; // it was used up, and never leaves the chip
  const [down, across] = countsOf(model, slot, only);
  const [cw, ch] = [box.w / across, box.h / down];
  const colorOf = colorsOf(slot, how);
  const isSpent = square && last && roleOf(last) === "product";
  const turned = down === 1 && !isReadable(cw * zoom); // of one row that stands alone, which is high
  const [along, beside] = turned ? [ch, cw] : [cw, ch];
  const isOne = slot.columns === "one"; // it may be squeezed a little
  const size = sizeIn(isOne ? along * ALONE : along, beside);
  const hasRoom = size * zoom >= SMALLEST && (strong > 0.7 || isOne);
  const gap = Math.min(cw, ch) > 5 ? 1 : 0;
  const alpha = (square ? 1 : held) * (used === 1 ? Math.min(USED, strong) : strong);
  for (let i = 0; i < down; i++) {
    for (let j = 0; j < across; j++) {
      const [line, c] = slot.transposed ? [j, i] : [i, j];
      const r = slot.rows === "q_tile" ? (only ?? line) : line;
      if ((only === null && r >= now.rows) || c >= now.columns) continue;
      const come = comes(role, part, { i, j, down, across });
      const scale = (old || !role ? 1 : come) * (isSpent ? left(used, j, across) : 1);
      if (scale < 0.04) continue;
      const [was, value] = [old ? old.at(r, c) : NaN, now.at(r, c)];
      const after = colorOf(now, value);
      const color = old && come < 1 ? mixed(colorOf(old, was), after, clamp(come)) : after;
      const [w, h] = [(cw - gap) * scale, (ch - gap) * scale];
      const [x, y] = [box.x + (j + 0.5) * cw - gap / 2, box.y + (i + 0.5) * ch - gap / 2];
      fillBox(context, color, { x: x - w / 2, y: y - h / 2, w, h }, alpha);
      const shown = come >= 0.5 || !old ? value : was;
      if (!hasRoom || scale < 0.8 || Number.isNaN(shown)) continue;
      const ink = inkOn(mixed(palette.surface, color, alpha), palette);
      text(context, cell(shown), x, y, ink, { size, align: "center", turned, widest: along - 2 });
    }
  }
}

// How far a cell has come: a product goes row by row, exponentials change with the name above them.
function comes(role, part, { i, j, down, across }) {
  if (role === "product") return smooth(part * (down + 1 + WAVE * across) - i - WAVE * j);
  if (role === "mask") return smooth(part * (down + 1) - i);
  return smooth(part);
}

// What is left of a cell in a column that a product uses up.
const left = (used, column, columns) => 1 - smooth((columnsUsed(used, columns) - column) / 1.6);
export const columnsUsed = (used, columns) => used * (columns + 2) - 0.6;

const FULL = 0.75; // how strong a tensor's colour is

export function drawBlock(context, slot, box, how) {
  const { model, palette, at, strong, held, used } = how;
  if (held <= 0) return;
  if (isSquare(slot)) return drawSquare(context, slot, box, how);
  const kernel = model.kernels[at.kernel];
  const isSum = ({ needs, makes }) => needs.includes(slot.name) && makes.includes(slot.name);
  if (kernel.phases[1].some(isSum)) return drawSumOfRows(context, slot, box, how, isSum);
  fillBox(context, palette[slot.color], box, (used === 1 ? USED * FULL : FULL) * held * strong);
}

// Scores come from the top, weights from the left in the colour of their share; the product uses them up.
function drawSquare(context, slot, box, { model, palette, at, strong, used, last }) {
  if (used === 1) return;
  const fills = ({ makes, loads, needs }) =>
    [...(needs.length ? makes : []), ...loads].some((name) => slotOf(name) === slot.name);
  const showsWeights = ({ shows }) => slot.name === "S" && shows === "share";
  const gone = last && roleOf(last) === "product" ? used * box.w : 0;
  const made = progressOfPhase(model, at, fills, 1);
  const rest = { ...box, x: box.x + gone };
  fillBox(context, palette.plain, { ...rest, w: box.w - gone, h: box.h * made }, 0.5 * strong);
  const weights = progressOfPhase(model, at, showsWeights, 0) * box.w;
  const color = shareColor(palette, model.tileShare[at.step] / model.scaleShare);
  fillBox(context, color, { ...rest, w: weights - gone }, strong);
  const isCut = tileKind(model, at.step) === KIND.partial && gone === 0;
  const mask = isCut ? progressIn(model, at, "mask", made) : 0;
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
