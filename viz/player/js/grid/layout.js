// Where things lie: HBM with the map of the tiles and the strips beside it, and the chip with its matrices.

import { clamp, lerp, smooth } from "../run/easing.js";
import { range, rowsOfTile, sum } from "../run/model.js";

export const NARROW = 600; // a narrower or tall stage has HBM above the chip, unless low with an open tile
const [OPEN, NEAR] = [0.2, 0.36]; // part of the stage that is HBM: with the numbers of a tile, and at most
const [NARROW_NEAR, SHELF] = [0.46, 0.34]; // of its height, if HBM lies above the chip; beside a square map
export const HEAD = 26; // of a place, for its name
const LOWEST_HBM = 130; // its height, with strips of tensors and a map
const PAD = 12;
const FOOT = 18; // room for what is said below the map
export const APART = 7; // from HBM, of a map that is not in it
const [BETWEEN, AWAY] = [5, 13]; // from a strip to the next, and to the map

export const EDGE = 1.25; // of the chip, outside and inside

// The two places; with `isOpen` the chip has the room for its numbers, or as far as a row of it is `near`.
export function placesOf(width, height, isOpen = false, above = NARROW_NEAR, near = 0) {
  const part = lerp(clamp(height / width, 0.3, NEAR), OPEN, isOpen ? 1 : smooth(near));
  if (width < Math.max(NARROW, 1.15 * height) && !(isOpen && width > height)) {
    const high = Math.round(Math.max((height - 12) * (isOpen ? OPEN : above), LOWEST_HBM));
    const chip = { x: EDGE, y: high + 12, w: width - 2 * EDGE, h: height - high - 12 - EDGE };
    return { hbm: { x: 0, y: 0, w: width, h: high }, chip };
  }
  const road = clamp(width * 0.028, 12, 44);
  const wide = (width - road) * part;
  const chip = { x: wide + road, y: EDGE, w: width - road - wide - EDGE, h: height - 2 * EDGE };
  return { hbm: { x: 0, y: 0, w: wide, h: height }, chip };
}

// Of the words of a text the map is small: on a narrow stage it is square, and strips lie beside it.
export const aboveOf = ({ data, keyParts }) => (data.words && !keyParts.length ? SHELF : NARROW_NEAR);

function shelfLayout({ x, y, w, h }, { strips, kvTiles, qTiles, data }) {
  const side = h - HEAD - PAD;
  const [left, pitch] = [x + w - side - PAD, side / strips.length];
  const order = data.tensors.map(({ name }) => name);
  const names = strips.map(({ name }) => name).toSorted((a, b) => order.indexOf(a) - order.indexOf(b));
  const shelf = { x: x + 34, w: left - x - 34 - 2 * AWAY, pitch, names };
  const size = { width: side, height: side, cellWidth: side / kvTiles, cellHeight: side / qTiles };
  return { x: left, y: y + HEAD, ...size, strip: pitch / 2, room: left - APART - x, shelf };
}

export function mapLayout(hbm, model, widest = 1) {
  if (hbm.w < NARROW && hbm.w > 1.6 * hbm.h && aboveOf(model) === SHELF) return shelfLayout(hbm, model);
  const [above, beside] = ["top", "left"].map((side) => model.strips.filter((one) => one.side === side));
  const strip = clamp(Math.min(hbm.w, hbm.h) / 22, 8, 20);
  const each = strip + BETWEEN;
  const letters = 10 * Math.max(...above.map(({ name }) => name.length), 1) + 4;
  const left = PAD + Math.max(beside.length * each, letters) + AWAY;
  const top = HEAD + above.length * each + AWAY;
  const [w, h] = [hbm.w - left - PAD - 4, hbm.h - top - PAD - FOOT];
  const [across, down] = [w / model.kvTiles, h / model.qTiles];
  const cellWidth = Math.min(across, Math.max(down * widest, 16));
  const cellHeight = Math.min(down, Math.max(cellWidth * 1.3, 24));
  const [width, all] = [cellWidth * model.kvTiles, cellHeight * model.qTiles];
  const aside = model.data.grid.length ? 0.5 : 0; // in the middle of HBM, or in its corner
  const x = hbm.x + left + Math.max(0, w - width) * aside;
  const y = hbm.y + top + Math.max(0, h - all) * aside;
  return { x, y, cellWidth, cellHeight, width, height: all, strip, room: hbm.w };
}

export const showsKeys = ({ data, qTiles }) => data.ticks && qTiles === 1; // of one query, on a stage
export const NAMED = 82; // the room for the name of a key head
const GROUPS = 9; // between the lines of two of them

// One map per head, if all programs are shown at once; the tiles are as large as they can be. `room` is the
// width of a map and its gap; of very many heads the gaps are narrower, so that each keeps half its room.
export function headLayouts(box, model, heads, widest) {
  if (heads.length === 1) return [mapLayout(box, model, widest)];
  const [named, apart] = showsKeys(model) ? [NAMED, GROUPS] : [0, 0];
  const group = heads.length / model.data.problem.kv_heads;
  const [width, height] = [box.w - 2 * PAD - named, box.h - HEAD - PAD - (apart * heads.length) / group];
  const sizes = (columns) => {
    const [w, h] = [width / columns, height / Math.ceil(heads.length / columns)];
    const [across, down] = [Math.min(8, w / 2), Math.min(16, h / 2)];
    const [cellWidth, cellHeight] = [(w - across) / model.kvTiles, (h - down) / model.qTiles];
    return { w, h, across, down, cellWidth, cellHeight, shortest: Math.min(cellWidth, cellHeight) };
  };
  const longer = (best, _, i) => (sizes(i + 1).shortest > sizes(best).shortest ? i + 1 : best);
  const columns = heads.reduce(longer, 1);
  const { w, h, across, down, cellWidth, cellHeight } = sizes(columns);
  return heads.map((_, i) => {
    const x = box.x + PAD + named + (i % columns) * w + across / 2;
    const [row, before] = [i / columns, i / group].map(Math.floor);
    const y = box.y + HEAD + row * h + (7 / 8) * down + before * apart;
    return { x, y, cellWidth, cellHeight, width: w - across, height: h - down, room: w };
  });
}

export function cellBox(layout, model, step) {
  const x = layout.x + model.kv[step] * layout.cellWidth;
  const span = Math.max(1, model.kvEnd[step] - model.kv[step]);
  const y = layout.y + model.q[step] * layout.cellHeight;
  return { x, y, w: layout.cellWidth * span, h: layout.cellHeight };
}

export function stripBox({ name, side, place, along, edges }, layout) {
  const { shelf, strip: thick } = layout;
  if (shelf) {
    const y = layout.y + (shelf.names.indexOf(name) + 0.25) * shelf.pitch;
    return { x: shelf.x, y, step: shelf.w / edges.at(-1), thick, vertical: false };
  }
  const away = AWAY + place * (thick + BETWEEN) + thick;
  const step = along === "page" ? layout.width / (edges.length - 1) : layout.cellWidth; // or a pool's
  if (side === "top") return { x: layout.x, y: layout.y - away, step, thick, vertical: false };
  return { x: layout.x - away, y: layout.y, step: layout.cellHeight, thick, vertical: true };
}

export function stripTile(strip, layout, from, end) {
  const { x, y, step, thick, vertical } = stripBox(strip, layout);
  if (vertical) return { x, y: y + from * step, w: thick, h: (end - from) * step };
  return { x: x + from * step, y, w: (end - from) * step, h: thick };
}

// The tile of the map under a point, and the row inside it; null beside the maps.
export function tileAt(x, y, layouts, blockM) {
  const inside = (grid) => x >= grid.x && x < grid.x + grid.width && y >= grid.y && y < grid.y + grid.height;
  const index = layouts.findIndex(inside);
  if (index < 0) return null;
  const grid = layouts[index];
  const across = (y - grid.y) / grid.cellHeight;
  const q = Math.floor(across);
  return { index, q, kv: Math.floor((x - grid.x) / grid.cellWidth), offset: (across - q) * blockM };
}

const GAP = 10; // between matrices
const LABEL = 20; // above each, for its letter
const STATE = { beside: 0.7, open: 0.9 }; // width of m and l at the end of the rows; that of the scores is 1
const WIDE = { head_dim: 0.5, kv_tile: 1, q_tile: 1, one: 0.36 }; // a number has room
const HIGH = { head_dim: 0.36, kv_tile: 0.42, q_tile: 1, one: 0.14 };
const [NARROW_SIDE, NARROWEST] = [0.32, 0.13]; // of what a product has on its left; with two products
const TALLEST = 1.25; // of a square: how far it gives way to the room

// What a slot's rows and columns count, as they are drawn.
export const sidesOf = ({ transposed, rows, columns }) => (transposed ? [columns, rows] : [rows, columns]);

// Rows and columns of a slot's tile, as they are drawn; `only` is a row that is drawn alone.
export function countsOf(model, slot, only = null) {
  const { block_n: keys, head_dim: width } = model.data.problem;
  const sizes = { q_tile: only === null ? rowsOfTile(model) : 1, kv_tile: keys, head_dim: width, one: 1 };
  return sidesOf(slot).map((side) => sizes[side]);
}

// [row, column] of the backward pass on a wide chip: its products beside each other, dK and dV above K and V.
const [FIRST, SECOND] = [
  { dK: [0, 1], K: [1, 1], Q: [2, 0], S: [2, 1], lse: [2, 2] },
  { dV: [0, 5], V: [1, 5], dO: [2, 4], dS: [2, 5], D: [2, 6], dQ: [2, 7], O: [2, 8] },
];
const BESIDE = { ...FIRST, ...SECOND };
const FACTOR = 0.55; // its height there
const SUM = { beside: 2, open: 1.3 }; // and that of a sum, which is seen to grow
const [LOW, LOWER] = [170, 0.55]; // height of a bench that has little for them, and what they have of it

// Where things of these sizes begin, one after another, and where they end.
const placesAfter = (sizes, from, unit, gap) =>
  range(sizes.length + 1).map((i) => from + unit * sum(sizes.slice(0, i)) + gap * i);

// The boxes of a kernel's slots by name, each {x, y, w, h}; and `state`, where m and l of the rows stand. A
// product has its first factor on its left and its second above it: rows and columns line up.
export function benchLayout(box, given, hasState, widest = 1.5) {
  if (!given.length) return { slots: {}, state: null };
  const beside = box.w > box.h && given.some(({ row }) => row > 1) ? BESIDE : {};
  const slots = given.map((slot) => {
    const [row, column] = beside[slot.name] ?? [slot.row, slot.column];
    return { ...slot, row, column };
  });
  const columns = [...new Set(slots.map(({ column }) => column))].toSorted((a, b) => a - b);
  const rows = [...new Set(slots.map(({ row }) => row))].toSorted((a, b) => a - b);
  const room = widest > 2.5 ? "open" : "beside";
  const narrow = beside === BESIDE ? NARROWEST : NARROW_SIDE;
  const widths = columns.map((column) => {
    const own = slots.filter((slot) => slot.column === column).map((slot) => WIDE[sidesOf(slot)[1]]);
    return Math.max(...own) === WIDE.head_dim && [0, 4].includes(column) ? narrow : Math.max(...own);
  });
  const part = (row) => (row < 2 ? [SUM[room], FACTOR][row] * (box.h < LOW ? LOWER : 1) : 1);
  const highOf = (slot) => HIGH[sidesOf(slot)[0]] * (beside === BESIDE ? part(slot.row) : 1);
  const highs = rows.map((row) => Math.max(...slots.filter((slot) => slot.row === row).map(highOf)));
  const wide = hasState * STATE[room];
  const gaps = GAP * (columns.length - 1 + hasState);
  const down = (box.h - (LABEL + 4) * rows.length) / sum(highs);
  const across = (box.w - gaps) / (sum(widths) + wide);
  const unit = Math.min(across, down * widest);
  const tall = Math.min(down, unit * TALLEST);
  const x = box.x + Math.max(0, (box.w - unit * (sum(widths) + wide) - gaps) / 2);
  const lefts = placesAfter(widths, x, unit, GAP);
  const state = hasState ? { x: lefts.at(-1), w: wide * unit } : null; // at the end: nothing flies over it
  const y = box.y + Math.max(0, (box.h - tall * sum(highs) - (LABEL + 4) * rows.length) / 2);
  const tops = placesAfter(highs, y + LABEL, tall, LABEL + 4);
  const placed = slots.map((slot) => {
    const [, width] = sidesOf(slot);
    const [i, j] = [columns.indexOf(slot.column), rows.indexOf(slot.row)];
    const h = highOf(slot) * tall;
    const w = Math.min(widths[i], WIDE[width]) * unit;
    return [slot.name, { x: lefts[i], y: tops[j] + highs[j] * tall - h, w, h }];
  });
  const boxes = Object.fromEntries(placed);
  if (state && boxes.S) Object.assign(state, { y: boxes.S.y, h: boxes.S.h });
  return { slots: boxes, state: boxes.S ? state : null };
}

const LOWEST = 46; // of a row with its name
const [KEYS, QUERY] = [1.5, 26]; // how much higher the keys are; width of a query that stands beside them

// One row. If the keys are known, they stand above its scores, and the query upright before their numbers.
export function rowLayout({ x, y, w, h }, slots, hasKeys) {
  const own = slots.filter(({ rows, name }) => rows === "q_tile" && !(hasKeys && name === "Q"));
  const high = Math.min(h / (own.length + (hasKeys ? KEYS : 0)), LOWEST * 2);
  const [left, top] = hasKeys ? [QUERY + GAP, KEYS * high] : [0, 0];
  const wide = { x: x + left, w: w - left };
  const placed = (i) => ({ ...wide, y: y + top + i * high + LABEL, h: high - LABEL - 6 });
  const boxes = Object.fromEntries(own.map(({ name }, i) => [name, placed(i)]));
  const keys = { y: y + LABEL, h: top - LABEL - 6 };
  const product = hasKeys && { K: { ...wide, ...keys }, Q: { ...keys, x, w: QUERY, transposed: true } };
  return { slots: { ...boxes, ...product }, state: null };
}

// The middles of so many equal parts of a length, for words that are read beside each other.
export const middles = (from, size, count) => range(count).map((i) => from + (size * (i + 0.5)) / count);
