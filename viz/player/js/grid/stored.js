// What standard attention does, with the numbers of a run of FlashAttention: S and P go to HBM and back.

import { fillBox, namePlace, roundBox, text } from "./draw.js";
import { drawCopy } from "./flights.js";
import { HEAD, stripTile } from "./layout.js";
import { drawMap } from "./map.js";
import { meant } from "../run/formats.js";
import { once, range } from "../run/model.js";
import { storedTiles } from "../run/stored.js";

const [PAD, NAME, BESIDE, APART, CELL] = [14, 24, 8, 44, 4];
const THIN = 0.3; // of Q, K, V and O, beside S and P

function pictureOf(model, palette, name) {
  const { rows, kv_len: keys, block_m, block_n } = model.data.problem;
  const [width, height] = [keys * CELL, rows * CELL];
  const picture = Object.assign(document.createElement("canvas"), { width, height });
  const layout = { x: 0, y: 0, width, height, cellWidth: block_n * CELL, cellHeight: block_m * CELL };
  const at = { step: -1, kernel: 0, finished: true, scores: name === "S" };
  const all = { layouts: [layout], layoutOf: () => layout, steps: range(model.count) };
  const colors = { ...palette, background: palette.hidden, line: palette.hidden };
  drawMap(picture.getContext("2d"), { ...all, model, palette: colors, at });
  return picture;
}

// On the chip they lie as the two products they are.
function placesOnChip({ x, y, w, h }) {
  const side = Math.min(h - HEAD - 2 * NAME - PAD, w / 2 - 2 * PAD - BESIDE) / (1 + THIN);
  const thin = THIN * side;
  const apart = Math.min(APART, w - 2 * (side + thin + BESIDE + PAD));
  const S = { x: x + (w - apart) / 2 - side, y: y + HEAD + 2 * NAME + thin, w: side, h: side };
  const [K, P] = [
    { ...S, y: y + HEAD + NAME, h: thin },
    { ...S, x: S.x + side + apart },
  ];
  const O = { ...P, x: P.x + side + BESIDE, w: thin };
  return { Q: { ...S, x: S.x - BESIDE - thin, w: thin }, K, S, P, V: { ...K, x: O.x, w: thin }, O };
}

export function drawStored(context, { layout, chip, model, palette, at }) {
  const [tiles, wide] = [model.qTiles, (layout.width - BESIDE) / 2];
  const S = { x: layout.x, y: layout.y + NAME, w: wide, h: layout.height - NAME };
  const squares = { S, P: { ...S, x: S.x + wide + BESIDE } };
  const strips = model.strips.map((strip) => [strip.name, stripTile(strip, layout, 0, strip.edges.at(-1))]);
  const [onChip, inHbm] = [placesOnChip(chip), { ...Object.fromEntries(strips), ...squares }];
  roundBox(context, chip, 12, { fill: palette.background, line: palette.line });
  namePlace(context, "Chip", "small and fast", chip, palette);
  const colorOf = (name) => palette[model.data.standard_parts.find((part) => part.name === name).color];
  const tileOf = (name, q, { x, y, w, h }) =>
    "KV".includes(name) ? { x, y, w, h } : { x, y: y + (q * h) / tiles, w, h: h / tiles - 1 };
  const paint = (name, q, { x, y, w, h }, alpha = 1, part = 1) => {
    if (!squares[name]) return fillBox(context, colorOf(name), { x, y, w: w * part, h }, 0.8 * alpha);
    const picture = once(palette, `all of ${name}`, () => pictureOf(model, palette, name));
    const [across, high] = [picture.width * part, picture.height / tiles];
    context.globalAlpha = alpha;
    if (part > 0) context.drawImage(picture, 0, q * high, across, high, x, y, w * part, h);
    context.globalAlpha = 1;
  };
  const boxes = [onChip, squares].flatMap(Object.entries);
  for (const [, box] of boxes) roundBox(context, box, 3, { fill: palette.background, line: palette.line });
  const flies = [];
  for (const { reads, writes, q, read, made, written } of storedTiles(at.stored, tiles)) {
    const wayOf = (name) => [inHbm, onChip].map((places) => tileOf(name, q, places[name]));
    const [to, from] = wayOf(writes);
    for (const name of reads) {
      if (read === 1) paint(name, q, wayOf(name)[1], 1 - made);
      flies.push([name, q, ...wayOf(name), read]);
    }
    flies.push([writes, q, from, to, written]);
    if (written === 0 || written === 1) paint(writes, q, written ? to : from, 1, made);
  }
  for (const [name, q, ...way] of flies)
    drawCopy(context, ...way, { palette, paint: (box) => paint(name, q, box) });
  const style = { size: 14, weight: "650", halo: palette.background };
  for (const [name, box] of boxes)
    text(context, box.w > 70 ? meant(name) : name, box.x, box.y - 11, colorOf(name), style);
}
