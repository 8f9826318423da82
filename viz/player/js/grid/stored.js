// What standard attention does, with the numbers of a run of FlashAttention: S and P go to HBM and back.

import { benchOf } from "./bench.js";
import { fillBox, namePlace, roundBox, text } from "./draw.js";
import { drawCopy } from "./flights.js";
import { middles, stripTile } from "./layout.js";
import { smooth, within } from "../run/easing.js";
import { toldRow } from "../run/figure.js";
import { meant } from "../run/formats.js";
import { range, rowNumber } from "../run/model.js";
import { storedTiles } from "../run/stored.js";
import { liesIn, paintTiles } from "./tensor.js";

const [PAD, NAME, BESIDE] = [14, 24, 8];
const [ROW, DOT] = [34, 6]; // pixels of a score in a row that is wider than the chip, and of all of a text
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
  roundBox(context, chip, 12, { fill: palette.background, line: palette.line });
  namePlace(context, "Chip", "small and fast, magnified", chip, palette);
  const leaves = 1 - within(at.stored, 3.85, 4);
  [..."SP"].forEach((name, i) => frame(name, tensors[name].square, within(at.stored, i, i + 0.1) * leaves));
  const steps = storedTiles(at.stored, model.qTiles);
  const now = steps.findLast(({ program, read }) => program === Math.floor(at.stored) && read > 0);
  if (now) {
    const names = now.program === 1 ? [now.made > 0.5 ? "P" : "S"] : [...now.reads, now.writes];
    for (const name of names) frame(name, onChip[name], within(at.stored, now.program, now.program + 0.05));
  }
  for (const { reads, writes, q, read, made, written } of steps) {
    const tilesOf = (name) => allOrOne(model, name, q);
    const alpha = reads[0] === "S" ? 1 : 1 - made;
    for (const name of reads) if (read === 1 && made < 1) paint(name, tilesOf(name), onChip[name], { alpha });
    if (written === 0) paint(writes, tilesOf(writes), onChip[writes], { part: made });
    const { lies, placeOf } = tensors[writes];
    if (written === 1) paint(writes, tilesOf(writes), placeOf(q), { alpha: leaves, lies });
  }
  for (const { reads, writes, q, read, written } of steps) {
    for (const name of [...reads, writes]) {
      const comes = name !== writes;
      const how = { palette, comes, paint: (box) => paint(name, allOrOne(model, name, q), box, {}) };
      drawCopy(context, tensors[name].placeOf(q), onChip[name], comes ? read : written, how);
    }
  }
  if (at.many) drawAll(context, { chip, paint, model, palette, at });
  if (at.stored > 3) drawRow(context, { chip, paint, model, palette, at, leaves });
}

// All scores of this text, and to scale those of a text of so `many` words, as far as they have room.
function drawAll(context, { chip, paint, model, palette, at }) {
  const { kv_len: keys } = model.data.problem;
  const [x, y, near] = [chip.x + PAD, chip.y + NAME + PAD, chip.h - NAME - 2 * PAD];
  const [far, w] = [smooth(at.zooms), near * (DOT / near) ** smooth(at.zooms)];
  const all = (w * at.many) / keys;
  const whole = { x, y, w: Math.min(all, chip.w - PAD), h: Math.min(all, near + PAD) };
  roundBox(context, whole, [0, 0, 11, 0], { fill: palette.muted, alpha: 0.28 * far });
  paint("S", [0, model.qTiles], { x, y, w, h: w }, {});
  roundBox(context, { x, y, w, h: w }, 1, { line: palette.text, width: 2, alpha: far });
  const count = `${(at.many ** 2).toLocaleString("en-US")} scores`;
  const style = { size: chip.w / 16, weight: "700", alpha: 2 * far - 1 };
  text(context, count, x + 40, y + near / 2, palette.text, style);
  fillBox(context, palette.background, whole, 5 * at.zooms - 10); // and then it goes
}

// The scores of one row, and the words that they are of: more than there is room for.
function drawRow(context, { chip, paint, model, palette, at, leaves }) {
  const { block_m: size, kv_len: keys } = model.data.problem;
  const row = rowNumber(model, { q: model.q[at.about], row: toldRow(model, at.about) });
  const [asking, asked] = model.data.words;
  const box = { x: chip.x + PAD, y: chip.y + 0.48 * chip.h, w: ROW * keys, h: 0.26 * chip.h };
  const part = Math.min(1, (chip.w - PAD) / box.w);
  const alpha = within(at.stored, 3, 3.2) * leaves;
  paint("S", [row / size, (row + 1) / size], box, { part, alpha });
  const title = `the scores of “${asking[row]}”, and so on`;
  text(context, title, box.x, box.y + box.h + 22, palette.text, { size: 18, weight: "650", alpha });
  const look = { size: 15, alpha, turned: true };
  const places = middles(box.x, box.w, keys).slice(0, part * keys);
  places.forEach((x, i) => text(context, asked[i], x, box.y - 8, palette.text, look));
}
