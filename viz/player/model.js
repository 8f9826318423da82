// Player data (see data.py) as typed arrays, with the look-ups that drawing needs. No drawing here.

const KIND = { skipped: 0, partial: 1, full: 2 };

function decode(text, ArrayType) {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  return new ArrayType(bytes.buffer);
}

function makeModel(data) {
  const { steps, rows, problem } = data;
  const count = steps.count;
  const model = {
    data,
    count,
    qTiles: problem.q_tiles,
    kvTiles: problem.kv_tiles,
    kinds: decode(data.kinds, Uint8Array),
    program: decode(steps.program, Uint32Array),
    head: decode(steps.head, Uint32Array),
    q: decode(steps.q, Uint32Array),
    kv: decode(steps.kv, Int32Array),
    kvEnd: decode(steps.kv_end, Int32Array),
    share: decode(steps.share, Uint16Array),
    byteClass: decode(steps.byte_class, Uint16Array),
    offsets: rows.offsets,
    m: decode(rows.m, Float32Array),
    l: decode(rows.l, Float32Array),
    alpha: decode(rows.alpha, Uint16Array),
    distance: rows.distance ? decode(rows.distance, Uint16Array) : null,
    clock: data.clock && { start: decode(data.clock.start, Uint32Array), end: decode(data.clock.end, Uint32Array), sm: decode(data.clock.sm, Uint16Array) },
  };
  // First and last step of the program that each step belongs to.
  model.programFirst = new Uint32Array(count);
  model.programLast = new Uint32Array(count);
  for (let i = 0; i < count; i++) model.programFirst[i] = i > 0 && model.program[i] === model.program[i - 1] ? model.programFirst[i - 1] : i;
  for (let i = count - 1; i >= 0; i--) model.programLast[i] = i < count - 1 && model.program[i] === model.program[i + 1] ? model.programLast[i + 1] : i;
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
  for (let i = 0; i < count; i++) model.phaseStart[i + 1] = model.phaseStart[i] + model.phases[i].length;
  return model;
}

// The phases that step i goes through: its program's start, one turn of the loop, its program's end.
function stepPhases(model, i) {
  const [prologue, loop, epilogue] = model.data.source.phases;
  const names = [];
  if (model.programFirst[i] === i) names.push(...prologue);
  if (model.kv[i] >= 0) names.push(...loop.filter((name) => name !== "mask" || tileKind(model, i) === KIND.partial));
  if (model.programLast[i] === i) names.push(...epilogue);
  return names;
}

function tileKind(model, i) {
  return model.kv[i] < 0 ? KIND.skipped : model.kinds[model.q[i] * model.kvTiles + model.kv[i]];
}

// State of one sampled row (its index in model.offsets) after step i.
function rowState(model, i, row) {
  const at = i * model.offsets.length + row;
  return {
    m: model.m[at],
    l: model.l[at],
    alpha: model.alpha[at] / 65535,
    distance: model.distance ? 10 ** ((model.distance[at] / 65535) * 12 - 9) : null,
  };
}

// Sampled rows of step i that exist (the last query tile may be ragged).
function rowCount(model, i) {
  const { q_len, block_m } = model.data.problem;
  const existing = q_len - model.q[i] * block_m;
  return model.offsets.filter((offset) => offset < existing).length;
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
