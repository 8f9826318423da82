// What a first visitor sees: a word's tiles at a glance, what standard attention stores, the tiles slowly.

import { smooth, within } from "./run/easing.js";
import { shrinkingRows, toldRow } from "./run/figure.js";
import { KIND, range, tileKind } from "./run/model.js";
import { roleOf } from "./run/bench.js";
import { sentenceOf } from "./run/sentences.js";

const [MIXES_MS, STANDS_MS, KEEPS_MS, ON_MS, AFTER_MS] = [4600, 5600, 5000, 700, 5000];
const [A_GLANCE_MS, A_LETTER_MS] = [500, 25]; // a phase lasts until its sentence is read
const [LEADS_MS, CORRECTS_MS] = [1100, 8000]; // a phase that leads to it, and what a stranger comes for
const LEADS = new Set(["move", "max", "exponentials"]); // the sentence of a later phase tells them, too
const [SCAN, SLOW] = [20, 0.2]; // tiles per second, as they are seen
const MIXES = "Attention: each word takes something of itself and every earlier word. A score says how much.";
const STANDS =
  "Softmax turns the scores S of a word into weights P that add up to 1. It needs all scores at once, " +
  "so standard attention writes S to HBM and reads it back, then P.";
const KEEPS =
  "Again, slowly: FlashAttention sees one tile of scores at a time, then drops it. Of each word " +
  "it keeps the largest score m, the sum l of the weights e^(score − m), and the output O.";
const AFTER = "So it goes on, tile by tile. At a row’s end O is divided by l: the weights add up to 1.";

// How far standard attention has moved the scores: each matrix is written, then read back.
const stored = (part) => ({ S: within(part, 0, 0.5), P: within(part, 0.5, 1) });

export function overtureOf(model) {
  const good = goodTile(model);
  const opens = Math.min(model.turnFirst[good], Math.max(good - 1, 0));
  const steps = [opens, opens + 1, good, good + 1, model.turnLast[good] + 1, model.count];
  const [start, second, first, next, end, last] = steps.map((step) => model.phaseStart[step]);
  const phases = model.phases[good].map((each, k, own) => {
    const phase = own.slice(k).find((later) => !LEADS.has(roleOf(later))) ?? each;
    const words = sentenceOf(model, { step: good, phase }, toldRow(model, good, null));
    const reads = phase.rescales ? CORRECTS_MS : A_GLANCE_MS + A_LETTER_MS * words.length;
    const [ms, says] = phase === each ? [reads, words] : [LEADS_MS, words.split("\n")[0]];
    return { from: first + k, to: first + k + 1, ms, rate: () => SLOW, shape: (part) => part, says };
  });
  const [begun, ends] = [start + 0.1, end - 0.1]; // not in what is before, and not done
  const far = { rate: () => SCAN, shape: (part) => Math.min(1, part * 1.1) };
  const rest = Math.max(SLOW, (1000 * (model.count - good - 1)) / AFTER_MS);
  return [
    { from: begun, to: ends, ms: MIXES_MS, says: MIXES, stored: () => stored(0), ...far },
    { from: ends, to: ends, ms: STANDS_MS, says: STANDS, stored, ...far },
    { from: begun, to: second, ms: KEEPS_MS, rate: () => SLOW, shape: (part) => part, says: KEEPS },
    { from: second, to: first, ms: ON_MS * (good - opens - 1), rate: () => 4, says: KEEPS },
    ...phases,
    { from: next, to: last, ms: AFTER_MS, rate: (part) => SLOW * (rest / SLOW) ** smooth(part), says: AFTER },
  ];
}

// A whole tile in which old sums of many rows shrink by about half, or else one past the first third.
export function goodTile(model) {
  const isWhole = (step) => tileKind(model, step) === KIND.full;
  const told = range(model.count).map((step) => isWhole(step) * shrinkingRows(model, step).length);
  const most = told.reduce((a, b) => Math.max(a, b), 0);
  return most ? told.lastIndexOf(most) : Math.floor(model.count * 0.4);
}
