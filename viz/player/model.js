// Player data (see data.py) as typed arrays, with the look-ups that drawing needs. No drawing here.

const KIND = { skipped: 0, partial: 1, full: 2 };

function decode(text, ArrayType) {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  return new ArrayType(bytes.buffer);
}

const VALUE_ARRAYS = { m: Float32Array, l: Float32Array }; // the others are 16 bits: parts of 1, or logarithms
const LOG_VALUES = new Set(["distance", "dQ", "dK", "dV"]);
const OF_THE_TILE = new Set(["dQ", "dK", "dV"]); // one value a step, not one a row

function makeModel(data) {
  const { steps, rows, problem } = data;
  const count = steps.count;
  const model = {
    data,
    count,
    kernels: data.kernels,
    qTiles: problem.q_tiles,
    kvTiles: problem.kv_tiles,
    kinds: decode(data.kinds, Uint8Array),
    kernel: decode(steps.kernel, Uint8Array),
    turn: decode(steps.turn, Uint32Array),
    head: decode(steps.head, Uint32Array),
    q: decode(steps.q, Int32Array),
    kv: decode(steps.kv, Int32Array),
    kvEnd: decode(steps.kv_end, Int32Array),
    share: decode(steps.share, Uint16Array),
    byteClass: decode(steps.byte_class, Uint16Array),
    offsets: rows.offsets,
    values: Object.fromEntries(Object.entries(rows.values).map(([name, text]) => [name, decode(text, VALUE_ARRAYS[name] ?? Uint16Array)])),
    clock: { start: decode(data.clock.start, Uint32Array), end: decode(data.clock.end, Uint32Array), sm: decode(data.clock.sm, Uint16Array), measured: data.clock.measured },
  };
  // First and last step of the turn of the outer loop that each step belongs to.
  model.turnFirst = new Uint32Array(count);
  model.turnLast = new Uint32Array(count);
  for (let i = 0; i < count; i++) model.turnFirst[i] = i > 0 && model.turn[i] === model.turn[i - 1] ? model.turnFirst[i - 1] : i;
  for (let i = count - 1; i >= 0; i--) model.turnLast[i] = i < count - 1 && model.turn[i] === model.turn[i + 1] ? model.turnLast[i + 1] : i;
  // Steps of each kernel about each query tile, in the order in which they ran.
  model.tileSteps = new Map();
  for (let i = 0; i < count; i++) {
    if (model.q[i] < 0) continue;
    const key = tileKey(model.kernel[i], model.head[i], model.q[i]);
    if (!model.tileSteps.has(key)) model.tileSteps.set(key, []);
    model.tileSteps.get(key).push(i);
  }
  // Requested bytes before each step, per tensor and in all.
  const tensors = data.tensors.length;
  model.tensorBytes = Array.from({ length: tensors }, () => new Float64Array(count + 1));
  model.bytes = new Float64Array(count + 1);
  for (let i = 0; i < count; i++) {
    let sum = 0;
    steps.byte_classes[model.byteClass[i]].forEach((bytes, t) => {
      model.tensorBytes[t][i + 1] = model.tensorBytes[t][i] + bytes;
      sum += bytes;
    });
    model.bytes[i + 1] = model.bytes[i] + sum;
  }
  model.phases = Array.from({ length: count }, (_, i) => stepPhases(model, i));
  model.phaseStart = new Uint32Array(count + 1); // phases before each step
  for (let i = 0; i < count; i++) model.phaseStart[i + 1] = model.phaseStart[i] + Math.max(model.phases[i].length, 1);
  // A part of the keys is a tile of its own where partial results are kept; `parts` holds where each begins, and the end.
  model.parts = data.parts.length > 2 ? data.parts : [];
  model.heads = [...new Set(model.head)];
  // What a key tile holds of its rows' attention; a step may be about several. The brightest colour is the largest of them.
  model.tileShare = Float64Array.from(model.share, (share, i) => share / 65535 / Math.max(1, model.kvEnd[i] - model.kv[i]));
  model.scaleShare = model.tileShare.reduce((most, share, i) => (model.kernels[model.kernel[i]].cells === "share" ? Math.max(most, share) : most), 1e-5);
  model.strips = makeStrips(model);
  return model;
}

function tileKey(kernel, head, q) {
  return `${kernel}|${head}|${q}`;
}

// The phases that step i goes through: its turn's start, one round of the loop, its turn's end.
function stepPhases(model, i) {
  const [prologue, loop, epilogue] = model.kernels[model.kernel[i]].source.phases;
  const names = [];
  if (model.turnFirst[i] === i) names.push(...prologue);
  if (model.kv[i] >= 0 && model.q[i] >= 0) names.push(...loop.filter((name) => name !== "mask" || tileKind(model, i) !== KIND.full));
  if (model.turnLast[i] === i) names.push(...epilogue);
  return names;
}

function tileKind(model, i) {
  return model.kv[i] < 0 || model.q[i] < 0 ? KIND.skipped : model.kinds[model.q[i] * model.kvTiles + model.kv[i]];
}

// The tensors that a phase moves: "load Q, dO" moves Q and dO to the chip, "store O" moves O back.
function movedTensors(phase, way) {
  return phase.startsWith(`${way} `) ? phase.slice(way.length + 1).split(", ") : [];
}

// The strips around the grid: where each lies, which phases of which kernel move it, and which steps fill each of its tiles.
function makeStrips(model) {
  const { top, left, right } = model.data.strips;
  const make = (side) => (name, place) => {
    const along = side === "top" ? "kv" : "q";
    const stores = model.kernels.flatMap((kernel, k) =>
      kernel.source.phases.flatMap((phases, part) => (phases.some((phase) => movedTensors(phase, "store").includes(name)) ? [{ kernel: k, everyStep: part === 1 }] : [])),
    );
    const count = along === "kv" ? model.kvTiles : model.qTiles;
    const edges = name.startsWith("partial ") && model.parts.length ? model.parts : Array.from({ length: count + 1 }, (_, i) => i);
    return { name, side, place, along, edges, color: tensorColor(name), store: stores[0], filled: new Map() };
  };
  return [...top.map(make("top")), ...left.map(make("left")), ...right.map(make("right"))];
}

// Steps of one head that fill each tile of a strip.
function fillingSteps(model, strip, head) {
  if (!strip.filled.has(head)) {
    const tiles = Array.from({ length: strip.along === "kv" ? model.kvTiles : model.qTiles }, () => []);
    for (let i = 0; i < model.count; i++) {
      if (model.kernel[i] !== strip.store.kernel || model.head[i] !== head) continue;
      if (strip.along === "q" && model.q[i] >= 0) tiles[model.q[i]].push(i);
      if (strip.along === "kv" && model.kv[i] >= 0) for (let kv = model.kv[i]; kv < model.kvEnd[i]; kv++) tiles[kv].push(i);
    }
    strip.filled.set(head, tiles);
  }
  return strip.filled.get(head);
}

// A named value of one sampled row (its index in model.offsets), or of the whole tile, after step i; null where it was not recorded.
function valueAt(model, name, i, row) {
  const values = model.values[name];
  if (!values) return null;
  const value = values[OF_THE_TILE.has(name) ? i : i * model.offsets.length + row];
  if (VALUE_ARRAYS[name]) return value;
  return LOG_VALUES.has(name) ? 10 ** ((value / 65535) * 12 - 9) : value / 65535;
}

// Sampled rows of a query tile that exist (the last one may be ragged).
function rowCount(model, q) {
  const { rows, block_m } = model.data.problem;
  const existing = rows - q * block_m;
  return model.offsets.filter((offset) => offset < existing).length;
}

function tensorColor(name) {
  return { Q: "query", K: "key", V: "value", O: "output", S: "muted", P: "muted" }[name.replace(/^(d|partial )(?=[A-Z])/, "")] ?? "state";
}

function formatBytes(count) {
  for (const [unit, size] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (count >= 0.9995 * size) return `${formatNumber(count / size)} ${unit}`;
  }
  return `${Math.round(count)} B`;
}

function formatNumber(value, digits = 3) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "–" : value < 0 ? "-∞" : "∞";
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential(1);
  const text = value.toPrecision(digits);
  return String(Math.abs(Number(text)) >= 10 ** (digits - 1) ? Math.round(value) : Number(text));
}
