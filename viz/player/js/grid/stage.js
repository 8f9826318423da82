// The grid of score tiles: what was visited, what is being worked on.

import { drawLine, fillBox, ink, shareColor, text } from "./draw.js";
import { cellBox } from "./layout.js";
import { KIND, hasTile, keysOfRow, tileKind, tileNumber } from "../run/model.js";

const ROOM_FOR_A_LETTER = 13; // on a tile

// What the mask hides.
const crossedIn = ({ line }) => ({ color: line, spacing: 4, cross: true });

function gapBetween(layout) {
  return layout.cellWidth > 5 && layout.cellHeight > 5 ? 1 : 0;
}

// The part of a tile that the mask leaves, as a path: a staircase with a stair per row, or two per pixel if
// the rows are lower than that. Rows past the end look like the last one.
export function visiblePath(context, model, step, box) {
  const { problem } = model.data;
  const { block_m, block_n, rows } = problem;
  const firstRow = tileNumber(model, model.q[step]) * block_m;
  const firstKey = model.kv[step] * block_n;
  const keys = (model.kvEnd[step] - model.kv[step]) * block_n;
  const stairs = Math.min(block_m, Math.ceil(2 * box.h));
  // [first, end) of the tile's keys that a stair shows
  const seen = Array.from({ length: stairs }, (_, stair) => {
    const row = Math.min(firstRow + Math.floor(((stair + 0.5) * block_m) / stairs), rows - 1);
    return keysOfRow(problem, row).map((key) => Math.max(0, Math.min(key - firstKey, keys)));
  });
  const corner = (key, stair) =>
    context.lineTo(box.x + (box.w * key) / keys, box.y + (box.h * stair) / stairs);
  context.beginPath();
  seen.forEach(([, end], stair) => [stair, stair + 1].forEach((at) => corner(end, at)));
  seen.toReversed().forEach(([first], i) => [stairs - i, stairs - i - 1].forEach((at) => corner(first, at)));
  context.closePath();
}

function drawDone(context, layout, model, palette, step) {
  const { cells } = model.kernels[model.kernel[step]];
  if (!hasTile(model, step) || !cells) return;
  const box = cellBox(layout, model, step);
  const gap = gapBetween(layout);
  const inColor = cells === "share";
  const kind = tileKind(model, step);
  const isCut = kind === KIND.partial && layout.cellHeight >= 6;
  const [w, h] = [Math.max(box.w - gap, 0.6), Math.max(box.h - gap, 0.6)];
  const color = inColor ? shareColor(palette, model.tileShare[step] / model.scaleShare) : palette.plain;
  // once weights are known: what the mask hides of the tile is crossed, as the tiles are that it skips
  if (inColor && (isCut || kind === KIND.hidden)) {
    context.clearRect(box.x, box.y, box.w, box.h);
    fillBox(context, palette.surface, box.x, box.y, w, h);
    fillBox(context, crossedIn(palette), box.x, box.y, w, h);
    context.fillStyle = color;
    if (kind !== KIND.hidden) {
      visiblePath(context, model, step, { ...box, w, h });
      context.fill();
    }
  } else fillBox(context, color, box.x, box.y, w, h);
  drawTensorName(context, box, model, palette, step);
}

// The tensor of which the tile lies in HBM now, if its kernel writes or reads such a one.
function drawTensorName(context, box, model, palette, step) {
  const name = model.gridTensors[model.kernel[step]];
  if (!name || Math.min(box.w, box.h) < ROOM_FOR_A_LETTER) return;
  const dark = model.tileShare[step] / model.scaleShare < 0.3;
  const { cells } = model.kernels[model.kernel[step]];
  const inColor = cells === "share" && tileKind(model, step) !== KIND.hidden;
  const color = inColor ? (dark ? palette.scale.at(-1) : ink(palette)) : palette.text;
  text(context, name, box.x + box.w / 2, box.y + box.h / 2, color, { align: "center", weight: "600" });
}

// The tile in progress: grey from the phase that computes its scores, in its colour once its share is known.
export function drawInProgress(context, layout, model, palette, at) {
  const [, step] = model.kernels[at.kernel].phases;
  const now = step.indexOf(at.phase);
  const reached = (shown) => {
    const from = step.findIndex((phase) => phase.shows === shown);
    return from >= 0 && now >= from;
  };
  if (reached("share")) drawDone(context, layout, model, palette, at.step);
  else if (reached("scores")) {
    const { x, y, w, h } = cellBox(layout, model, at.step);
    fillBox(context, palette.plain, x, y, w, h);
  }
}

// [first, end) of the tiles beside each other in a row that the mask skips: there may be a million of them.
function* skippedTiles({ kinds, kvTiles }) {
  for (let first = 0, end; first < kinds.length; first = end) {
    end = first + 1;
    if (kinds[first] !== KIND.skipped) continue;
    while (end % kvTiles > 0 && kinds[end] === KIND.skipped) end++;
    yield [first, end];
  }
}

// Tiles that were not visited yet are hatched; tiles that the mask skips are crossed.
function drawUnvisited(context, layout, model, palette) {
  const { x: left, y: top, width, height, cellWidth, cellHeight } = layout;
  fillBox(context, { color: palette.line, spacing: 6 }, left, top, width, height);
  const gap = gapBetween(layout);
  for (const [first, end] of skippedTiles(model)) {
    const x = left + (first % model.kvTiles) * cellWidth;
    const y = top + Math.floor(first / model.kvTiles) * cellHeight;
    const w = (end - first) * cellWidth;
    fillBox(context, palette.surface, x, y, w, cellHeight);
    if (gap) fillBox(context, crossedIn(palette), x + 1, y + 1, w - 2, cellHeight - 2);
  }
  if (cellWidth < 8 || cellHeight < 8) return;
  for (let kv = 0, x = left; kv <= model.kvTiles; kv++, x += cellWidth) {
    drawLine(context, palette.line, 0.5, [x, top, x, top + height]);
  }
  for (let q = 0, y = top; q <= model.qTiles; q++, y += cellHeight) {
    drawLine(context, palette.line, 0.5, [left, y, left + width, y]);
  }
}

// The tiles that are done, among those that are not visited yet.
export function drawAllDone(context, { layouts, layoutOf, model, palette, steps }) {
  layouts.forEach((layout) => drawUnvisited(context, layout, model, palette));
  steps.forEach((step) => drawDone(context, layoutOf(step), model, palette, step));
}

// A dashed line across the grid along the row that the user picked.
export function drawPinnedRow(context, layout, model, palette, pinned) {
  const offset = model.offsets[pinned.row] / model.data.problem.block_m;
  const y = layout.y + (pinned.q + offset) * layout.cellHeight + 0.5;
  drawLine(context, palette.now, 1, [layout.x, y, layout.x + layout.width, y], [4, 3]);
}
