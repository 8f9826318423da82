// What travels between HBM and the chip now: a copy of each tile that is loaded or stored, and its bytes.

import { fillBox, roundBox, text } from "./draw.js";
import { formatBytes } from "../run/formats.js";
import { cellBox, stripTile } from "./layout.js";
import { lerp, smooth, within } from "../run/easing.js";
import { bytesOfPhase, sum, tilesOf } from "../run/model.js";
import { finishes, movedPart, slotOf } from "../run/bench.js";

const FALLS = 0.6; // of its way: in that next to HBM a tile goes up or down, clear of the names on the chip
const EDGE = 6; // thickness of what has no strip of its own: one number per row

export function drawFlights(context, { layout, bench, chip, model, palette, at, reduced }) {
  if (at.step < 0) return;
  model.phases[at.step].forEach((phase, k) => {
    const part = at.progress[k];
    if (part <= 0 || part >= 1) return;
    const flies = finishes(phase) ? within(part, 0.5, 1) : movedPart(phase, part);
    [...phase.loads, ...phase.stores].forEach((name, i) => {
      const out = placeInHbm(layout, model, at.step, name);
      if (name === model.data.hides || !out) return;
      const isAddress = model.strips.some((strip) => strip.lists && strip.name === name);
      // without a slot: beside m and l, or on a narrow chip above the row that it makes or is
      const row = bench.strip && { ...(i < phase.loads.length ? bench.slots.S : bench.strip), h: EDGE };
      const other = isAddress ? chipEdge(chip, out) : bench.state ? { ...bench.state, w: EDGE } : row;
      const slot = bench.slots[slotOf(name)] ?? bench.slots[name.replace("partial ", "")] ?? other;
      const inside = slot ?? chipEdge(chip, out);
      const [from, to] = i < phase.loads.length ? [out, inside] : [inside, out];
      const color = palette[colorOf(model, at, name)];
      const bytes = i === 0 && phase === at.phase ? sum(bytesOfPhase(model, at.step, phase)) : 0;
      const words = bytes > 0 ? formatBytes(bytes) : "";
      const fades = reduced || Boolean(bench.strip); // a narrow chip has its words in between
      drawCopy(context, from, to, flies, { color, palette, words, fades, bottom: chip.y + chip.h });
    });
  });
}

const chipEdge = (chip, { y, h }) => ({ x: chip.x + 8, y, w: EDGE, h });

function colorOf(model, { kernel }, name) {
  const strip = model.data.strips.find((each) => each.name === name);
  const slot = model.kernels[kernel].slots.find((each) => each.name === slotOf(name));
  return strip?.color ?? (name === "P" ? "now" : (slot?.color ?? "state"));
}

// Where a step's tile of a tensor lies in HBM: on its strip, on the map, or (a number a row) beside it.
function placeInHbm(layout, model, step, name) {
  const strip = model.strips.find((each) => each.name === name);
  if (strip) {
    const [from, end] = tilesOf(model, strip.along, step);
    return from < 0 ? null : stripTile(strip, layout, from, end);
  }
  if (model.data.grid.includes(name) && model.kv[step] >= 0) return cellBox(layout, model, step);
  if (model.q[step] < 0) return null;
  return {
    x: layout.x + layout.width + 1,
    y: layout.y + model.q[step] * layout.cellHeight,
    w: EDGE - 2,
    h: layout.cellHeight,
  };
}

// A copy lifts off, crosses the road and lands; it never overshoots. With less motion it fades over.
export function drawCopy(context, from, to, part, { color, palette, words, fades, bottom, paint }) {
  if (part <= 0 || part >= 1) return;
  if (fades) {
    fillBox(context, color, from, 0.7 * (1 - part));
    fillBox(context, color, to, 0.7 * part);
    return;
  }
  const lift = smooth(part / 0.22);
  const way = smooth(within(part, 0.06, 0.96));
  const size = 1 + 0.06 * lift * (1 - smooth(within(part, 0.8, 1)));
  const [w, h] = [lerp(from.w, to.w, way) * size, lerp(from.h, to.h, way) * size];
  const x = lerp(from.x + from.w / 2, to.x + to.w / 2, way);
  const start = from.x < to.x ? 0 : 1 - FALLS;
  const y = lerp(from.y + from.h / 2, to.y + to.h / 2, smooth(within(part, start, start + FALLS)));
  const box = { x: x - w / 2, y: y - h / 2, w, h };
  const shadow = { fill: palette.text, alpha: 0.14 * lift };
  roundBox(context, { ...box, x: box.x + 2, y: box.y + 5 * lift }, 3, shadow);
  roundBox(context, box, 3, { fill: palette.background });
  if (paint) paint(box);
  else roundBox(context, box, 3, { fill: color, line: palette.background, alpha: 0.9 });
  if (!words) return;
  const alpha = Math.min(within(part, 0.1, 0.25), 1 - within(part, 0.85, 1));
  const wide = words.length * 7.4 + 18;
  const below = Math.min(box.y + h + 16, bottom - 14);
  const label = { x: x - wide / 2, y: below - 11, w: wide, h: 22 };
  roundBox(context, label, 11, { fill: palette.text, alpha: 0.92 * alpha });
  text(context, words, x, below, palette.background, { align: "center", weight: "600", size: 13.5, alpha });
}
