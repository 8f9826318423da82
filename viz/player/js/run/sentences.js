// What a phase does and why: what it moves, a sentence on it, and what it did to one row, in numbers. A phase
// brings what it `says` (viz/player/sentences.toml); `wordsOf` has the words in its braces.

import { finishOf, roleOf } from "./bench.js";
import { rowNamed, scoresOf, softmaxState, stepBefore } from "./figure.js";
import { cell, difference, digitsFor, formatBytes, formatNumber, formatSteady, inDigits } from "./formats.js";
import { bytesOfPhase, holds, isInPart, keysOfRow, rowNumber, sum } from "./model.js";

const CORRECTS = "Where m grew, the old l and O times α = e^(old m − new m) fit the new m.";
const FIRST = "The weights of a row so far add up to its sum l: {l} in {who}.";
const FIRST_AFTER_SINK =
  "The sink came first, a logit of {oldM} without a value: l was 1. In {who}: {factor}, l = {summed}.";

const HIDDEN = "Keys that a row may not see, or past the last, get −∞: they will weigh 0.";
const LATER = "Later words are hidden: they get −∞, and weigh 0.";

const WAYS = { loads: "From HBM to the chip", stores: "From the chip to HBM" };

// Of a phase that names no sentence, by what it does.
const BY_ROLE = {
  mask: "{hidden}",
  max: "The max of a row is its largest score so far.",
  exponentials: "Scores become weights.",
  product: "A product of two tiles makes {makes}, on the chip.",
};

// What the phase in progress moves, what it does to every row, and what to the one that is told.
export function sentenceOf(model, at, row) {
  if (at.step < 0 || !at.phase) return "";
  const [says = BY_ROLE[roleOf(at.phase)] ?? "", tells, blind] = at.phase.says;
  const moved = Object.keys(WAYS).map((direction) => movedWords(model, at, direction));
  const words = wordsOf(model, at, row);
  const filled = (text) => text.replace(/\{(\w+)\}/g, (_, name) => words[name]);
  const isFirst = at.phase.rescales && words.oldL === "0" && !words.isBlind;
  const isAfterSink = at.phase.rescales && model.data.problem.sinks && stepBefore(model, at.step) < 0;
  if (isAfterSink) return filled(FIRST_AFTER_SINK);
  if (isFirst) return filled(FIRST);
  const isKnown = tells?.match(/\w+(?=\})/g).every((name) => words[name]);
  const blindly = `{who} ${words.sees ? "has seen no key so far" : "sees no key"}: ${blind}.`;
  const own = blind && words.isBlind ? capital(filled(blindly)) : isKnown ? filled(tells) : "";
  return [...moved, filled(says), own].filter(Boolean).join(" ");
}

// The words that a sentence may ask for; "" if a number was not recorded of the row.
export function wordsOf(model, at, row) {
  const about = {
    makes: at.phase.makes.join(", "),
    corrects: CORRECTS,
    width: model.data.problem.head_dim,
    changed: changeWords(model.data.problem),
    hidden: model.data.words && model.data.problem.mask === "causal" ? LATER : HIDDEN,
    ...(model.page && pageWords(model, at.step)),
  };
  if (model.q[at.step] < 0) return { ...about, who: "", isBlind: false };
  const index = rowNumber(model, { q: model.q[at.step], row });
  const who = rowCalled(model, at.step, row);
  const sees = keysOfRow(model.data.problem, index, model.head[at.step]).length > 0;
  const state = softmaxState(model, at.step, row);
  const names = ["P", "lse", "partial lse", "D"];
  const [P, lse, part, D] = names.map((name) => rowNamed(model, name, at.step, row));
  return {
    ...about,
    who: `${who}${isInPart(model, at.step) ? " in this part" : ""}`,
    sees,
    isBlind: !sees || state?.m === -Infinity,
    ...scoreWords(model, at.step, row),
    ...(state && numberWords(state, P, model, at.step)),
    lse: firstOf(lse),
    D: firstOf(D),
    ofPart: part && lse ? differenceOfPower(part[0], lse[0]) : "",
    weight: part && lse ? formatSteady(Math.exp(part[0] - lse[0])) : "",
  };
}

// A row or a key: its word if the inputs are a text, or its number.
const named = (name, word) => (word ? `“${word}”` : name);

export function rowCalled(model, step, row) {
  const index = rowNumber(model, { q: model.q[step], row });
  return named(`row ${index}`, model.data.words?.[0][index % model.data.problem.q_len]);
}

function changeWords({ softcap, alibi }) {
  const cap = softcap ? `Scores are capped: ${softcap} · tanh(s / ${softcap}). ` : "";
  return cap + (alibi ? "A score falls with the distance of its key (ALiBi). " : "");
}

function pageWords({ page, kv, data }, step) {
  const { block_n: size, kv_len: length } = data.problem;
  const firstKey = kv[step] * size;
  return { page: page[step], firstKey, lastKey: Math.min(firstKey + size, length) - 1 };
}

function scoreWords(model, step, row) {
  const scaled = rowNamed(model, "QK^T", step, row) ?? scoresOf(model, step, row);
  if (!scaled) return {};
  const { block_n: size, kv_len: length, q_len: queries } = model.data.problem;
  const firstKey = Math.max(model.kv[step], 0) * size;
  const number = rowNumber(model, { q: model.q[step], row });
  const keys = keysOfRow(model.data.problem, number, model.head[step]);
  const largest = Math.max(...scaled.filter((_, i) => holds(keys, firstKey + i))); // of those it may see
  const key = firstKey + scaled.findIndex((value) => Object.is(value, largest));
  const isOwn = model.data.words && key - number === length - queries;
  return {
    largest: Number.isFinite(largest) ? formatSteady(largest) : "",
    key: isOwn ? "itself" : named(`key ${key}`, model.data.words?.[1][key]),
  };
}

const toCount = (parts, count) => parts.map((each) => inDigits(each, digitsFor(parts, count)));

function numberWords(state, P, { data, head }, step) {
  const { sinks } = data.problem;
  const { oldM, oldL, m, l, alpha, lse: lseOfState } = state;
  const sink = sinks ? formatNumber((100 * Math.exp(sinks[head[step] % sinks.length] - m)) / l) : "";
  const numbers = { oldM, oldL, m, l, alpha, kept: (alpha * oldL) / l, lseOfState };
  const words = Object.entries(numbers).map(([name, value]) => [name, formatSteady(value)]);
  const added = P ? formatSteady(sum(P)) : "";
  const grows = m > oldM ? `grows from ${formatSteady(oldM)} to` : "stays";
  const [logM, logL] = toCount([m, l], (x, y) => x + Math.log(y));
  const [a, old, now] = toCount([alpha, oldL, l], (x, y, z) => (x * y) / z);
  const counted = { sumOfState: `${logM} + ln ${logL}`, productOfOld: `${a} × ${old} / ${now}` };
  return { ...Object.fromEntries(words), ...counted, added, grows, ...rescaleWords(state), sink };
}

function fromTo(isKnown, ...values) {
  const [before, after] = values.map(formatSteady);
  return isKnown && before !== after ? `${before} → ${after}` : before;
}

// "row 5: m −∞ → 1.12, α 0, l 0 → 1.73": what is known by now.
export function stateWords(model, at, row, name) {
  const state = softmaxState(model, at.step, row);
  if (!state) return gradientWords(model, at, row, name);
  const { sumOfState, lseOfState } = numberWords(state, null, model, at.step);
  if (finishOf(model, at) > 0.5) return `row ${name}:  lse = m + ln l = ${sumOfState} = ${lseOfState}`;
  const phases = model.phases[at.step];
  const done = at.complete ? phases.length : phases.indexOf(at.phase) + Math.floor(at.part);
  const hasMax = done > phases.findIndex((phase) => phase.tells.startsWith("row max"));
  const hasSum = done > phases.findIndex((phase) => phase.rescales);
  const [m, l] = [fromTo(hasMax, state.oldM, state.m), fromTo(hasSum, state.oldL, state.l)];
  return `row ${name}:  max m = ${m}   sum l = ${hasSum && state.alpha % 1 ? rescaleWords(state).summed : l}`;
}

// How the first number of a row is made, in the backward pass.
function gradientWords(model, at, row, name) {
  const read = (matrix) => rowNamed(model, matrix, at.step, row)?.[0];
  const [S, P, lse, dP, D, dS] = ["QK^T", "P", "lse", "dP", "D", "dS"].map(read);
  if (dP === undefined) return "";
  const many = digitsFor([P, dP, D], (weight, own, all) => weight * (own - all));
  const made = {
    "weights from lse": `P = e^(${difference(S, lse, cell)}) ≈ ${cell(P)}`,
    "d scores": `dS = ${inDigits(P, many)} × (${difference(dP, D, (x) => inDigits(x, many))}) ≈ ${cell(dS)}`,
  };
  const words = at.part > 0.5 && made[at.phase?.tells];
  return words ? `row ${name}, key ${model.kv[at.step] * model.data.problem.block_n}:  ${words}` : "";
}

// The digits of a and b that give e^(a − b) so many.
const digitsOfPower = (a, b, digits = 3) => digitsFor([a, b], (x, y) => Math.exp(x - y), digits);
const differenceOfPower = (a, b, digits) => difference(a, b, (x) => inDigits(x, digitsOfPower(a, b, digits)));

// How a row's old sums are corrected, with numbers that give the result to whoever counts again.
export function rescaleWords(state) {
  const { oldM, oldL, m, l, alpha } = state;
  const parts = [alpha, oldL, l - alpha * oldL];
  const digits = digitsFor(parts, (a, old, added) => a * old + added);
  const [a, old, added] = parts.map((each) => inDigits(each, digits));
  const powers = differenceOfPower(oldM, m, digits);
  const factor = `α = e^(${powers}) = ${a}`;
  const summed = `${a} × ${old} + ${added} = ${formatSteady(l)}`;
  if (!(m > oldM)) return { factor, powers, summed, corrects: "No larger score came: m stays, so α = 1." };
  const corrects = `The old sums l and O used the old m. Times ${factor}, they fit the new one.`;
  return { factor, powers, summed, corrects };
}

const firstOf = (values) => (values ? formatSteady(values[0]) : "");

// "From HBM to the chip: K, 128 B."
function movedWords(model, { step, phase }, direction) {
  const names = phase[direction];
  if (!names.length) return "";
  const isNamed = (_, t) => names.includes(model.data.tensors[t].name);
  const bytes = sum(bytesOfPhase(model, step, phase).filter(isNamed));
  return `${WAYS[direction]}: ${names.join(", ")}${bytes > 0 ? `, ${formatBytes(bytes)}` : ""}.`;
}

export const capital = (words) => words[0].toUpperCase() + words.slice(1);
