// What a phase does and why: what it moves, a sentence on it, and what it did to one row, in numbers. A phase
// names its sentence by `tells` (kernels/trace/algorithm.py).

import { figureOf, matrixOf, rowOf, softmaxState } from "./figure.js";
import { formatBytes, formatSteady } from "./formats.js";
import { bytesInStep, isInPart, keysOfRow, rowNumber, tileNumber } from "./model.js";

const number = formatSteady;

// What is said of every row, with {width} and {makes} filled in. Some also tell one row, if the numbers that
// they need of it were recorded; `blind` is told of a row that has seen no key.
export const SENTENCES = {
  scores: {
    says: "A score is the dot product of a query and a key, divided by √{width}.",
    needs: ["scaled"],
    tells: ({ who, scaled, firstKey }) => {
      const known = scaled.filter((value) => !Number.isNaN(value));
      const largest = Math.max(...known);
      const lost = scaled.length - known.length;
      const key = `key ${firstKey + scaled.indexOf(largest)}${lost ? `; ${lost} NaN` : ""}`;
      return `The largest of ${who} here is ${number(largest)}, with ${key}.`;
    },
  },
  mask: {
    says: "The mask turns the scores of keys that a row may not see into −∞.",
    needs: ["scores"],
    tells: ({ who, scores, firstKey }) => {
      const hidden = scores.flatMap((score, i) => (score === -Infinity ? [firstKey + i] : []));
      return `Keys hidden from ${who}: ${rangesOf(hidden).join(", ") || "none of these"}.`;
    },
  },
  "row max": {
    says: "The running max m of a row becomes its largest score so far.",
    needs: ["state"],
    tells: ({ who, state: { oldM, m } }) =>
      m > oldM
        ? `m of ${who} grows from ${number(oldM)} to ${number(m)}.`
        : `m of ${who} stays ${number(m)}.`,
    blind: "m stays −∞",
  },
  exponentials: {
    says: "Each score x becomes e^(x − m), a number between 0 and 1.",
    needs: ["state", "P"],
    tells: ({ who, state, P }) => `With m = ${number(state.m)}, those of ${who} add up to ${number(sum(P))}.`,
    blind: "its row of P is 0",
  },
  rescale: {
    says: "If m grew, all that was summed up so far, l and O, shrinks by α = e^(old m − new m).",
    needs: ["state"],
    tells: ({ who, state: { oldM, oldL, m, l, alpha }, P }) => {
      const added = P ? sum(P) : l - alpha * oldL;
      const factor = `α = e^(${number(oldM)} − ${number(m)}) = ${number(alpha)}`;
      const summed = `l = ${number(alpha)} × ${number(oldL)} + ${number(added)} = ${number(l)}`;
      return `In ${who}: ${factor}, ${summed}.`;
    },
    blind: "l and O stay 0",
  },
  "rescale output": {
    says: "O from HBM was divided by the old l, so it counts α × old l / new l times.",
    needs: ["state"],
    tells: ({ who, state: { oldL, l, alpha } }) => {
      const factor = `${number(alpha)} × ${number(oldL)} / ${number(l)} = ${number((alpha * oldL) / l)}`;
      return `In ${who}: ${factor}.`;
    },
    blind: "l and O stay 0",
  },
  add:
    "Each value vector is multiplied by its number in P and added to O. " +
    "These numbers become weights at the very end, when O is divided by l.",
  "add output": "Each value vector is multiplied by its weight in P, divided by the new l, and added to O.",
  finish: {
    says: "The rows are finished: O is divided by l, and lse = m + ln l.",
    needs: ["state"],
    tells: ({ who, state: { m, l } }) =>
      `lse of ${who} is ${number(m)} + ln ${number(l)} = ${number(m + Math.log(l))}.`,
    blind: "its O is 0 and its lse −∞",
  },
  "weights from lse": {
    says: "The forward pass saved lse, so P = e^(score − lse) needs no other tile.",
    needs: ["lse"],
    tells: ({ who, lse }) => `lse of ${who} is ${number(lse[0])}.`,
    blind: "its lse is −∞ and its row of P 0",
  },
  "mask weights": "Weights of keys that a row may not see become 0.",
  "d weights": "dP = dO Vᵀ says how the loss changes with each weight of P.",
  "d scores": {
    says: "dS = P (dP − D) goes back through the softmax. D is the row sum of O · dO.",
    needs: ["D"],
    tells: ({ who, D }) => `D of ${who} is ${number(D[0])}.`,
  },
  gradient: "The product of this tile is added to {makes}.",
  "unscaled gradient":
    "The product of this tile is added to {makes}. The factor 1 / √{width} comes once, at the end.",
  "part of dQ":
    "The product of this tile is a part of dQ. Other programs compute the parts of other key tiles.",
  "add to dQ":
    "It is added to a float32 sum in HBM. " +
    "Programs add in the order in which they get there, so the last bits of dQ may differ from run to run.",
  "scale dQ": "dQ is the sum of all parts, divided by √{width}.",
  "base two": "The GPU computes powers of 2, so lse is multiplied by log₂ e here, once for all tiles.",
  "row sums of O dO":
    "D is the sum of O · dO over each row: one number per query, used in every tile of the row.",
  "log-sum-exp":
    "Each part of the keys left an lse of its own. " +
    "The lse of all keys is the logarithm of the sum of their exponentials.",
  weigh: {
    says: "O of this part counts e^(its lse − lse of all) times.",
    needs: ["partial lse", "lse"],
    tells: ({ who, "partial lse": [part], lse: [all] }) =>
      `In ${who}: e^(${number(part)} − ${number(all)}) = ${number(Math.exp(part - all))}.`,
    blind: "its O is 0 and its lse −∞",
  },
};

// The sentence of the phase in progress, told for a row of the step's tile.
export function sentenceOf(model, at, row) {
  if (at.step < 0 || !at.phase) return "";
  const entry = SENTENCES[at.phase.tells];
  const { says, needs, tells, blind } = entry?.says ? entry : { says: entry };
  const moved = [
    movedWords(model, at, "loads", "From HBM to the chip"),
    movedWords(model, at, "stores", "From the chip to HBM"),
  ];
  if (!says) return moved.filter(Boolean).join(" ");
  const context = contextOf(model, at, row);
  const { who, sees, state } = context;
  const isBlind = blind && who && (!sees || state?.m === -Infinity);
  const isKnown = needs?.every((name) => context[name] !== null);
  const seen = sees ? "has seen no key so far" : "sees no key";
  const own = isBlind ? `${capital(who)} ${seen}: ${blind}.` : who && isKnown ? tells(context) : "";
  const general = says.replace(/\{(\w+)\}/g, (_, name) => context[name]);
  return [...moved, general, own].filter(Boolean).join(" ");
}

// Everything that a sentence may ask for; what was not recorded of the row is null.
function contextOf(model, at, row) {
  const figure = figureOf(model, at.step);
  const inTile = model.q[at.step] >= 0;
  const index = inTile ? rowNumber(model, { q: model.q[at.step], row }) : -1;
  const [first, end] = inTile ? keysOfRow(model.data.problem, index) : [0, 1];
  const rowIn = (name) => {
    const named = figure?.matrices.find((matrix) => matrix.name === name);
    const matrix = named && matrixOf(model, figure, named, at.step);
    const values = matrix && model.offsets[row] < matrix.rows ? rowOf(matrix, model.offsets[row]) : [];
    return values.every(Number.isNaN) ? null : values; // of a row that was not recorded all is NaN
  };
  const isMasked = model.phases[at.step].some(({ tells }) => tells === "mask");
  const scores = rowIn(isMasked ? "S" : "QK^T"); // hidden ones are -Infinity
  return {
    makes: at.phase.makes.join(", "),
    who: inTile ? `row ${index}${isInPart(model, at.step) ? " in this part" : ""}` : "",
    sees: first < end,
    width: model.data.problem.head_dim,
    firstKey: Math.max(model.kv[at.step], 0) * model.data.problem.block_n,
    state: inTile ? softmaxState(model, at.step, row) : null,
    scores,
    scaled: rowIn("QK^T") ?? scores,
    ...Object.fromEntries(["P", "lse", "partial lse", "D"].map((name) => [name, rowIn(name)])),
  };
}

// "From HBM to the chip: rows 8 to 11 of K, 128 B."
function movedWords(model, { step, phase }, direction, way) {
  const names = phase[direction];
  if (!names.length) return "";
  const phases = model.phases[step];
  const before = phases[phases.indexOf(phase) - 1];
  const until = bytesInStep(model, step, phase);
  const from = before ? bytesInStep(model, step, before) : until.map(() => 0);
  const bytes = model.data.tensors.reduce(
    (total, { name }, t) => total + (names.includes(name) ? until[t] - from[t] : 0),
    0,
  );
  const rows = names.map((name) => rowsOf(model, step, name)).find(Boolean) ?? "";
  return `${way}: ${rows}${names.join(", ")}${bytes > 0 ? `, ${formatBytes(bytes)}` : ""}.`;
}

// "rows 8 to 11 of ", for a tensor that is cut along the queries or the keys.
function rowsOf(model, step, name) {
  const strip = model.data.strips.find((each) => each.name === name);
  if (!strip || model.data.problem.packed) return "";
  const { block_m: rows, block_n: keys, q_len: queries, kv_len: length } = model.data.problem;
  const [tile, block, end] =
    strip.side === "top"
      ? [model.kv[step], keys, length]
      : [tileNumber(model, Math.max(model.q[step], 0)), rows, queries];
  if (tile < 0) return "";
  const [first, last] = [tile * block, Math.min((tile + 1) * block, end) - 1];
  return first === last ? `row ${first} of ` : `rows ${first} to ${last} of `;
}

// Ascending numbers in words: ["3", "5 to 9"].
function rangesOf(numbers) {
  const ranges = [];
  for (const each of numbers) {
    if (ranges.at(-1)?.last === each - 1) ranges.at(-1).last = each;
    else ranges.push({ first: each, last: each });
  }
  return ranges.map(({ first, last }) => (first === last ? `${first}` : `${first} to ${last}`));
}

const capital = (words) => words[0].toUpperCase() + words.slice(1);
const sum = (values) => values.reduce((total, value) => total + value, 0);
