// What travels between HBM and the chip now: a copy of each tile that is loaded or stored.

import { roundBox, text } from "./draw.js";
import { cellBox, stripTile } from "./layout.js";
import { lerp, smooth, within } from "../run/easing.js";
import { KIND, hasTile, tileKind, tilesOf } from "../run/model.js";
import { stripState } from "./strips.js";
import { paintTiles, tileOfMap } from "./tensor.js";
import { finishes, movedPart, slotOf } from "../run/bench.js";

const FALLS = 0.45; // of its way: in that next to HBM a tile goes up or down, clear of the names on the chip
const SHADE = "rgb(0 0 0 / 0.35)"; // of a copy that has lifted off
const [EDGE, APART] = [6, 20]; // thickness of one number per row, and room for its name

export function drawFlights(context, { layout, bench, chip, model, palette, at, reduced }) {
  if (at.step < 0) return;
  model.phases[at.step].forEach((phase, k) => {
    const part = at.progress[k];
    if (part <= 0 || part >= 1) return;
    const flies = finishes(phase) ? within(part, 0.5, 1) : movedPart(phase, part);
    [...phase.loads, ...phase.stores].forEach((name, i) => {
      const onStrip = model.strips.find((each) => each.name === name);
      const strip = model.data.grid.includes(name) ? tileOfMap(model, at.step, name) : onStrip;
      const tiles = strip && tilesOf(model, strip.along, at.step);
      const out = placeInHbm(layout, model, at.step, name, strip, tiles);
      const comes = i < phase.loads.length;
      const moves = comes || model.stepBytes[at.step].written[numberOf(model, name)] > 0;
      if (name === model.data.hides || !out || !moves) return;
      const { state } = bench;
      const isAtEdge = strip?.lists || !state; // else beside m and l, which need no words
      const other = isAtEdge ? chipEdge(chip, out, i) : { ...state, x: state.x + APART * i, w: EDGE };
      const slot = bench.slots[slotOf(name)] ?? bench.slots[name.replace("partial ", "")] ?? other;
      const words = isAtEdge && slot === other && name;
      const own = model.kernels[at.kernel].slots.find((each) => each.name === slotOf(name));
      const lies = own?.transposed && "flat"; // as on the chip, from the start: it need not turn
      const isEmpty = comes && strip?.isFilled && !stripState(model, strip, at, ...tiles).level;
      const paint = (box) => paintTiles(context, { model, palette, at }, strip, tiles, box, { lies });
      const isHidden = model.data.grid.includes(name) && tileKind(model, at.step) === KIND.hidden;
      const plain = isHidden ? "hidden" : name === "P" ? "now" : (own?.color ?? "state");
      const color = palette[isEmpty ? "surface" : (strip?.color ?? plain)];
      const how = { color, palette, fades: reduced, comes, words, paint: strip && !isEmpty && paint };
      drawCopy(context, out, slot, flies, how);
    });
  });
}

// Of all programs at once: what a step about a tile stores leaves its cell, and lands as the step ends.
export function drawStores(context, { layout, model, palette, reduced: fades }, running) {
  for (const strip of model.strips)
    for (const [step, part] of running) {
      const tiles = tilesOf(model, strip.along, step);
      if (!hasTile(model, step) || !strip.filling[tiles[0]]?.includes(step)) continue;
      const [to, from] = [stripTile(strip, layout, ...tiles), cellBox(layout, model, step)];
      drawCopy(context, to, from, within(part, 0.2, 1), { color: palette[strip.color], palette, fades });
    }
}

const numberOf = ({ data }, name) => data.tensors.findIndex((each) => each.name === name);
const chipEdge = (chip, { y, h }, i) => ({ x: chip.x + 8 + APART * i, y, w: EDGE, h });

// Where a step's tile of a tensor lies in HBM: on its strip, on the map, or (a number a row) beside it.
function placeInHbm(layout, model, step, name, strip, tiles) {
  if (model.data.grid.includes(name) && model.kv[step] >= 0) return cellBox(layout, model, step);
  if (strip) return tiles[0] < 0 ? null : stripTile(strip, layout, ...tiles);
  if (model.q[step] < 0) return null;
  const { y, h } = cellBox(layout, model, step);
  return { x: layout.x + layout.width + 1, y, w: EDGE - 2, h };
}

// A copy lifts off, crosses the road and lands; it never overshoots. With less motion it is here, then there.
export function drawCopy(context, inHbm, onChip, part, how) {
  const { color, palette, fades, paint, comes, words } = how;
  if (part <= 0 || part >= 1) return;
  const lift = smooth(part / 0.22);
  const gone = comes ? part : 1 - part; // of the way from HBM
  const [way, falls] = [within(gone, 0.05, 0.95), within(gone, 0, FALLS)].map(fades ? Math.round : smooth);
  const size = 1 + 0.06 * lift * (1 - smooth(within(part, 0.8, 1)));
  const [w, h] = ["w", "h"].map((side) => lerp(inHbm[side], onChip[side], way ** 3) * size); // small at first
  const x = lerp(inHbm.x + inHbm.w / 2, onChip.x + onChip.w / 2, way);
  const y = lerp(inHbm.y + inHbm.h / 2, onChip.y + onChip.h / 2, falls);
  const box = { x: x - w / 2, y: y - h / 2, w, h };
  context.save();
  Object.assign(context, { shadowColor: SHADE, shadowBlur: 16 * lift, shadowOffsetY: 6 * lift });
  roundBox(context, box, 2, { fill: palette.background });
  context.shadowColor = "transparent";
  if (paint) paint(box);
  else roundBox(context, box, 3, { fill: color, line: palette.background, alpha: 0.9 });
  context.restore();
  if (words) text(context, words, x, box.y + box.h + 9, color, { size: 13, weight: "650", align: "center" });
}
