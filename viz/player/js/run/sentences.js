// What a phase does and why, in one or two plain sentences with the numbers of one row. A phase names its
// sentence by `tells` (kernels/trace/algorithm.py). Without the numbers the sentence is said in general.

import { figureOf, matrixOf, rowOf, softmaxState } from "./figure.js";
import { formatBytes, formatSteady } from "./formats.js";
import { bytesInStep, isInPart, keysOfRow, rowNumber, tileNumber } from "./model.js";

const number = (value) => formatSteady(value);

// The sentence of the phase in progress, told for a row of the step's tile.
export function sentenceOf(model, at, row) {
  if (at.step < 0 || !at.phase) return "";
  const tell = SENTENCES[at.phase.tells];
  const words = tell ? tell(contextOf(model, at, row)) : "";
  return [movedWords(model, at), words].filter(Boolean).join(" ");
}

// Everything that a sentence may ask for; what was not recorded is null.
function contextOf(model, at, row) {
  const figure = figureOf(model, at.step);
  const { head_dim: width, scale } = model.data.problem;
  const offset = model.offsets[row];
  const named = (name) => figure?.matrices.find((matrix) => matrix.name === name);
  const recorded = (name) => (named(name) ? matrixOf(model, figure, named(name), at.step) : null);
  const isMasked = model.phases[at.step].some(({ tells }) => tells === "mask");
  const inTile = model.q[at.step] >= 0;
  const rowIndex = inTile ? rowNumber(model, { q: model.q[at.step], row }) : -1;
  const [firstSeen, end] = inTile ? keysOfRow(model.data.problem, rowIndex) : [0, 1];
  return {
    model,
    phase: at.phase,
    who: inTile ? `row ${rowIndex}` : "",
    isBlind: firstSeen === end,
    ofPart: isInPart(model, at.step) ? " of this part" : "",
    width,
    scale,
    firstKey: Math.max(model.kv[at.step], 0) * model.data.problem.block_n,
    state: inTile ? softmaxState(model, at.step, row) : null,
    scores: knownRow(recorded(isMasked ? "S" : "QK^T"), offset), // hidden ones are -Infinity
    of: (name) => knownRow(recorded(name), offset),
  };
}

// A row of a matrix; null if it was not recorded: then all of it is NaN.
function knownRow(matrix, row) {
  const values = matrix && row < matrix.rows ? rowOf(matrix, row) : [];
  return values.every(Number.isNaN) ? null : values;
}

// "Rows 8 to 11 of K come from HBM to the chip: 128 B."
function movedWords(model, at) {
  const { loads, stores } = at.phase;
  if (!loads.length && !stores.length) return "";
  const phases = model.phases[at.step];
  const before = phases[phases.indexOf(at.phase) - 1];
  const until = bytesInStep(model, at.step, at.phase);
  const from = before ? bytesInStep(model, at.step, before) : until.map(() => 0);
  const bytes = until.reduce((sum, value, i) => sum + value - from[i], 0);
  const size = bytes > 0 ? `: ${formatBytes(bytes)}` : "";
  const list = (names) => {
    const rows = names.map((name) => rowsOf(model, at.step, name)).find(Boolean) ?? "";
    return rows + (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0]);
  };
  const says = (names, [one, many], way) => {
    const words = list(names);
    const isOne = words.startsWith("Row ") || (names.length === 1 && words === names[0]);
    return `${words} ${isOne ? one : many} ${way}${size}.`;
  };
  const loaded = loads.length ? says(loads, ["comes", "come"], "from HBM to the chip") : "";
  const stored = stores.length ? says(stores, ["goes", "go"], "from the chip to HBM") : "";
  return [loaded, stored].filter(Boolean).join(" ");
}

// "Rows 8 to 11 of ", for a tensor that is cut along the queries or the keys.
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
  return first === last ? `Row ${first} of ` : `Rows ${first} to ${last} of `;
}

// Ascending numbers in words: ["3", "5 to 9"].
function rangesOf(numbers) {
  const ranges = [];
  for (const each of numbers) {
    if (ranges.at(-1)?.last === each - 1) ranges.at(-1).last = each;
    else ranges.push({ first: each, last: each });
  }
  return ranges.flatMap(({ first, last }) => {
    if (last - first < 2) return first === last ? [`${first}`] : [`${first}`, `${last}`];
    return [`${first} to ${last}`];
  });
}

const capital = (words) => words[0].toUpperCase() + words.slice(1);
const isFirst = (state) => state.oldM === -Infinity;
const noKey = ({ who, isBlind, ofPart }) =>
  isBlind ? `${capital(who)} sees no key` : `${capital(who)} has seen no key${ofPart} so far`;
const sum = (values) => values.reduce((total, value) => total + value, 0);

// By the name that an entry gives: `tells` of a phase.
export const SENTENCES = {
  scores: ({ who, width, scale, scores, of, firstKey }) => {
    const factor = `divided by √${width}: times ${number(scale)}`;
    const general = `A score is the dot product of a query and a key, ${factor}.`;
    const values = of("QK^T") ?? scores;
    if (!values) return general;
    const numbers = values.filter((value) => !Number.isNaN(value));
    const largest = Math.max(...numbers);
    const key = firstKey + values.indexOf(largest);
    const lost = values.length - numbers.length;
    const besides = lost ? `, besides ${lost} that ${lost === 1 ? "is" : "are"} NaN` : "";
    return `${general} The largest score of ${who} here is ${number(largest)}, with key ${key}${besides}.`;
  },
  mask: ({ who, scores, firstKey }) => {
    const general = "The mask turns the scores of keys that a row may not see into −∞.";
    if (!scores) return general;
    const hidden = scores.flatMap((score, i) => (score === -Infinity ? [firstKey + i] : []));
    const which = `${hidden.length === 1 ? "key" : "keys"} ${rangesOf(hidden).join(", ")}`;
    const sees = hidden.length ? `may not see ${which}` : "may see all of these keys";
    return `${general} ${capital(who)} ${sees}.`;
  },
  "row max": (context) => {
    const { who, state, ofPart } = context;
    if (!state) return "The running max m of a row becomes its largest score so far.";
    const { oldM, m } = state;
    if (m === -Infinity) return `${noKey(context)}: its max m stays −∞.`;
    if (isFirst(state))
      return (
        `These are the first keys${ofPart} that ${who} sees: ` +
        `its max m starts at −∞ and becomes ${number(m)}.`
      );
    if (m > oldM)
      return `The largest score of ${who} rises: its max m grows from ${number(oldM)} to ${number(m)}.`;
    return `No score of ${who} here is larger than its max so far: m stays ${number(m)}.`;
  },
  exponentials: (context) => {
    const { who, state, of } = context;
    const p = of("P");
    if (!state) return "Each score x becomes e^(x − m), a number between 0 and 1.";
    if (state.m === -Infinity) return `${noKey(context)}: its row of P is 0.`;
    const general = `Each score x becomes e^(x − m), with m = ${number(state.m)} in ${who}`;
    return p ? `${general}. They add up to ${number(sum(p))}.` : `${general}.`;
  },
  rescale: (context) => {
    const { who, state, of, ofPart } = context;
    if (!state) return "If the max of a row grew, its old sums shrink by α = e^(old m − new m).";
    const { oldM, oldL, m, l, alpha } = state;
    const p = of("P");
    const added = p ? sum(p) : l - alpha * oldL;
    if (m === -Infinity) return `${noKey(context)}: l and O stay 0.`;
    if (isFirst(state)) {
      const kept = `Nothing${ofPart} was summed up before, and α = e^(−∞) = 0 keeps it that way`;
      return `${kept}: the sum l of ${who} becomes ${number(l)}.`;
    }
    const summed = `l = ${number(alpha)} × ${number(oldL)} + ${number(added)} = ${number(l)}`;
    if (m === oldM) return `m of ${who} did not change, so α = e^0 = 1 and nothing shrinks: ${summed}.`;
    return (
      `m of ${who} rose from ${number(oldM)} to ${number(m)}, so everything summed up so far counts ` +
      `α = e^(${number(oldM)} − ${number(m)}) = ${number(alpha)} times: ${summed}. ` +
      "Its row of O shrinks alike."
    );
  },
  "rescale output": (context) => {
    const { who, state } = context;
    if (!state || isFirst(state)) return SENTENCES.rescale(context);
    const { oldL, l, alpha } = state;
    const factor = (alpha * oldL) / l;
    return (
      `${SENTENCES.rescale(context)} O from HBM was divided by the old l, so it counts ` +
      `α × old l / new l = ${number(factor)} times in ${who}.`
    );
  },
  add: () =>
    "Each value vector is multiplied by its number in P and added to O. " +
    "These numbers become weights at the very end, when O is divided by l.",
  "add output": () =>
    "Each value vector is multiplied by its weight in P, divided by the new l, and added to O.",
  finish: ({ who, state, isBlind }) => {
    if (isBlind)
      return `The rows are finished. ${capital(who)} sees no key: its row of O is 0, and its lse is −∞.`;
    return state && Number.isFinite(state.m)
      ? `The rows are finished: O is divided by l, which is ${number(state.l)} in ${who}, and ` +
          `lse = m + ln l = ${number(state.m + Math.log(state.l))}.`
      : "The rows are finished: O is divided by l, and lse = m + ln l.";
  },
  "weights from lse": ({ who, of, isBlind }) => {
    if (isBlind) return `${capital(who)} sees no key: its lse is −∞, and its row of P is 0.`;
    const lse = of("lse");
    const general = "The forward pass saved lse, so P = e^(score − lse) needs no other tile";
    return lse ? `${general}. lse of ${who} is ${number(lse[0])}.` : `${general}.`;
  },
  "mask weights": () => "Weights of keys that a row may not see become 0.",
  "d weights": () => "dP = dO Vᵀ says how the loss changes with each weight of P.",
  "d scores": ({ who, of }) => {
    const d = of("D");
    const general = "dS = P (dP − D) goes back through the softmax. D is the row sum of O · dO";
    return d ? `${general}; in ${who} it is ${number(d[0])}.` : `${general}.`;
  },
  gradient: ({ phase }) => `The product of this tile is added to ${phase.makes.join(", ")}.`,
  "unscaled gradient": ({ phase, width }) =>
    `The product of this tile is added to ${phase.makes.join(", ")}. ` +
    `The factor 1 / √${width} comes once, at the end.`,
  "part of dQ": () =>
    "The product of this tile is a part of dQ. Other programs compute the parts of other key tiles.",
  "add to dQ": () =>
    "It is added to a float32 sum in HBM. " +
    "Programs add in the order in which they get there, so the last bits of dQ may differ from run to run.",
  "scale dQ": ({ width }) => `dQ is the sum of all parts, divided by √${width}.`,
  "base two": () => "The GPU computes powers of 2, so lse is multiplied by log₂ e here, once for all tiles.",
  "row sums of O dO": () =>
    "D is the sum of O · dO over each row: one number per query, used in every tile of the row.",
  "log-sum-exp": () =>
    "Each part of the keys left an lse of its own. " +
    "The lse of all keys is the logarithm of the sum of their exponentials.",
  weigh: ({ who, of, isBlind }) => {
    if (isBlind) return `${capital(who)} sees no key: its row of O is 0, and its lse is −∞.`;
    const [part, all] = [of("partial lse"), of("lse")];
    if (!part || !all) return "O of this part counts e^(its lse − lse of all) times.";
    const weight = Math.exp(part[0] - all[0]);
    return (
      `In ${who} this part has lse ${number(part[0])}, all parts together ${number(all[0])}: ` +
      `its O counts e^(${number(part[0])} − ${number(all[0])}) = ${number(weight)} times.`
    );
  },
};
