// What standard attention does, with the numbers of a run of FlashAttention: S and P go to HBM and back.

import { benchOf } from "./bench.js";
import { drawChipBox, fillBox, namePlace, roundBox, text } from "./draw.js";
import { drawCopy } from "./flights.js";
import { stripTile } from "./layout.js";
import { boxBetween, clamp, lerp, smooth, within } from "../run/easing.js";
import { formatBytes, formatSteady, meant } from "../run/formats.js";
import { range, rowNumber, sum } from "../run/model.js";
import { bytesOfScores, storedTiles } from "../run/stored.js";
import { drawPair, pairOf } from "./pair.js";
import { liesIn, paintTiles } from "./tensor.js";

const [PAD, NAME, WIDEST] = [14, 24, 4]; // how far whole rows give way
const [MEETS, ASIDE] = [40, 20]; // of the keys above all scores and the queries beside them, and apart
const [LEAVES, LANDS, NEAR] = [1, 1.9, 2.7]; // from afar; from farther away, with HBM; then near again
const allOrOne = (model, name, q) => ("KV".includes(name) ? [0, model.kvTiles] : [q, q + 1]);

// How the matrices lie in HBM: on strips, and S and P where else is the map.
function tensorsOf(layout, model) {
  const tiles = model.qTiles;
  const below = Math.min(layout.width, layout.height / 2 - NAME);
  const w = Math.max(below, Math.min(layout.width / 2 - 4, layout.height - NAME));
  const S = { x: layout.x, y: layout.y + NAME, w, h: w };
  const squares = { S, P: w > below ? { ...S, x: S.x + w + 8 } : { ...S, y: S.y + w + NAME } };
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

// From how `far` all scores of `many` words are seen to scale, and from `farther` HBM too, of whose side
// theirs is a `part`; and how small the chip is then.
function seenFrom({ many, zooms }, { w, h }, model) {
  if (!many) return { far: 0, farther: 0, stays: 1, small: 1 };
  const [far, farther] = [smooth(zooms), smooth(within(zooms, LEAVES, LANDS))];
  const [scores, stays] = [bytesOfScores(model, many), 1 - within(zooms, NEAR, 3)];
  const [side, part] = [Math.min(h, w / 2), Math.sqrt(scores / model.data.gpu.hbm)];
  const fits = Math.sqrt(bytesOnChip(model) / scores) * part ** farther; // of it, if the chip is full
  const small = lerp(1, (fits * side) / Math.sqrt(w * h), far * stays);
  return { far, farther, stays, scores, side, part, small };
}

// Three kernels work where FlashAttention does, on as many rows at a time: P takes the place of S.
export function drawStored(context, { layout, hbm, chip: whole, model, palette, at }) {
  const from = seenFrom(at, whole, model);
  const { far, farther, stays, small } = from;
  const chip = { ...whole, w: whole.w * small, h: whole.h * small };
  const tensors = tensorsOf(layout, model);
  const stateless = { ...model.kernels[at.kernel], series: [] }; // no m, no l
  const { slots: own } = benchOf(chip, stateless, model, null, WIDEST);
  const onChip = { ...own, P: own.S };
  const paint = (name, tiles, box, { lies = name === "K" && "flat", ...more }) =>
    paintTiles(context, { model, palette, at }, tensors[name], tiles, box, { lies, ...more });
  const frame = (name, box, come) => {
    const alpha = smooth(come);
    roundBox(context, box, 3, { fill: palette.background, line: palette.line, alpha });
    const style = { size: 14, weight: "650", alpha };
    text(context, box.w > 70 ? meant(name) : name, box.x, box.y - 11, palette[tensors[name].color], style);
  };
  const cover = { fill: palette.background, line: palette.background, width: 3, alpha: far * stays };
  roundBox(context, hbm, 12, cover); // it is to scale, or not there
  drawChipBox(context, chip, palette);
  const scale = small < 0.7 ? `${formatBytes(bytesOnChip(model))}, to scale` : "small and fast, magnified";
  const place = { x: chip.x + farther * stays * chip.w, y: chip.y, w: Math.max(chip.w, whole.w / 4) };
  namePlace(context, "Chip", scale, place, palette);
  const leaves = 1 - within(at.stored, 3.8, 4);
  const [size, middle] = [whole.w / 16, [whole.x + whole.w / 2, whole.y + whole.h / 2]];
  const say = (words, alpha) =>
    text(context, words, ...middle, palette.text, { size, weight: "700", align: "center", alpha });
  [..."SP"].forEach((name, i) => frame(name, tensors[name].square, within(at.stored - i, 0, 0.1) * leaves));
  const steps = storedTiles(at.stored, model.qTiles);
  for (const { reads, writes, q, read, made, written, gone } of steps) {
    // what is read is there until what is made of it has taken its place, or all is gone
    const isKept = read === 1 && (reads[0] !== "S" || made < 1);
    const there = gone < 1 ? [...(isKept ? reads : []), ...(made > 0 ? [writes] : [])] : [];
    const other = reads[0] === "S" && (made < 0.05 ? "P" : "S"); // both have one place, and it one name
    const alpha = 1 - within(gone, 0, 0.4);
    for (const name of there) if (name !== other) frame(name, onChip[name], alpha);
    for (const name of there)
      paint(name, allOrOne(model, name, q), onChip[name], { part: name === writes ? made : 1, alpha });
    say("the chip is cleared", within(gone, 0.3, 0.5) - within(gone, 0.85, 1));
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
  if (at.pair >= 0) drawPair(context, chip, { model, palette, step: at.opens, row: at.row, part: at.pair });
  else if (at.many) drawAll(context, from, { whole, paint, frame, model, palette, at });
  else say(at.count ?? "", within(at.stored, 3, 3.2) * leaves);
}

// What programs can have on all SMs: registers and shared memory, without L2.
const bytesOnChip = ({ data }) => data.sms * sum(Object.values(data.gpu.limits));

// All scores of this text, as queries meet keys; then, to scale, those of `many` words; then HBM with them.
function drawAll(context, seenAt, { whole, paint, frame, model, palette, at }) {
  const { side, far, farther, part, scores } = seenAt;
  const stays = seenAt.stays ** 6; // gone before the chip is large again
  const { kv_len: keys } = model.data.problem;
  const near = whole.h - NAME - 2 * PAD - MEETS - ASIDE;
  const w = near * (((keys / at.many) * side) / near) ** far;
  const x = lerp(whole.x + (whole.w - near) / 2, whole.x + whole.w - side, far);
  const y = lerp(whole.y + NAME + PAD + MEETS + ASIDE, whole.y, far);
  const all = ((w * at.many) / keys) * part ** farther;
  const hbm = all / part;
  const look = { fill: palette.surface, line: palette.line, alpha: stays * within(farther, 0, 0.3) };
  roundBox(context, { x, y, w: hbm, h: hbm }, 0, look);
  fillBox(context, palette.muted, { x, y, w: all, h: all }, lerp(0.28, 1, farther) * far * stays);
  if (!farther) paint("S", [0, model.qTiles], { x, y, w, h: w }, { part: clamp(at.zooms + 1) });
  const write = (words, left, top, size, alpha, align) =>
    text(context, words, left, top, palette.text, { weight: "700", size, align, alpha: alpha * stays });
  const [bytes, seen] = [formatBytes(scores), within(farther, 0.9, 1)];
  const alone = within(far, 0.985, 1) * (1 - within(farther, 0, 0.2));
  write(bytes, x + all / 2, y + all / 2, all / 8, alone, "center");
  write(`scores: ${bytes}`, x + all + 8, y + all / 2, side / 20, seen);
  write(`HBM: ${formatBytes(model.data.gpu.hbm)}`, x + hbm / 2, y + hbm / 2, side / 11, seen, "center");
  if (far > 0) return;
  const beside = { x: x - MEETS - ASIDE, y, w: MEETS, h: w };
  const above = { x, y: y - MEETS - ASIDE / 2, w, h: MEETS };
  for (const [name, place] of Object.entries({ Q: beside, K: above })) {
    frame(name, place, 1);
    paint(name, [0, model.qTiles], place, {});
  }
  const { key, score } = pairOf(model, at.opens, at.row); // it was just made, and goes to its place
  const [row, unit] = [rowNumber(model, { q: model.q[at.opens], row: at.row }), w / keys];
  const [cell, from] = [{ x: x + key * unit, y: y + row * unit, w: unit, h: unit }, whole.x + 0.87 * whole.w];
  const flies = boxBetween({ ...cell, x: from, y: y + w }, cell, smooth(2 * at.zooms + 2));
  roundBox(context, flies, 1, { line: palette.now, width: 2 });
  const bold = { size: 18, weight: "700", halo: palette.background };
  text(context, formatSteady(score), flies.x + unit + 4, flies.y + unit / 2, palette.text, bold);
}
