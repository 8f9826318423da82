// What a first visitor sees: the run once from its start to its end, slowly at one good tile.

import { smooth } from "./run/easing.js";
import { shrinkingRows, toldRow } from "./run/figure.js";
import { KIND, range, tileKind } from "./run/model.js";
import { roleOf } from "./run/bench.js";
import { sentenceOf } from "./run/sentences.js";

const [MIXES_MS, STANDS_MS, BACK_MS, KEEPS_MS, AFTER_MS] = [3200, 4400, 1200, 4000, 5000];
const [A_GLANCE_MS, A_LETTER_MS] = [500, 25]; // a phase lasts until its sentence is read
const [LEADS_MS, CORRECTS_MS] = [1100, 8000]; // a phase that leads to it, and what a stranger comes for
const LEADS = new Set(["move", "max", "exponentials"]); // the sentence of a later phase tells them, too
const [SCAN, SLOW] = [20, 0.2]; // tiles per second, as they are seen
const MIXES = "Attention: each word takes something of every earlier word. A score says how much.";
const STANDS =
  "Softmax needs all scores of a word, so standard attention writes them to HBM and reads them back (S, P).";
const KEEPS =
  "FlashAttention sees one tile at a time, then drops its scores.\n" +
  "Of each word it keeps the largest score m, the sum of weights l, and the output O.";
const AFTER =
  "So it goes on, tile by tile. After a row’s last tile, O is divided by l and goes to HBM, once.";

const pace = (from, to) => (part) => from * (to / from) ** smooth(part);

export function overtureOf(model) {
  const last = model.phaseStart[model.count];
  const good = goodTile(model);
  const [before, first, next] = [-1, 0, 1].map((by) => model.phaseStart[Math.max(good + by, 0)]);
  const phases = model.phases[good].map((each, k, own) => {
    const phase = own.slice(k).find((later) => !LEADS.has(roleOf(later))) ?? each;
    const words = sentenceOf(model, { step: good, phase }, toldRow(model, good, null));
    const reads = phase.rescales ? CORRECTS_MS : A_GLANCE_MS + A_LETTER_MS * words.length;
    const [ms, says] = phase === each ? [reads, words] : [LEADS_MS, words.split("\n")[0]];
    return { from: first + k, to: first + k + 1, ms, rate: () => SLOW, shape: (part) => part, says };
  });
  const middle = (last * MIXES_MS) / (MIXES_MS + STANDS_MS);
  const all = { rate: () => SCAN, shape: (part) => Math.min(1, part * 1.1) }; // each stands for a moment
  const rest = Math.max(SLOW, (1000 * (model.count - good - 1)) / AFTER_MS);
  return [
    { from: 0, to: middle, ms: MIXES_MS, says: MIXES, ...all },
    { from: middle, to: last, ms: STANDS_MS, says: STANDS, ...all },
    { from: last, to: before, ms: BACK_MS, rate: pace(SCAN, SLOW), says: KEEPS },
    { from: before, to: first, ms: KEEPS_MS, rate: () => SLOW, says: KEEPS },
    ...phases,
    { from: next, to: last, ms: AFTER_MS, rate: pace(SLOW, rest), says: AFTER },
  ];
}

// A whole tile in which old sums of many rows shrink by about half, or else one past the first third.
export function goodTile(model) {
  const isWhole = (step) => tileKind(model, step) === KIND.full;
  const told = range(model.count).map((step) => isWhole(step) * shrinkingRows(model, step).length);
  const most = told.reduce((a, b) => Math.max(a, b), 0);
  return most ? told.lastIndexOf(most) : Math.floor(model.count * 0.4);
}
