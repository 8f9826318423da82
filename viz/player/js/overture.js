// What a first visitor sees: the run once from its start to its end, slowly at one good tile.

import { smooth } from "./run/easing.js";
import { shrinkingRows, toldRow } from "./run/figure.js";
import { hasTile } from "./run/model.js";
import { roleOf } from "./run/bench.js";
import { sentenceOf } from "./run/sentences.js";

const [MIXES_MS, STANDS_MS, SEES_MS, SUMS_MS, AFTER_MS] = [4000, 4800, 3500, 3500, 5000];
const [A_GLANCE_MS, A_LETTER_MS] = [500, 25]; // a phase lasts until its sentence is read
const [LEADS_MS, CORRECTS_MS] = [1200, 8000]; // a phase that leads to it, and what a stranger comes for
const LEADS = new Set(["move", "max", "exponentials"]); // the sentence of a later phase tells them, too
const [SCAN, FIRST, SLOW, LAST] = [20, 4, 0.2, 20]; // tiles per second, as they are seen
const MIXES =
  "Attention mixes the values of earlier words; a score says how much of each (here random vectors).";
const STANDS =
  "The weights of a row add up to 1, so softmax wants the whole row: standard attention writes all scores " +
  "to slow memory and reads them back.";
const SEES = "FlashAttention sees a tile of a row at a time: it keeps sums, and each tile corrects them.";
const SUMS = "l: the sum of this row's weights so far. O: its values by weight, divided by l at the end.";
const AFTER = "The same for all other tiles. O of a row goes to HBM once, after its last tile.";

const pace = (from, to) => (part) => from * (to / from) ** smooth(part);

export function overtureOf(model) {
  const last = model.phaseStart[model.count];
  const good = goodTile(model);
  const [ofRow, first, next] = [model.turnFirst[good], good, good + 1].map((step) => model.phaseStart[step]);
  const row = toldRow(model, good, null);
  const told = model.phases[good].map((each, k, phases) => {
    const phase = phases.slice(k).find((later) => !LEADS.has(roleOf(later))) ?? each;
    const words = sentenceOf(model, { step: good, phase }, row);
    const reads = phase.rescales ? CORRECTS_MS : A_GLANCE_MS + A_LETTER_MS * words.length;
    const [ms, says] = phase === each ? [reads, words] : [LEADS_MS, words.split("\n")[0]];
    return { from: first + k, to: first + k + 1, ms, rate: () => SLOW, says };
  });
  return [
    { from: 0, to: 0, ms: MIXES_MS, rate: () => SCAN, says: MIXES },
    { from: 0, to: 0, ms: STANDS_MS, rate: (part) => pace(SCAN, FIRST)(6 * part - 5), says: STANDS },
    { from: 0, to: ofRow, ms: SEES_MS, rate: pace(FIRST, SLOW), says: SEES },
    { from: ofRow, to: first, ms: SUMS_MS, rate: () => SLOW, says: SUMS },
    ...told,
    { from: next, to: last, ms: AFTER_MS, rate: pace(SLOW, LAST), says: AFTER },
  ];
}

// A tile in which old sums of many rows shrink by about half; without such sums one past the first third.
export function goodTile(model) {
  let [best, most] = [Math.floor(model.count * 0.4), 0];
  for (let step = 0; step < model.count; step++) {
    if (!hasTile(model, step) || !model.values.alpha) continue;
    const told = shrinkingRows(model, step).length;
    if (told > most) [best, most] = [step, told];
  }
  return best;
}
