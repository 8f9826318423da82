// What a first visitor sees: what attention is, what standard attention stores, then FlashAttention, slowly.

import { clamp } from "./run/easing.js";
import { shrinkingRows, toldRow } from "./run/figure.js";
import { KIND, range, tileKind } from "./run/model.js";
import { sentencesOf } from "./run/sentences.js";

const [EMPTY, MELTS, SLOW] = [9.17, 4, 0.2]; // tiles per second, as they are seen: at first nothing of them
const [TAKES_MS, STORES_MS, LOADS_MS, WORKS_MS, CORRECTS_MS, ON_MS] = [5500, 3000, 2200, 3000, 7500, 3500];
const TAKES = "Each word takes something of itself and of every earlier word.";
// What is said, and then how far the scores S and their weights P have been moved to HBM and back.
const STORES = [
  ["It writes a score S for each pair of words to HBM, the GPU’s memory.", (part) => [part / 2, 0]],
  ["It reads the scores back. Softmax turns them into weights P.", (part) => [(1 + part) / 2, 0]],
  ["It writes the weights to HBM, too.", (part) => [1, part / 2]],
  ["It reads them back, to add up the values V, each times its weight.", (part) => [1, (1 + part) / 2]],
];

const act = (title, [from, to], ms, rate, says, scene) => {
  return { from, to, ms, rate: () => rate, shape: clamp, says: `${title}\n${says}`, scene };
};

// Each phase, with what it does in the first tile of a row, and what to the told row in the next one; of what
// it loads, first what that is.
function told(model, flash, step) {
  const isFirst = step === model.turnFirst[step];
  const row = toldRow(model, step, null);
  return model.phases[step].map((phase, k) => {
    const { loads, rescales } = phase;
    const says = sentencesOf(model, { step, phase }, row);
    const ms = loads.length ? LOADS_MS : rescales && !isFirst ? CORRECTS_MS : WORKS_MS;
    const from = model.phaseStart[step] + k;
    return flash([from, from + 1], ms, SLOW, says.at(rescales || isFirst !== loads.length > 0 ? 0 : -1));
  });
}

export function overtureOf(model) {
  const good = goodTile(model);
  const [opens, ends] = [model.turnFirst[good], model.turnLast[good]];
  const steps = [opens, good + 1, ends + 1, model.count];
  const [start, next, after, last] = steps.map((step) => model.phaseStart[step]);
  const { block_m: rows, block_n: keys } = model.data.problem;
  const tiles = `It goes through the scores tile by tile: ${rows} queries times ${keys} keys.`;
  const flash = (...given) => act(model.data.label, ...given);
  const stores = ([says, stored]) =>
    act("Standard attention", [0, 0], STORES_MS, EMPTY, says, (part) => ({ stored: stored(part) }));
  return [
    act("Attention", [0, 0], TAKES_MS, EMPTY, TAKES, (part) => ({ about: ends, come: 1.3 * part })),
    ...STORES.map(stores),
    flash([0, start], ON_MS, MELTS, tiles),
    ...told(model, flash, opens),
    ...told(model, flash, good),
    flash([next, after - 1], ON_MS, SLOW, "So it goes on, tile by tile, to the end of the row."),
    flash([after - 1, after], ON_MS, SLOW, "O is divided by l: its weights add up to 1. Then O goes to HBM."),
    flash([after, last], ON_MS, MELTS, "The next queries go the same way."),
  ];
}

// The second tile of a row in which old sums of many rows shrink by about half, or any second tile.
export function goodTile(model) {
  const second = range(model.count).filter((step) => step === model.turnFirst[step] + 1);
  const shrinks = (step) => (tileKind(model, step) === KIND.full) * shrinkingRows(model, step).length;
  return second.reduce((best, step) => (shrinks(step) > shrinks(best) ? step : best), second[0] ?? 0);
}
