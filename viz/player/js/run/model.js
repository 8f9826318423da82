// Player data (see data.py) as typed arrays, with the look-ups that drawing needs. No drawing here.
// A phase is an object with the fields of kernels/trace/algorithm.py; nothing is known of it by its name.

import { within } from "./easing.js";

// What the mask leaves of a tile. A hidden tile is computed all the same: its algorithm skips no tile.
export const KIND = { skipped: 0, partial: 1, full: 2, hidden: 3 };
const ARRAYS = { float: Float32Array, share: Uint16Array, log: Uint16Array };

export const decode = (text, ArrayType) =>
  new ArrayType(Uint8Array.from(atob(text), (char) => char.charCodeAt(0)).buffer);

// The whole numbers before `end`, from `first` on.
export const range = (end, first = 0) =>
  Array.from({ length: Math.max(0, end - first) }, (_, i) => first + i);

export const sum = (values) => values.reduce((all, each) => all + each, 0);

const known = new WeakMap(); // of each owner, by a key: what is looked up again and again and never changes

export function once(owner, key, find) {
  if (!known.has(owner)) known.set(owner, new Map());
  const own = known.get(owner);
  if (!own.has(key)) own.set(key, find());
  return own.get(key);
}

export const modelOf = (data) => once(data, "model", () => makeModel(data));

export function makeModel(data) {
  const { steps, rows, problem } = data;
  const model = {
    data,
    count: steps.count,
    kernels: data.kernels,
    qTiles: problem.q_tiles,
    kvTiles: problem.kv_tiles,
    tileNumbers: problem.tile_numbers.length ? problem.tile_numbers : range(problem.q_tiles),
    kinds: decode(data.kinds, Uint8Array),
    kernel: decode(steps.kernel, Uint8Array),
    turn: decode(steps.turn, Uint32Array),
    head: decode(steps.head, Uint32Array),
    q: decode(steps.q, Int32Array),
    kv: decode(steps.kv, Int32Array),
    kvEnd: decode(steps.kv_end, Int32Array),
    share: decode(steps.share, Uint16Array),
    sm: decode(data.clock.sm, Uint8Array), // on which each step ran
    offsets: rows.offsets,
    values: mapValues(rows.values, (sent) => ({ ...sent, values: decode(sent.data, ARRAYS[sent.scale]) })),
    matrices: mapValues(data.matrices, (sent) => ({ ...sent, values: decode(sent.data, Float32Array) })),
    hasMatrices: Object.keys(data.matrices).length > 0,
    matrixRow: data.matrix_row ?? null, // the only row of each query tile that they hold
    keyParts: data.key_parts.length > 2 ? data.key_parts : [], // one part is no split
    page: data.pages && decode(data.pages.of_step, Int32Array), // if K and V lie in the pages of pools
    kernelPhases: data.kernels.map((kernel) => kernel.phases.flat()),
  };
  model.heads = [...new Set(model.head)];
  for (const derive of [findTurns, sumBytes, findPhases, scaleShares, findPages])
    Object.assign(model, derive(model));
  const { kernel, head, q } = model;
  const ofTiles = range(model.count).filter((i) => q[i] >= 0);
  model.tileSteps = Map.groupBy(ofTiles, (i) => tileKey(kernel[i], head[i], q[i])); // in the order they ran
  model.strips = data.strips.map((strip) => makeStrip(model, strip));
  return model;
}

const mapValues = (object, change) =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]));

// The first and the last step of the turn of each step.
const findTurns = ({ turn }) => ({
  turnFirst: turn.map((each) => turn.indexOf(each)),
  turnLast: turn.map((each) => turn.lastIndexOf(each)),
});

// What each step reads and writes of each tensor, and the requested bytes before each step.
function sumBytes({ data, count }) {
  const { byte_class, byte_classes } = data.steps;
  const stepBytes = Array.from(decode(byte_class, Uint16Array), (index) => byte_classes[index]);
  const bytes = new Float64Array(count + 1);
  stepBytes.forEach(({ read, written }, i) => {
    bytes[i + 1] = bytes[i] + sum([...read, ...written]);
  });
  const bytesOf = (t) => sum(stepBytes.map(({ read, written }) => read[t] + written[t]));
  const tensorBytes = data.tensors.map((_, t) => bytesOf(t));
  return { stepBytes, bytes, tensorBytes };
}

// Bytes per tensor that a step has requested once it has gone through `phase`.
export function bytesInStep(model, i, phase) {
  const phases = model.phases[i];
  const reached = phases.slice(0, phases.indexOf(phase) + 1);
  const { read, written } = model.stepBytes[i];
  return model.data.tensors.map(({ name }, t) => {
    const again = model.turnLast[i] > i ? model.stepBytes[i + 1].read[t] : 0;
    const loaded = reachedPart(phases, reached, ({ loads }) => loads.includes(name), read[t], again);
    return loaded + reachedPart(phases, reached, ({ stores }) => stores.includes(name), written[t]);
  });
}

export function bytesOfPhase(model, i, phase) {
  const phases = model.phases[i];
  const before = bytesInStep(model, i, phases[phases.indexOf(phase) - 1]);
  return bytesInStep(model, i, phase).map((bytes, t) => bytes - before[t]);
}

// Requested bytes at a cursor of a run, in all and per tensor.
export function bytesSoFar(timeline, at) {
  const { model } = timeline;
  const isIn = at.step >= 0 && !at.complete;
  const perTensor = isIn ? bytesInStep(model, at.step, at.phase) : model.data.tensors.map(() => 0);
  const flying = 1 - within(at.part, 0.45, 0.95); // a tile counts as it lands
  if (isIn) bytesOfPhase(model, at.step, at.phase).forEach((own, t) => (perTensor[t] -= flying * own));
  model.stepBytes.forEach(({ read, written }, i) => {
    if (at.isDone(i)) perTensor.forEach((_, t) => (perTensor[t] += read[t] + written[t]));
  });
  return { total: sum(perTensor), perTensor };
}

// Of `size` bytes, those of the phases that were reached. If several phases move a tensor, the first is that
// before the loop, and each of the others moves as much as the next round of the loop, `again`.
function reachedPart(phases, reached, moves, size, again = 0) {
  const all = phases.filter(moves).length;
  const now = reached.filter(moves).length;
  return now && size - (all - now) * again;
}

function findPhases({ data, count, kernel, kernelPhases }) {
  const { phase_class, phase_classes } = data.steps;
  const phases = Array.from(decode(phase_class, Uint8Array), (number, i) =>
    phase_classes[number].map((phase) => kernelPhases[kernel[i]][phase]),
  );
  const phaseStart = new Uint32Array(count + 1);
  for (let i = 0; i < count; i++) phaseStart[i + 1] = phaseStart[i] + Math.max(phases[i].length, 1);
  return { phases, phaseStart };
}

// The share of its rows' attention that a key tile of each step holds; a step may be about several of them.
// The largest share is drawn in the brightest colour, unless the scale of colours is shared with another run.
function scaleShares({ share, kv, kvEnd, kernels, kernel }) {
  const tileShare = Float64Array.from(share, (part, i) => part / 65535 / Math.max(1, kvEnd[i] - kv[i]));
  const largest = (most, part, i) => (kernels[kernel[i]].cells === "share" ? Math.max(most, part) : most);
  const largestShare = tileShare.reduce(largest, 1e-5);
  return { tileShare, largestShare, scaleShare: largestShare };
}

// The page of each key tile of each sequence, and all pages of each, by sequence: of those that were read.
function findPages(model) {
  const { count, page, kv, head } = model;
  const steps = page ? range(count).filter((i) => page[i] >= 0) : [];
  const of = (i) => sequenceOf(model, head[i]);
  const pageOfTile = new Map(steps.map((i) => [`${of(i)}|${kv[i]}`, page[i]]));
  return { pageOfTile, ownPages: new Set(steps.map((i) => `${of(i)}|${page[i]}`)) };
}

export const sequenceOf = ({ data }, head) => Math.floor(head / data.problem.kv_heads);

const tileKey = (kernel, head, q) => `${kernel}|${head}|${q}`;

export const stepsOfTile = (model, kernel, head, q) => model.tileSteps.get(tileKey(kernel, head, q)) ?? [];

// A kernel's steps about a tile (or several key tiles), in order; about the query tile if kv is negative.
export function stepsAbout(model, kernel, { head, q, kv }) {
  const isAbout = (i) => kv < 0 || (model.kv[i] <= kv && kv < model.kvEnd[i]);
  return stepsOfTile(model, kernel, head, q).filter(isAbout);
}

// Number of the query tile in a row of the grid. The grid of a sample has a row for each traced tile alone.
export const tileNumber = (model, q) => model.tileNumbers[q] ?? q;

// Number of a drawn row among the rows that the query tiles cut.
export const rowNumber = (model, { q, row }) =>
  tileNumber(model, q) * model.data.problem.block_m + model.offsets[row];

// The keys that the mask leaves a row, as ranges [first, end), from left to right. The rows of several heads
// follow each other if they are packed. `seen` holds a pattern's keys, of each head if heads differ.
export function keysOfRow({ q_len, kv_len, left, right, seen }, row, head = 0) {
  if (seen) return seen[head % seen.length][row] ?? [];
  const diagonal = (row % q_len) + kv_len - q_len;
  const end = Math.max(0, Math.min(diagonal + right + 1, kv_len));
  const first = Math.max(0, Math.min(diagonal - left, end));
  return first < end ? [[first, end]] : [];
}

export const holds = (ranges, key) => ranges.some(([first, end]) => first <= key && key < end);

// Whether a step is about a tile of the grid, and not about a query or a key tile alone.
export const hasTile = (model, i) => model.kv[i] >= 0 && model.q[i] >= 0;

// Whether a step is about one of several parts of the keys; each part starts with an m and an l of its own.
export const isInPart = (model, i) =>
  model.keyParts.length > 0 && Boolean(model.kernels[model.kernel[i]].splits_keys);

export const tileKind = (model, i) =>
  hasTile(model, i) ? model.kinds[model.q[i] * model.kvTiles + model.kv[i]] : KIND.skipped;

// A strip beside the grid, its tiles and the steps that fill it. A `parted` one has a tile per part of keys.
function makeStrip(model, strip) {
  const along = strip.paged ? "page" : strip.side === "top" ? "kv" : "q";
  const count = { page: model.data.pages?.count, kv: model.kvTiles, q: model.qTiles }[along];
  const inParts = strip.parted && model.keyParts.length > 0;
  const edges = inParts ? model.keyParts : range(count + 1);
  // Zeros, which are made of nothing, fill it no more than before.
  const fills = ({ loads, needs, stores }) => stores.includes(strip.name) && loads.length + needs.length > 0;
  const filling = range(count).map(() => []); // steps of all heads that fill each tile
  const t = model.data.tensors.findIndex(({ name }) => name === strip.name); // not each round writes lse
  const isFilling = (i) => model.stepBytes[i].written[t] > 0 && model.phases[i].some(fills);
  for (const i of range(model.count).filter(isFilling)) {
    const [first, end] = tilesOf(model, along, i);
    for (let tile = Math.max(first, 0); tile < end; tile++) filling[tile].push(i);
  }
  return { ...strip, along, edges, inParts, isFilled: model.kernelPhases.flat().some(fills), filling };
}

// The query tiles, the key tiles or the page, [first, end), that a step is about.
export function tilesOf(model, along, i) {
  if (along === "page") return [model.page[i], model.page[i] + 1];
  return along === "kv" ? [model.kv[i], model.kvEnd[i]] : [model.q[i], model.q[i] + 1];
}

// A value after step i, of a drawn row; null: not recorded.
export function valueAt(model, name, i, row) {
  const sent = model.values[name];
  if (!sent) return null;
  const value = sent.values[i * model.offsets.length + row];
  return sent.scale === "share" ? value / 65535 : value;
}

// Drawn rows of a query tile that exist; the last tile may have fewer.
export function rowCount(model, q) {
  const { rows, block_m } = model.data.problem;
  return model.offsets.filter((offset) => offset < rows - tileNumber(model, q) * block_m).length;
}

// The rows of a tile, as it is drawn, and the place of a drawn row in a box of them.
export const rowsOfTile = ({ data: { problem } }) => Math.min(problem.block_m, problem.rows);

export function rowBox(model, box, row) {
  const all = rowsOfTile(model);
  const h = box.h * Math.min(1, (model.offsets[1] ?? all) / all);
  return { ...box, y: box.y + (model.offsets[row] / all) * box.h, h };
}

// The last drawn row that is not below a row of its tile.
export const rowAbove = (model, offset) => model.offsets.findLastIndex((each) => each <= offset);
