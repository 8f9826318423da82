// The chip: the matrices of the step, laid out as the products they are, m and l, and what its memories hold.

import { FONT, drawChipBox, fillBox, inkOn, namePlace, roundBox, shareColor, text } from "./draw.js";
import { formatKib, formatNumber, meant } from "../run/formats.js";
import { HEAD, benchLayout, countsOf, middles, rowLayout, stripTile } from "./layout.js";
import { lerp, smooth, within } from "../run/easing.js";
import { figureOf, goodTile, stepToOpen, toldRow } from "../run/figure.js";
import { filledOf, hasNumbers, heldIn, isSquare, matricesIn, nameIn, slotOf, sumOf } from "../run/bench.js";
import { drawBlock, drawMatrix, isReadable } from "./matrix.js";
import { drawSum } from "./sums.js";
import { KIND, rowBox, rowNumber, stepsOfTile, sum, tileKind, tileNumber } from "../run/model.js";
import { drawLens } from "./lens.js";
import { drawState } from "./state.js";
import { RESTS } from "./strips.js";
import { liesIn, paintTiles, weightsOf } from "./tensor.js";

const PAD = 14;
const NARROW_CHIP = 420; // width of one that has neither them nor the words of its rows
const LOW = 160; // height of a chip that has no gauges
const MEMORIES = 13; // height of the gauges below the name of the chip, beside which they stand
const [GAUGE, TALLER] = [10, 14]; // of one, and what one has beyond it into which a program does not fit
const [SMALL, WORD] = [10.3, 13]; // sizes of words; without room for all only that of the told row is there
const sizeIn = (room) => room >= SMALL - 1 && Math.min(WORD, room + 1);
const LONG_NAME = 16; // height of a name that stands above its neighbours
const ROOM_FOR_SIZES = 100; // "65.5 of 227 KiB"
const BESIDE = 14; // pixels to the next matrix
const LOOSE = 2.6; // how far other matrices give way to the room
const [FEW, FLAT] = [8, 68]; // more rows in less height are too low for their m, l and numbers of O

// `only`: the row that is drawn alone; `widest`: how far a square gives way.
export function benchOf(chip, kernel, model, only = null, widest = 1.5) {
  const aside = wordsRoom(model, kernel, chip);
  const above = kernel.slots.some(({ name }) => name.length > 5) ? LONG_NAME : 0;
  const gauges = Math.max(0, ...memoriesOf(model, kernel, chip).map(({ high }) => MEMORIES + high - GAUGE));
  const hasState = Number(kernel.series.includes("m") && kernel.series.includes("l"));
  const top = HEAD + gauges + aside.h + above;
  const left = PAD + aside.w;
  const high = chip.h - top - PAD;
  const box = { x: chip.x + left, y: chip.y + top, w: chip.w - left - PAD, h: high };
  const hasKeys = hasNumbers(model) && kernel.slots.some(({ name }) => name === "K");
  const longer = aside.h / 2; // words are longer than the room beside other boxes
  if (only !== null)
    return rowLayout({ ...box, y: box.y + longer, h: box.h - longer }, kernel.slots, hasKeys);
  const most = kernel.slots.some(isSquare) ? widest : LOOSE;
  const bench = benchLayout(box, kernel.slots, hasState, most);
  const isFlat = model.data.problem.block_m > FEW && !(bench.slots.S?.h > FLAT);
  return { ...(isFlat && bench.state ? benchLayout(box, kernel.slots, false, most) : bench), isFlat };
}

// Whether the numbers of all rows can be read there: without scores, each row opens alone.
export const hasRoom = ({ slots: { S } }, { data: { problem } }) =>
  S && isReadable(S.w / problem.block_n, S.h / problem.block_m);

// The room for the words of a text beside the rows of the scores, and above their columns.
function wordsRoom(model, kernel, chip) {
  const { block_m: rows, block_n: keys } = model.data.problem;
  const isThere = model.data.words && chip.w > NARROW_CHIP && Math.max(rows, keys) <= 16;
  return isThere && kernel.slots.some(isSquare) ? { w: 66, h: chip.h > 240 ? 46 : 0 } : { w: 0, h: 0 };
}

function drawWords(context, { slots }, room, { model, palette, at, strong, row, only }) {
  const { block_m, block_n: keys, q_len: queries } = model.data.problem;
  const rows = only === null ? block_m : 1;
  const [asking, asked] = model.data.words;
  const landed = (name) => strong * (slots[name] ? within(heldIn(model, at, name).held, 0.95, 1) : 1);
  const alphas = { right: landed("Q"), turned: landed("K") }; // words come with their rows
  const write = (word, x, y, isTold, style) => {
    const color = isTold ? palette.now : palette.text;
    const alpha = alphas[style.align ?? "turned"];
    text(context, word, x, y, color, { weight: isTold ? "650" : "", alpha, ...style });
  };
  const beside = Math.min(...Object.values(slots).map(({ x }) => x)) - 8;
  const first = tileNumber(model, Math.max(model.q[at.step], 0)) * block_m + (only ?? 0);
  const [high, wide, told] = [slots.S.h / rows, slots.S.w / keys, only === null ? model.offsets[row] : 0];
  const existing = room.w && model.q[at.step] >= 0 ? model.data.problem.rows - first : 0;
  middles(slots.S.y, slots.S.h, rows).forEach((y, i) => {
    const word = asking[(first + i) % queries];
    const isTold = at.marks && i === told;
    const style = { align: "right", size: sizeIn(high) || WORD, widest: room.w - 8 };
    if (i < existing && (isTold || sizeIn(high))) write(word, beside, y, isTold, style);
  });
  if (model.kv[at.step] < 0 || !room.h) return;
  const { y: above } = slots.dK ?? slots.K ?? slots.S;
  middles(slots.S.x, slots.S.w, keys).forEach((x, i) => {
    const word = asked[model.kv[at.step] * keys + i];
    if (word && sizeIn(wide))
      write(word, x, above - 24, false, { turned: true, size: sizeIn(wide), widest: 50 });
  });
}

// The slots of a kernel that have a box, with it.
const boxed = ({ slots }, boxes) =>
  slots.flatMap((slot) => (boxes[slot.name] ? { ...slot, ...boxes[slot.name] } : []));

// `how` has model, palette, at, `row` (the drawn row that is told) and `strong` (below 1 in fast playback).
// Returns where V is in the row that is told alone, if it is.
export function drawBench(context, chip, bench, given) {
  const { model, palette, at, strong } = given;
  const how = { ...given, isFlat: bench.isFlat };
  const kernel = model.kernels[at.kernel];
  if (strong < 0.05 && !bench.draw) return; // words stand in its place
  drawChipBox(context, chip, palette);
  const memories = memoriesOf(model, kernel, chip);
  const named = memories.length ? nameWide(chip) : chip.w;
  namePlace(context, "Chip", "small and fast, magnified", { ...chip, w: named }, palette);
  drawMemories(context, chip, memories, how);
  if (!kernel.parts.length) {
    const words = "What this kernel keeps on the chip is not seen: only its loads and stores.";
    text(context, words, chip.x + PAD, chip.y + 50, palette.muted, { size: 13 });
  }
  const slots = bench.draw ? [] : boxed(kernel, bench.slots);
  const drawn = slots.filter((slot) => drawSlot(context, slot, bench.slots[slot.name], how));
  if (at.step < 0) return;
  if (bench.draw) {
    bench.draw(context, bench, how);
    if (bench.whole) drawWords(context, { slots: { S: bench.whole } }, { w: 66 }, { ...how, strong: 1 });
    return;
  }
  if (how.pointed) drawPointed(context, bench, how);
  const room = wordsRoom(model, kernel, chip);
  const isTold = drawn.length && (!at.complete || drawn.some(isSquare)); // else no tile has these words
  if (strong > 0.3 && room.w && isTold) drawWords(context, bench, room, how);
  if (how.only !== null) return;
  if (strong > 0.5) markValues(context, bench.slots, how);
  const isWhole = !(model.data.ticks || at.about >= 0) || drawn.some(({ name }) => "SO".includes(name));
  const isBegun = isWhole && !at.plain;
  if (bench.state && isBegun) drawState(context, bench, how);
  if (strong > 0.5) frameRow(context, bench, drawn, how);
  const top = chip.y + HEAD + (memories.length ? MEMORIES : 0) + 8;
  const tells = strong > 0.5 && bench.state && isBegun && at.marks;
  return tells ? drawLens(context, { ...bench, chip }, top, { ...how, kernel }) : null;
}

// The number under a point, {slot, row, column}, or null. `only` is the row that is drawn alone.
export function cellAt({ slots }, model, only, x, y) {
  const isIn = ({ x: left, y: top, w, h }) => x >= left && x < left + w && y >= top && y < top + h;
  const slot = model.kernels.flatMap((kernel) => boxed(kernel, slots)).find(isIn);
  if (!slot) return null;
  const [down, across] = countsOf(model, slot, only);
  const place = [Math.floor(((y - slot.y) / slot.h) * down), Math.floor(((x - slot.x) / slot.w) * across)];
  const [row, column] = slot.transposed ? place.toReversed() : place;
  return { slot: slot.name, row: slot.rows === "q_tile" ? (only ?? row) : row, column };
}

function drawPointed(context, { slots }, { model, palette, pointed, lines, at, only }) {
  const frame = (name, row, column) => {
    const slot = boxed(model.kernels[at.kernel], slots).find((each) => each.name === name);
    if (!slot) return;
    const { x, y, w, h } = slot;
    const [down, across] = countsOf(model, slot, only);
    const line = only !== null && slot.rows === "q_tile" ? (row === null ? null : 0) : row;
    const [i, j] = slot.transposed ? [column, line] : [line, column];
    const [cw, ch] = [w / across, h / down];
    const [left, wide] = j === null ? [x, w] : [x + j * cw, cw];
    const [top, high] = i === null ? [y, h] : [y + i * ch, ch];
    roundBox(context, { x: left, y: top, w: wide, h: high }, 2, { line: palette.text, width: 2 });
  };
  frame(pointed.slot, pointed.row, pointed.column);
  for (const { slot, by, index } of lines) frame(slot, ...(by === "row" ? [index, null] : [null, index]));
}

const nameWide = ({ w }) => (w > 600 ? 178 : 62); // with its words, or alone

// The memories that have a gauge: none if a program takes less than a sixteenth of each.
function memoriesOf(model, kernel, chip) {
  const memories = Object.entries(model.data.gpu.limits).map(([name, limit]) => {
    const parts = kernel.parts.filter(({ memory }) => memory === name);
    const all = sum(parts.map(({ bytes }) => bytes));
    return { name, limit, parts, all, high: GAUGE + (all > limit ? TALLER : 0) };
  });
  const isSeen = chip.h > LOW && chip.w > NARROW_CHIP && memories.some(({ all, limit }) => all > limit / 16);
  return isSeen ? memories : [];
}

// A gauge per memory, to scale: what a program can have of it, a frame around what this one takes, and what
// of that is filled. Its number is that of the tiles that have landed.
function drawMemories(context, chip, memories, { model, palette, at }) {
  const left = nameWide(chip);
  const wide = (chip.w - left - PAD - 18 * (memories.length - 1)) / memories.length;
  memories.forEach(({ name, limit, parts, all, high }, i) => {
    const [x, y] = [chip.x + left + i * (wide + 18), chip.y + 15];
    const filled = parts.map((part) => filledOf(model, at, part));
    const landed = sum(parts.map((part) => part.bytes * filledOf(model, at, part, Math.floor)));
    const isOver = landed > limit;
    const words = `${formatNumber(landed / 1024, isOver ? 4 : 3)} of ${formatKib(limit)}`;
    const label = fitted(context, [name, name.split(" ")[0]], wide - ROOM_FOR_SIZES, 13);
    text(context, label, x, y, isOver ? palette.bad : palette.text, { size: 13, weight: "600" });
    const beside = context.measureText(label).width + 8;
    const color = isOver ? palette.bad : palette.muted;
    if (beside + ROOM_FOR_SIZES < wide) text(context, words, x + beside, y, color, { size: 13 });
    fillBox(context, palette.line, { x, y: y + 11, w: wide, h: high }, 0.55);
    const scale = wide / Math.max(limit, all);
    let from = x;
    parts.forEach((part, k) => {
      const box = { x: from, y: y + 11, w: part.bytes * filled[k] * scale, h: high };
      fillBox(context, palette[part.color], box);
      from += box.w;
    });
    const taken = { x, y: y + 10, w: all * scale, h: high + 2 };
    if (at.started) roundBox(context, taken, 2, { line: palette.muted, width: 1.2 });
    if (isOver) fillBox(context, palette.bad, { x: x + limit * scale - 1, y: y + 8, w: 2, h: high + 6 });
  });
}

// Returns whether there is something: no open tile, talk or film has empty boxes.
function drawSlot(context, slot, box, how) {
  const { model, palette, at, strong } = how;
  const isKnown = at.step >= 0 && (hasNumbers(model) || how.only !== null);
  const figure = isKnown ? figureOf(model, at.step) : null;
  const shown = figure && matricesIn(model, figure, slot, at);
  const isRecorded = figure?.matrices.some((each) => each.slot === slot.name && model.matrices[each.name]);
  const isRescaled = shown?.phase?.rescales && !shown.old; // on the first tile there is nothing to rescale
  const { held, used, flies } = heldIn(model, at, slot.name);
  const isThere = isRecorded ? shown && !isRescaled : held;
  const isGone = at.step >= 0 && (!isThere || (isSquare(slot) && used === 1));
  const isFast = strong < 0.5 && !isKept(model.kernels[at.kernel], slot);
  const isAway = at.step < 0 || isFast || flies;
  const isHidden = at.step >= 0 && isSquare(slot) && tileKind(model, at.step) === KIND.hidden;
  if (isGone && how.isOpen) return isThere;
  if ((model.data.ticks || at.about >= 0) && (isGone || isAway || isHidden)) return false;
  roundBox(context, box, 3, { fill: palette.surface, line: palette.line });
  const size = Math.min(15, Math.max(12.5, box.w / 7));
  const said = shown?.old && shown.part < 0.5 ? shown.old : shown?.now;
  const name = nameIn(model, at, slot.name);
  // P is divided by the sum of its row, which is not known yet where it is summed up
  const isUndivided = name === "P" && model.kernels[at.kernel].bars === "l";
  const short = isUndivided ? (at.plain ? "" : "raw weights") : name;
  const isReady = shown?.isSum && at.phase?.stores.length; // no longer “so far”
  const label = said && how.isOpen && !isReady ? said.label : short; // one name per box in the grid
  const style = { size, weight: "650", alpha: strong };
  const meaning = label.startsWith(name) && label.length < 4 ? meant(name, label) : label;
  const words = fitted(context, [meaning, label, short], box.w, size);
  const isWide = context.measureText(words).width > box.w + BESIDE; // then it stands above those beside it
  const color = name === "P" ? palette.now : palette[slot.color];
  text(context, words, box.x, box.y - (isWide ? 10 + size : 10), color, style);
  if (isAway) return true;
  const all = { ...how, ...shown, ...heldIn(model, at, slot.name) };
  if (!isRecorded || (shown?.isSum && how.only === null && how.isFlat)) drawBlock(context, slot, box, all);
  else if (!shown) return true;
  else if (shown.isSum && !(how.only !== null && isReadable(box.w / countsOf(model, slot, how.only)[1])))
    drawSum(context, slot, box, all, how.only === null ? null : [how.only]);
  else drawMatrix(context, slot, box, all);
  return true;
}

const isKept = ({ phases: [before] }, { name }) =>
  before.some(({ loads, makes }) => [...loads, ...makes].some((each) => slotOf(each) === name));

function fitted(context, words, width, size) {
  context.font = `650 ${size}px sans-serif`;
  return words.find((each) => context.measureText(each).width <= width) ?? words.at(-1);
}

// As a column of weights is used up, the values of its key are marked; and each row that is summed up to D.
function markValues(context, { V, O, dO }, { model, palette, at }) {
  const k = model.phases[at.step].findIndex((phase) => sumOf(phase) === "O" || phase.makes.includes("D"));
  const [count, slots] = dO ? [model.data.problem.block_m, [O, dO]] : [model.data.problem.block_n, [V]];
  for (let c = 0; c < count && slots[0] && hasNumbers(model); c++) {
    const u = (at.progress[k] * (count + 2) - c) / 2.6;
    for (const { h, ...slot } of u > 0 && u < 1 ? slots : [])
      fillBox(context, palette.now, { ...slot, y: slot.y + (c * h) / count, h: h / count }, 0.5 * (1 - u));
  }
}

function frameRow(context, { slots, state }, drawn, { model, palette, at, row }) {
  const beside = drawn.filter(({ rows, name }) => rows === "q_tile" && slots[name].y === slots.S?.y);
  if (!at.marks || !beside.some(isSquare) || !(hasNumbers(model) || state)) return;
  const boxes = [...beside.map(({ name }) => slots[name]), ...(state ? [state] : [])];
  const { y, h } = rowBox(model, slots.S, row);
  const x = Math.min(...boxes.map((box) => box.x)) - 3;
  const w = Math.max(...boxes.map((box) => box.x + box.w)) - x + 3;
  const looks = { line: palette.text, width: 1.25, alpha: 0.6 };
  roundBox(context, { x, y: y - 1.5, w, h: Math.max(3, h) + 2 }, 3, looks);
}

const FAR_SIZES = [46, 38, 32, 26, 22, 19, 17, 15, 13, 11.5]; // of words: the largest with room for all

// Where each word begins, and the height of a line; the last size is taken if none is small enough.
function placeWords(context, chip, words, size, isLoose) {
  const [pad, line] = [1.4 * size, (isLoose ? 2.2 : 1.8) * size];
  context.font = `${size}px ${FONT}`;
  let [x, y] = [chip.x + pad, chip.y + 48 + (isLoose ? 1 : 2) * line];
  const places = words.map((word) => {
    const wide = context.measureText(word).width + (/\p{L}/u.test(word) ? 0.6 : 0.2) * size; // beside both
    if (x + wide > chip.x + chip.w - pad) [x, y] = [chip.x + pad, y + line];
    x += wide;
    return { x: x - wide, y, wide };
  });
  return y < chip.y + chip.h - line / 2 || size === FAR_SIZES.at(-1) ? { size, line, places } : null;
}

// What stands there in fast playback: a text, each word on the colour of its weight in the told row. In the
// film it is all that is `seen`, until its words land in HBM, and later its colours `come` one by one.
export function drawFar(context, chip, { model, palette, at }, pinned, layout) {
  const { about, come = 1, lands = 0 } = at;
  const alpha = at.seen ? 1 - lands / FADES : 2 * at.scan - 1; // it comes once the matrices have gone
  if (!((alpha > 0 || lands) && model.data.words)) return;
  const [asking, asked] = model.data.words;
  const { block_m: rows, block_n: keys } = model.data.problem;
  const now = about ?? Math.max(at.finished ? stepToOpen(model, goodTile(model), pinned) : at.step, 0);
  const q = Math.max(model.q[now], 0);
  const row = rowNumber(model, { q, row: toldRow(model, now, pinned) });
  const weights = new Float64Array(asked.length).fill(NaN);
  const steps = stepsOfTile(model, at.kernel, at.head, q);
  const done = steps.filter((step) => (at.finished || step <= now) && model.kv[step] >= 0);
  for (const step of done) {
    const weight = weightsOf(model, step, done.at(-1));
    if (!weight) return;
    for (let c = 0; c < keys; c++) weights[model.kv[step] * keys + c] = weight(row - q * rows, c);
  }
  const placed = FAR_SIZES.map((each) => placeWords(context, chip, asked, each, about >= 0));
  const { size, line, places } = placed.find(Boolean);
  if (lands) drawLanding(context, layout, places, size, { model, palette, at });
  const heading = `How much “${asking[row]}” takes of each word`;
  text(context, heading, places[0].x, places[0].y - line, palette.muted, { size, alpha });
  for (const [i, { x, y, wide }] of places.entries()) {
    if (y > chip.y + chip.h - line / 2) return;
    const isKnown = weights[i] >= 0 && i < come * (row + 1);
    const empty = palette[at.asks * (row + 1) > i ? "line" : "background"];
    const color = isKnown ? shareColor(palette, weights[i]) : empty;
    const box = { x, y: y - size * 0.75, w: wide - 2, h: size * 1.5 };
    fillBox(context, color, box, alpha);
    const share = `${Math.round(100 * weights[i])} %`;
    const look = { size: 0.54 * size, align: "center", weight: "600", alpha: size > 18 ? alpha : 0 };
    if (about >= 0 && isKnown && weights[i] >= TOLD)
      text(context, share, x + wide / 2, y + 1.05 * size, palette.now, look);
    const weight = i === row && asked[i] === asking[row] ? "700" : "";
    const ink = isKnown ? inkOn(color, palette) : palette.muted;
    text(context, asked[i], x + wide / 2 - 1, y, ink, { size, alpha, weight, align: "center" });
  }
}

// What a film asks: no word has its weight yet, since the sum of all of them is not known.
export function drawAsked(context, chip, how) {
  const come = within(how.at.asks, 0.85, 1);
  const look = { size: chip.w / 14, weight: "700", align: "center", alpha: come };
  drawFar(context, chip, { ...how, at: { ...how.at, seen: true, come: 0 } });
  text(context, "sum = ?", chip.x + chip.w / 2, chip.y + 0.84 * chip.h, how.palette.now, look);
}

export const FADES = 0.25; // until then, before they land, words become what is stored of them
const TOLD = 0.08; // a weight that is told in percent
const [FLIGHT, APART] = [0.45, 0.12]; // of the time of all: a line's way, and by how much its end is late

// Each word is a row of Q, and a column of K and of V, which lie below each other where it stood.
function drawLanding(context, layout, places, size, how) {
  const { model, at } = how;
  const come = within(at.lands, FADES, 1);
  const lines = [...new Set(places.map(({ y }) => y))];
  const read = model.strips.filter(({ isFilled }) => !isFilled);
  const strips = model.data.tensors.flatMap(({ name }) => read.filter((strip) => strip.name === name));
  const look = { size: 0.6 * size, weight: "650" };
  strips.forEach((strip, k) => {
    const unit = strip.edges.at(-1) / places.length; // tiles of a word
    places.forEach(({ x, y, wide }, i) => {
      const late = (lines.indexOf(y) / lines.length) * (1 - FLIGHT) + (APART * i) / places.length;
      const part = within(come, late, late + FLIGHT - APART);
      const tiles = [i * unit, (i + 1) * unit];
      const to = stripTile(strip, layout, ...tiles);
      const [way, falls] = [0.9, 1].map((end) => smooth(within(part, 0, end)));
      const [left, w, h] = [lerp(x, to.x, way), lerp(wide - 4, to.w, way), lerp(size / 2, to.h, way)];
      const box = { x: left, y: lerp(y + (k / 2 - 0.75) * size, to.y, falls), w, h };
      const name = places[i - 1]?.y !== y && part === 0 ? strip.name : ""; // at the start of each line
      text(context, name, x - 0.9 * size, box.y + h / 2, how.palette[strip.color], look);
      const alpha = Math.min(1, at.lands / FADES) * lerp(1, RESTS, within(part, 0.8, 1));
      paintTiles(context, how, strip, tiles, box, { lies: liesIn(layout, model, strip), alpha });
    });
  });
}
