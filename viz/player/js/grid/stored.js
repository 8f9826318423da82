// What standard attention does, with the numbers of a run of FlashAttention: S and P go to HBM and back.

import { benchOf } from "./bench.js";
import { namePlace, roundBox, text } from "./draw.js";
import { drawCopy } from "./flights.js";
import { middles, stripTile } from "./layout.js";
import { clamp, lerp, smooth, within } from "../run/easing.js";
import { toldRow } from "../run/figure.js";
import { meant } from "../run/formats.js";
import { range, rowNumber } from "../run/model.js";
import { storedTiles } from "../run/stored.js";
import { liesIn, paintTiles } from "./tensor.js";

const [PAD, NAME, BESIDE] = [14, 24, 8];
const [ROW, DOT] = [34, 6]; // pixels of a score of a row that stands alone, at most, and of all of a text
const [MEETS, ASIDE] = [40, 20]; // of the keys above all scores and the queries beside them, and apart
const allOrOne = (model, name, q) => ("KV".includes(name) ? [0, model.kvTiles] : [q, q + 1]);

// How the matrices lie in HBM: on strips, and S and P where else is the map.
function tensorsOf(layout, model) {
  const [tiles, w] = [model.qTiles, (layout.width - BESIDE) / 2];
  const S = { x: layout.x, y: layout.y + NAME, w, h: layout.height - NAME };
  const squares = { S, P: { ...S, x: S.x + w + BESIDE } };
  const all = model.data.standard_parts.map((part) => {
    const strip = model.strips.find(({ name }) => name === part.name);
    const square = squares[part.name];
    const rowsOf = (q) => ({ ...square, y: square.y + (q * square.h) / tiles, h: square.h / tiles - 1 });
    const onStrip = (q) => stripTile(strip, layout, ...allOrOne(model, part.name, q));
    if (!strip) return { ...part, square, along: "q", edges: range(tiles + 1), lies: "", placeOf: rowsOf };
    return { ...strip, lies: liesIn(layout, model, strip), placeOf: onStrip };
  });
  return Object.fromEntries(all.map((each) => [each.name, each]));
}

// Three programs work where FlashAttention does, on as many rows at a time: P takes the place of S.
export function drawStored(context, { layout, chip, model, palette, at }) {
  const tensors = tensorsOf(layout, model);
  const { slots: own } = benchOf(chip, model.kernels[at.kernel], model);
  const onChip = { ...own, P: own.S };
  const paint = (name, tiles, box, { lies = name === "K" && "flat", ...more }) =>
    paintTiles(context, { model, palette, at }, tensors[name], tiles, box, { lies, ...more });
  const frame = (name, box, come) => {
    const alpha = smooth(come);
    roundBox(context, box, 3, { fill: palette.background, line: palette.line, alpha });
    const style = { size: 14, weight: "650", alpha };
    text(context, box.w > 70 ? meant(name) : name, box.x, box.y - 11, palette[tensors[name].color], style);
  };
  if (at.lands < 1) return; // it comes once all is filed
  roundBox(context, chip, 12, { fill: palette.background, line: palette.line });
  namePlace(context, "Chip", "small and fast, magnified", chip, palette);
  const leaves = 1 - within(at.stored, 3.8, 4);
  [..."SP"].forEach((name, i) => frame(name, tensors[name].square, within(at.stored, i, i + 0.1) * leaves));
  const steps = storedTiles(at.stored, model.qTiles);
  for (const { reads, writes, q, read, made, written } of steps) {
    // what is read is there until what is made of it has left, or has taken its place
    const stays = reads[0] === "S" ? made < 1 : written < 1;
    const there = [...(read === 1 && stays ? reads : []), ...(made > 0 && written < 1 ? [writes] : [])];
    const other = reads[0] === "S" && (made < 0.5 ? "P" : "S"); // both have one place, and it one name
    for (const name of there) if (name !== other) frame(name, onChip[name], 1);
    for (const name of there)
      paint(name, allOrOne(model, name, q), onChip[name], { part: name === writes ? made : 1 });
    const { lies, placeOf } = tensors[writes];
    if (written === 1) paint(writes, allOrOne(model, writes, q), placeOf(q), { alpha: leaves, lies });
  }
  for (const { reads, writes, q, read, written } of steps) {
    for (const name of [...reads, writes]) {
      const comes = name !== writes;
      const how = { palette, comes, paint: (box) => paint(name, allOrOne(model, name, q), box, {}) };
      drawCopy(context, tensors[name].placeOf(q), onChip[name], comes ? read : written, how);
    }
  }
  if (at.many) drawAll(context, { chip, paint, frame, model, palette, at });
  const gone = at.many ? 1 - clamp(5 * at.zooms - 10) : leaves;
  const come = at.many ? 2 * smooth(at.zooms) - 1 : within(at.stored, 3, 3.2);
  const style = { size: chip.w / 16, weight: "700", align: "center", alpha: come * gone };
  text(context, at.count ?? "", chip.x + chip.w / 2, chip.y + chip.h / 2, palette.text, style);
  if (at.told >= 0) drawRow(context, { chip, paint, model, palette, at });
}

// All scores of this text, which come as its queries meet its keys; then, to scale, those of a text of so
// `many` words, as far as they have room.
function drawAll(context, { chip, paint, frame, model, palette, at }) {
  const { kv_len: keys } = model.data.problem;
  const [met, far, stays] = [at.zooms + 1, smooth(at.zooms), 1 - clamp(5 * at.zooms - 10)];
  const [corner, near] = [chip.y + NAME + PAD, chip.h - NAME - 2 * PAD - MEETS - ASIDE];
  const w = near * (DOT / near) ** far;
  const x = lerp(chip.x + (chip.w - near) / 2, chip.x + PAD, far);
  const y = lerp(corner + MEETS + ASIDE, corner, far);
  const all = (w * at.many) / keys;
  const whole = {
    x,
    y,
    w: Math.min(all, chip.x + chip.w - x - 1),
    h: Math.min(all, chip.y + chip.h - y - 1),
  };
  roundBox(context, whole, [0, 0, 11, 0], { fill: palette.muted, alpha: 0.28 * far * stays });
  paint("S", [0, model.qTiles], { x, y, w, h: w }, { part: clamp(met), alpha: stays });
  roundBox(context, { x, y, w, h: w }, 1, { line: palette.text, width: 2, alpha: far * stays });
  const sides = {
    Q: { x: x - MEETS - ASIDE, y, w: MEETS, h: w },
    K: { x, y: y - MEETS - ASIDE / 2, w, h: MEETS },
  };
  for (const [name, box] of Object.entries(far > 0 ? {} : sides)) {
    frame(name, box, 1);
    paint(name, [0, model.qTiles], box, {});
  }
}

// The scores of one row, as they come, below the words that they are of.
function drawRow(context, { chip, paint, model, palette, at }) {
  const { block_m: size, kv_len: keys } = model.data.problem;
  const row = rowNumber(model, { q: model.q[at.about], row: toldRow(model, at.about) });
  const [asking, asked] = model.data.words;
  const [seen, room] = [row + 1, chip.w - 2 * PAD];
  const unit = Math.min(ROW, room / seen);
  const left = chip.x + (chip.w - unit * seen) / 2;
  const box = { x: left, y: chip.y + 0.48 * chip.h, w: unit * keys, h: 0.26 * chip.h };
  paint("S", [row / size, (row + 1) / size], box, { part: (at.told * seen) / keys });
  const title = `One row: the scores of “${asking[row]}”`;
  text(context, title, left, box.y + box.h + 22, palette.text, { size: 18, weight: "650" });
  middles(left, unit * seen, seen).forEach((x, i) => {
    const style = { size: Math.min(15, unit), turned: true, weight: i === row ? "700" : "" };
    if (i < at.told * seen) text(context, asked[i], x, box.y - 8, palette.text, style);
  });
}
