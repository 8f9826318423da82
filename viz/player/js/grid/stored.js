// What standard attention does, with the numbers of a run of FlashAttention: S and P go to HBM and back.

import { benchOf } from "./bench.js";
import { drawChipBox, fillBox, namePlace, roundBox, text } from "./draw.js";
import { drawCopy } from "./flights.js";
import { stripTile } from "./layout.js";
import { boxBetween, clamp, lerp, smooth, within } from "../run/easing.js";
import { formatBytes, meant } from "../run/formats.js";
import { range, sum } from "../run/model.js";
import { bytesOfScores, storedTiles } from "../run/stored.js";
import { drawPair } from "./pair.js";
import { liesIn, paintTiles } from "./tensor.js";

const [PAD, NAME, BESIDE] = [14, 24, 8];
const [MEETS, ASIDE] = [40, 20]; // of the keys above all scores and the queries beside them, and apart
const [LEAVES, LANDS, NEAR] = [1.6, 2.2, 2.7]; // from afar: all scores go to HBM; then near again
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

// Three kernels work where FlashAttention does, on as many rows at a time: P takes the place of S.
export function drawStored(context, { layout, chip: whole, model, palette, at }) {
  const [far, stays] = at.many ? [smooth(at.zooms), 1 - within(at.zooms, NEAR, 3)] : [0, 1];
  const side = Math.min(whole.h, whole.w / 2); // of all scores of a long text: seen from afar
  const fits = Math.sqrt(bytesOnChip(model) / bytesOfScores(model, at.many)); // of it, if the chip is full
  const small = at.many ? lerp(1, (fits * side) / Math.sqrt(whole.w * whole.h), far * stays) : 1;
  const chip = { ...whole, w: whole.w * small, h: whole.h * small };
  const tensors = tensorsOf(layout, model);
  const { slots: own } = benchOf(chip, { ...model.kernels[at.kernel], series: [] }, model); // no m, no l
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
  drawChipBox(context, chip, palette);
  const scale =
    far > 0.5 && stays === 1 ? `${formatBytes(bytesOnChip(model))}, to scale` : "small and fast, magnified";
  namePlace(context, "Chip", scale, { ...chip, w: Math.max(chip.w, whole.w / 4) }, palette);
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
      paint(name, allOrOne(model, name, q), onChip[name], {
        part: name === writes ? made : 1,
        alpha,
      });
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
  else if (at.many) drawAll(context, { whole, side, far, stays, paint, frame, tensors, model, palette, at });
  else say(at.count ?? "", within(at.stored, 3, 3.2) * leaves);
}

// What programs can have on all SMs: registers and shared memory, without L2.
const bytesOnChip = ({ data }) => data.sms * sum(Object.values(data.gpu.limits));

// All scores of this text, as queries meet keys; then, to scale, those of so `many` words, beyond the chip.
function drawAll(context, { whole, side, far, stays, paint, frame, tensors, model, palette, at }) {
  const { kv_len: keys } = model.data.problem;
  const near = whole.h - NAME - 2 * PAD - MEETS - ASIDE;
  const w = near * (((keys / at.many) * side) / near) ** far;
  const x = lerp(whole.x + (whole.w - near) / 2, whole.x + whole.w - side, far);
  const y = lerp(whole.y + NAME + PAD + MEETS + ASIDE, whole.y, far);
  const all = (w * at.many) / keys;
  const to = { ...tensors.S.square, w: 2 * tensors.S.square.w, h: 2 * tensors.S.square.w };
  const square = boxBetween({ x, y, w: all, h: all }, to, smooth(within(at.zooms, LEAVES, LANDS)));
  fillBox(context, palette.muted, square, 0.28 * far * stays);
  paint(
    "S",
    [0, model.qTiles],
    { x, y, w, h: w },
    { part: clamp(at.zooms + 1), alpha: Number(at.zooms < LEAVES) },
  );
  const style = { size: square.w / 11, weight: "700", align: "center", alpha: within(far, 0.985, 1) * stays };
  const lines = [at.count ?? "", formatBytes(bytesOfScores(model, at.many))];
  lines.forEach((words, i) =>
    text(
      context,
      words,
      square.x + square.w / 2,
      square.y + (0.43 + 0.14 * i) * square.h,
      palette.text,
      style,
    ),
  );
  if (far > 0) return;
  const beside = { x: x - MEETS - ASIDE, y, w: MEETS, h: w };
  const above = { x, y: y - MEETS - ASIDE / 2, w, h: MEETS };
  for (const [name, box] of Object.entries({ Q: beside, K: above })) {
    frame(name, box, 1);
    paint(name, [0, model.qTiles], box, {});
  }
  const hidden = { size: 13, align: "right", alpha: within(at.zooms, -0.1, 0) };
  text(context, "later words: hidden", x + w - 8, y + 0.2 * w, palette.muted, hidden);
}
