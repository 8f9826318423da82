// What standard attention does, with the numbers of a run of FlashAttention: S and P go to HBM and back.

import { benchOf } from "./bench.js";
import { fillBox, namePlace, roundBox, text } from "./draw.js";
import { drawCopy } from "./flights.js";
import { middles, stripTile } from "./layout.js";
import { clamp, lerp, smooth, within } from "../run/easing.js";
import { toldRow } from "../run/figure.js";
import { meant } from "../run/formats.js";
import { range, rowNumber } from "../run/model.js";
import { storedTiles } from "../run/stored.js";
import { liesIn, paintTiles } from "./tensor.js";

const [PAD, NAME, BESIDE] = [14, 24, 8];
const [DOT, SMALL] = [6, 0.7]; // pixels of all scores of a text beside those of a long one, and the chip then
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
export function drawStored(context, { layout, chip: whole, model, palette, at }) {
  const [far, stays] = at.many ? [smooth(at.zooms), 1 - clamp(5 * at.zooms - 10)] : [0, 1];
  const small = lerp(1, SMALL, far * stays); // all scores of a long text do not fit: it is seen from afar
  const chip = { ...whole, w: whole.w * small, h: whole.h * small };
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
  roundBox(context, chip, 12, { fill: palette.background, line: at.many ? palette.muted : palette.line });
  namePlace(context, "Chip", "small and fast, magnified", chip, palette);
  const leaves = 1 - within(at.stored, 3.8, 4);
  const since = [Math.max(at.stored, (at.told ?? 0) - 1.2), at.stored - 1]; // a told row goes there first
  [..."SP"].forEach((name, i) => frame(name, tensors[name].square, within(since[i], 0, 0.1) * leaves));
  const steps = storedTiles(at.stored, model.qTiles);
  for (const { reads, writes, q, read, made, written } of steps) {
    // what is read is there until what is made of it has left, or has taken its place
    const isKept = reads[0] === "S" ? made < 1 : written < 1;
    const there = [...(read === 1 && isKept ? reads : []), ...(made > 0 && written < 1 ? [writes] : [])];
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
  if (at.many) drawAll(context, { chip, far, stays, paint, frame, model, palette, at });
  const [come, high] = at.many ? [(2 * far - 1) * stays, 0.85] : [within(at.stored, 3, 3.2) * leaves, 0.5];
  const style = { size: whole.w / 16, weight: "700", align: "center", alpha: come };
  text(context, at.count ?? "", whole.x + whole.w / 2, whole.y + high * whole.h, palette.text, style);
  if (at.told >= 0) drawRow(context, { chip, square: tensors.S.square, paint, model, palette, at });
}

// All scores of this text, as queries meet keys; then, to scale, those of so `many` words, beyond the chip.
function drawAll(context, { chip, far, stays, paint, frame, model, palette, at }) {
  const { kv_len: keys } = model.data.problem;
  const [corner, near] = [chip.y + NAME + PAD, chip.h - NAME - 2 * PAD - MEETS - ASIDE];
  const w = near * (DOT / near) ** far;
  const x = lerp(chip.x + (chip.w - near) / 2, chip.x + PAD, far);
  const y = lerp(corner + MEETS + ASIDE, corner, far);
  const all = (w * at.many) / keys; // more than there is of the stage
  fillBox(context, palette.muted, { x, y, w: all, h: all }, 0.28 * far * stays);
  paint("S", [0, model.qTiles], { x, y, w, h: w }, { part: clamp(at.zooms + 1), alpha: stays });
  const style = { size: 16, weight: "650", alpha: (2 * far - 1) * stays };
  text(context, `${keys} × ${keys}`, x + w + 8, y + w / 2, palette.text, style);
  roundBox(context, { x, y, w, h: w }, 1, { line: palette.text, width: 2, alpha: far * stays });
  if (far > 0) return;
  const beside = { x: x - MEETS - ASIDE, y, w: MEETS, h: w };
  const above = { x, y: y - MEETS - ASIDE / 2, w, h: MEETS };
  for (const [name, box] of Object.entries({ Q: beside, K: above })) {
    frame(name, box, 1);
    paint(name, [0, model.qTiles], box, {});
  }
}

// The scores of one row, as they come, below their words; once their sum is known, the row goes to HBM.
function drawRow(context, { chip, square, paint, model, palette, at }) {
  const { block_m: size, kv_len: keys } = model.data.problem;
  const told = toldRow(model, at.about);
  const row = rowNumber(model, { q: model.q[at.about], row: told });
  const [asking, asked] = model.data.words;
  const box = { x: chip.x + PAD, y: chip.y + 0.48 * chip.h, w: chip.w - 2 * PAD, h: 0.26 * chip.h };
  const [come, goes] = [clamp(at.told), within(at.told, 1.3, 2)];
  const [seen, part, h] = [row + 1, (row + 1) / keys, square.h / keys];
  const tiles = [row / size, (row + 1) / size];
  const scores = ({ w, ...place }) => paint("S", tiles, { ...place, w: w / part }, { part: come * part });
  const home = { ...square, y: square.y + row * h, w: square.w * part, h };
  if (goes === 0 || goes === 1) scores(goes ? home : box);
  drawCopy(context, home, box, goes, { palette, paint: scores });
  const alpha = 1 - within(goes, 0, 0.3);
  const write = (words, x, y, style) => text(context, words, x, y, palette.text, { alpha, ...style });
  const title = `Scores of “${asking[row]}”: sum of e^score = ?`;
  write(title, box.x, box.y + box.h + 22, { size: 18, weight: "650" });
  middles(box.x, box.w, seen).forEach((x, i) => {
    const style = { size: Math.min(15, box.w / seen), turned: true, weight: i === row ? "700" : "" };
    if (i < come * seen) write(asked[i], x, box.y - 8, style);
  });
}
