// The map between the strips: the tile on the chip, and at the end the weights of all that were visited.

import { drawLine, fillBox, roundBox, shareColor, text } from "./draw.js";
import { hasNumbers } from "../run/bench.js";
import { APART, cellBox, showsKeys } from "./layout.js";
import { clamp } from "../run/easing.js";
import { hasTile, keysOfRow, KIND, range, stepsOfTile, tileKind, tileNumber, tilesOf } from "../run/model.js";
import { paintTiles, tileOfMap } from "./tensor.js";

const ROOM_FOR_NUMBERS = 1.1; // units per row and key of a tile
const TICK = 20; // size of the mark of a tile of which nothing is kept
const DROPPED = 0.35; // how strong such a tile is that has no room for it
const hasTicks = ({ cellWidth, cellHeight }) => Math.min(cellWidth, cellHeight) > 1.2 * TICK;
const HIDDEN = 0.37; // of its height, where it says what the mask hides: clear of the keys that fly

// The part of a tile that the mask leaves, as a path: boxes for each row, or two a pixel; the last goes on.
export function visiblePath(context, model, step, box) {
  const { problem } = model.data;
  const { block_m, block_n, rows } = problem;
  const firstRow = tileNumber(model, model.q[step]) * block_m;
  const firstKey = model.kv[step] * block_n;
  const keys = (model.kvEnd[step] - model.kv[step]) * block_n;
  const stairs = Math.min(block_m, Math.ceil(2 * box.h));
  const [unit, height] = [box.w / keys, box.h / stairs];
  context.beginPath();
  for (const stair of range(stairs)) {
    const row = Math.min(firstRow + Math.floor(((stair + 0.5) * block_m) / stairs), rows - 1);
    for (const ends of keysOfRow(problem, row, model.head[step])) {
      const [first, end] = ends.map((key) => clamp(key - firstKey, 0, keys)); // of the tile's keys
      if (first < end)
        context.rect(box.x + first * unit, box.y + stair * height, (end - first) * unit, height);
    }
  }
}

// A tile in one colour, of the part of it that is there: from its left, as a scan goes.
function drawTile(context, layout, model, palette, step, part = 1) {
  const { cells } = model.kernels[model.kernel[step]];
  if (!hasTile(model, step) || !cells || part <= 0) return;
  const box = cellBox(layout, model, step);
  const gap = layout.cellWidth > 7 && layout.cellHeight > 7 ? 1 : 0;
  const kind = tileKind(model, step);
  const [w, h] = [Math.max((box.w - gap) * part, 0.6), Math.max(box.h - gap, 0.6)];
  const share = model.tileShare[step] / model.scaleShare;
  const known = kind === KIND.hidden ? palette.hidden : shareColor(palette, share);
  const color = showsKeys(model) ? palette.key : cells === "share" ? known : palette.plain;
  if (cells === "share" && kind === KIND.partial && layout.cellHeight >= 6 && part === 1) {
    context.fillStyle = color;
    visiblePath(context, model, step, { ...box, w, h });
    context.fill();
  } else fillBox(context, color, { ...box, w, h });
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

// The ground: what the mask skips is one flat shade. Others stay empty, in lines, until they are visited.
function drawGround(context, layout, model, palette) {
  const { x: left, y: top, width, height, cellWidth, cellHeight } = layout;
  const fill = palette[showsKeys(model) ? "line" : "background"]; // keys are seen before they are read
  roundBox(context, { x: left, y: top, w: width, h: height }, 2, { fill });
  for (const [first, end] of skippedTiles(model)) {
    const x = left + (first % model.kvTiles) * cellWidth;
    const y = top + Math.floor(first / model.kvTiles) * cellHeight;
    fillBox(context, palette.hidden, { x, y, w: (end - first) * cellWidth, h: cellHeight });
  }
  if (cellWidth < 8 || cellHeight < 8) return;
  for (let kv = 1, x = left + cellWidth; kv < model.kvTiles; kv++, x += cellWidth)
    drawLine(context, palette.line, 0.5, [x, top, x, top + height]);
  for (let q = 1, y = top + cellHeight; q < model.qTiles; q++, y += cellHeight)
    drawLine(context, palette.line, 0.5, [left, y, left + width, y]);
}

// Whether the numbers of a tile have room on the map.
function isDrawnInNumbers(layout, model) {
  if (!hasNumbers(model)) return false;
  const { block_m: rows, block_n: keys } = model.data.problem;
  const isLarge = Math.min(layout.cellWidth / keys, layout.cellHeight / rows) >= ROOM_FOR_NUMBERS;
  return isLarge && model.offsets.length >= Math.min(rows, model.data.problem.rows);
}

// A tile in its numbers, as far as its columns have `come`.
function drawNumbers(context, layout, { model, palette, at }, step) {
  const tile = tileOfMap(model, step, model.kernels[model.kernel[step]].cells === "share" ? "P" : "S");
  const [tiles, box] = [tilesOf(model, "q", step), cellBox(layout, model, step)];
  if (tile) paintTiles(context, { model, palette, at }, tile, tiles, box, { lies: "", part: at.come });
  return tile;
}

// What is there at a moment: of the `steps` that are done what HBM keeps, or a tick, and at the end all of
// it; of all programs at once those `running`, [step, part], as time goes.
export function drawMap(context, { layouts, layoutOf, model, palette, steps, running = [], at }) {
  layouts.forEach((layout) => drawGround(context, layout, model, palette));
  const inNumbers = layouts.length === 1 && isDrawnInNumbers(layouts[0], model);
  const isKept = isInHbm(model, at) || showsKeys(model);
  const drops = !isKept && (model.data.ticks || (inNumbers && !at.finished));
  for (const step of steps.filter((each) => hasTile(model, each))) {
    const layout = layoutOf(step);
    const { x, y, w, h } = cellBox(layout, model, step);
    if (drops && hasTicks(layout))
      text(context, "✓", x + w / 2, y + h / 2, palette.muted, { size: TICK, align: "center" });
    else if (drops) fillBox(context, palette.now, { x, y, w: w - 1, h: h - 1 }, DROPPED);
    else if (!(inNumbers && drawNumbers(context, layout, { model, palette, at }, step)))
      drawTile(context, layout, model, palette, step);
  }
  for (const [step, part] of running) drawTile(context, layoutOf(step), model, palette, step, part);
  const asked = at.asks ? stepsOfTile(model, at.kernel, at.head, model.q[at.about]) : [];
  const reached = asked.slice(0, Math.ceil(at.asks * asked.length));
  for (const { x, y, w, h } of reached.map((step) => cellBox(layoutOf(step), model, step)))
    text(context, "?", x + w / 2, y + h / 2, palette.now, { size: 0.6 * h, weight: "700", align: "center" });
}

export const isInHbm = ({ data }, at) => data.grid.length > 0 || at.stored >= 0;

// HBM. A map that no algorithm stores is not in it: HBM goes around two of its sides. Several are without it.
export function drawHbm(context, { x, y, w, h }, layouts, model, palette, at) {
  const isStored = isInHbm(model, at);
  const [{ x: left, y: top, height, shelf, room }] = layouts;
  const box = { x, y, w: isStored ? w : room, h };
  if (isStored || shelf) return roundBox(context, box, 12, { fill: palette.surface, line: palette.line });
  if (layouts.length > 1) return;
  const inner = [left - APART, top - APART];
  const bottom = Math.min(y + h, top + height + 2 * APART);
  const corners = [[x + w, y], [x + w, inner[1]], inner, [inner[0], bottom], [x, bottom], [x, y]];
  Object.assign(context, { fillStyle: palette.surface, strokeStyle: palette.line, lineWidth: 1 });
  context.beginPath();
  context.moveTo(x + w / 2, y);
  corners.forEach((corner, i) => context.arcTo(...corner, ...(corners[i + 1] ?? corners[0]), 10));
  context.closePath();
  context.fill();
  context.stroke();
}

// What the map is: in HBM only what an algorithm writes there.
export function nameMap(context, layout, model, palette, at) {
  const { x, y, width, height } = layout;
  const isStored = isInHbm(model, at);
  const edge = { x: x - 0.5, y: y - 0.5, w: width + 1, h: height + 1 };
  context.setLineDash(isStored ? [] : [3, 3]);
  roundBox(context, edge, 2, { line: isStored ? palette.text : palette.muted, width: isStored ? 1.5 : 1 });
  context.setLineDash([]);
  const isLit = !model.data.ticks && (at.finished || !isDrawnInNumbers(layout, model));
  const hasTiles = model.kernels[at.kernel].cells; // the first kernel of a backward pass has none
  const inParts = model.data.ticks && model.keyParts.length > 0;
  const used = model.phases.some((_, i) => at.isDone(i)) && (hasTicks(layout) ? "✓" : "filled:");
  const dropped = inParts ? "keys, in parts" : used ? `${used} used and dropped` : "";
  const unlit = hasTiles ? dropped : "weights, P: not in HBM";
  const own = isLit ? "weights, drawn for you" : unlit;
  const done = model.phases.filter((_, i) => i === at.step || at.isDone(i)).flat();
  const isWritten = (name, i) => !i || done.some(({ stores }) => stores.includes(name));
  const words = isStored ? `in HBM: ${model.data.grid.filter(isWritten).join(" and ")}` : own;
  if (model.data.observed || layout.shelf || width < words.length * 6) return;
  const style = { size: 13.5, align: "center", weight: "600" };
  text(context, words, x + width / 2, y + height + 11, palette.text, style);
  const row = Math.floor(HIDDEN * model.qTiles);
  const isSkipped = model.kinds[(row + 1) * model.kvTiles - 1] === KIND.skipped;
  const hidden = model.data.words ? "later words: hidden" : "hidden by the mask";
  if (isSkipped && width > 240)
    text(context, hidden, x + width - 8, y + HIDDEN * height, palette.muted, { size: 12.5, align: "right" });
}

export function drawPinnedRow(context, layout, model, palette, pinned) {
  const offset = model.offsets[pinned.row] / model.data.problem.block_m;
  const y = layout.y + (pinned.q + offset) * layout.cellHeight + 0.5;
  drawLine(context, palette.now, 1, [layout.x, y, layout.x + layout.width, y], [4, 3]);
}
