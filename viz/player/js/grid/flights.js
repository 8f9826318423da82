// What travels between HBM and the chip now: a copy of each tile that is loaded or stored, and its bytes.

import { roundBox, text } from "./draw.js";
import { formatBytes } from "../run/formats.js";
import { cellBox, stripTile } from "./layout.js";
import { lerp, smooth, within } from "../run/easing.js";
import { bytesOfPhase, sum, tilesOf } from "../run/model.js";
import { liesIn, paintTiles } from "./tensor.js";
import { finishes, movedPart, slotOf } from "../run/bench.js";

const FALLS = 0.6; // of its way: in that next to HBM a tile goes up or down, clear of the names on the chip
const SHADE = "rgb(0 0 0 / 0.35)"; // of a copy that has lifted off
const EDGE = 6; // thickness of what has no strip of its own: one number per row

export function drawFlights(context, { layout, bench, chip, model, palette, at, reduced }) {
  if (at.step < 0) return;
  model.phases[at.step].forEach((phase, k) => {
    const part = at.progress[k];
    if (part <= 0 || part >= 1) return;
    const flies = finishes(phase) ? within(part, 0.5, 1) : movedPart(phase, part);
    [...phase.loads, ...phase.stores].forEach((name, i) => {
      const strip = model.strips.find((each) => each.name === name);
      const tiles = strip && tilesOf(model, strip.along, at.step);
      const out = placeInHbm(layout, model, at.step, name, strip, tiles);
      if (name === model.data.hides || !out) return;
      // without a slot: beside m and l, or on a narrow chip above the row that it makes or is
      const row = bench.strip && { ...(i < phase.loads.length ? bench.slots.S : bench.strip), h: EDGE };
      const other = strip?.lists ? chipEdge(chip, out) : bench.state ? { ...bench.state, w: EDGE } : row;
      const slot = bench.slots[slotOf(name)] ?? bench.slots[name.replace("partial ", "")] ?? other;
      const comes = i < phase.loads.length;
      const lies = strip && liesIn(layout, model, strip);
      const paint =
        strip && ((box) => paintTiles(context, { model, palette, at }, strip, tiles, box, { lies }));
      const own = model.kernels[at.kernel].slots.find((each) => each.name === slotOf(name));
      const color = palette[strip?.color ?? (name === "P" ? "now" : (own?.color ?? "state"))];
      const bytes = i === 0 && phase === at.phase ? sum(bytesOfPhase(model, at.step, phase)) : 0;
      const words = bytes > 0 ? formatBytes(bytes) : "";
      const fades = reduced || Boolean(bench.strip); // a narrow chip has its words in between
      const how = { color, palette, words, fades, bottom: chip.y + chip.h, paint, lies: slot && lies, comes };
      drawCopy(context, out, slot ?? chipEdge(chip, out), flies, how);
    });
  });
}

const chipEdge = (chip, { y, h }) => ({ x: chip.x + 8, y, w: EDGE, h });

// Where a step's tile of a tensor lies in HBM: on its strip, on the map, or (a number a row) beside it.
function placeInHbm(layout, model, step, name, strip, tiles) {
  if (strip) return tiles[0] < 0 ? null : stripTile(strip, layout, ...tiles);
  if (model.data.grid.includes(name) && model.kv[step] >= 0) return cellBox(layout, model, step);
  if (model.q[step] < 0) return null;
  return {
    x: layout.x + layout.width + 1,
    y: layout.y + model.q[step] * layout.cellHeight,
    w: EDGE - 2,
    h: layout.cellHeight,
  };
}

// A copy lifts off, crosses the road and lands; it never overshoots. With less motion it is here, then there.
export function drawCopy(context, inHbm, onChip, part, how) {
  const { color, palette, words, fades, bottom, paint, lies, comes } = how;
  if (part <= 0 || part >= 1) return;
  const lift = smooth(part / 0.22);
  const gone = comes ? part : 1 - part; // of the way from HBM
  const [way, falls] = [within(gone, 0.05, 0.95), within(gone, 0, FALLS)].map(fades ? Math.round : smooth);
  const size = 1 + 0.06 * lift * (1 - smooth(within(part, 0.8, 1)));
  const turned = lies === "turned" ? { w: onChip.h, h: onChip.w } : onChip;
  const [w, h] = ["w", "h"].map((side) => lerp(inHbm[side], turned[side], way) * size);
  const x = lerp(inHbm.x + inHbm.w / 2, onChip.x + onChip.w / 2, way);
  const y = lerp(inHbm.y + inHbm.h / 2, onChip.y + onChip.h / 2, falls);
  const box = { x: -w / 2, y: -h / 2, w, h };
  context.save();
  context.translate(x, y);
  if (lies === "turned") context.rotate((Math.PI / 2) * way);
  Object.assign(context, { shadowColor: SHADE, shadowBlur: 16 * lift, shadowOffsetY: 6 * lift });
  roundBox(context, box, 2, { fill: palette.background });
  context.shadowColor = "transparent";
  if (paint) paint(box);
  else roundBox(context, box, 3, { fill: color, line: palette.background, alpha: 0.9 });
  context.restore();
  if (!words || fades) return;
  const alpha = Math.min(within(part, 0.1, 0.25), 1 - within(part, 0.85, 1));
  const wide = words.length * 7.4 + 18;
  const below = Math.min(y + lerp(inHbm.h, onChip.h, way) / 2 + 16, bottom - 14);
  const label = { x: x - wide / 2, y: below - 11, w: wide, h: 22 };
  roundBox(context, label, 11, { fill: palette.text, alpha: 0.92 * alpha });
  text(context, words, x, below, palette.background, { align: "center", weight: "600", size: 13.5, alpha });
}
