// What a first visitor sees: what attention is, what standard attention stores, then FlashAttention, slowly.

import { clamp } from "./run/easing.js";
import { shrinkingRows, toldRow } from "./run/figure.js";
import { KIND, range, tileKind } from "./run/model.js";
import { rowCalled, sentencesOf } from "./run/sentences.js";

const [EMPTY, MELTS, SLOW] = [9.17, 4, 0.2]; // tiles per second, as they are seen: at first nothing of them
const [TAKES_MS, STORES_MS, ON_MS] = [4000, 3000, 2200];
const [LOADS_MS, AGAIN_MS, WORKS_MS, SHRINKS_MS] = [1800, 1100, 2100, 3600]; // of a phase
const TAKES = "Each word takes something of itself and of every earlier word.";
const STORES = [
  "It reads queries Q and keys K, and writes a score S of each pair to HBM.",
  "It reads the scores back, turns them into weights P (softmax), and writes these, too.",
  "It reads the weights back, and adds up the values V, each times its weight.",
];
const WHY = ["Only a part of the row had been seen.", "With it, e^(score − m) never overflows."];
const ENDS = "O is divided by l: its weights add up to 1. Then it goes to HBM.";

const bare = () => ({ bare: true }); // without what was not said yet
const act = (title, [from, to], ms, rate, says, scene) => {
  return { from, to, ms, rate: () => rate, shape: clamp, says: `${title}\n${says}`, scene };
};

// Each phase: in the first tile of a row what it does, of what it loads what that is; in the next one what it
// does to the told row. There the old sums shrink, and then what is new stands on them.
function told(model, slow, step) {
  const isFirst = step === model.turnFirst[step];
  return model.phases[step].flatMap((phase, k) => {
    const { loads, rescales, tells } = phase;
    const says = sentencesOf(model, { step, phase }, toldRow(model, step, null));
    const [from, middle, to] = [0, 0.5, 1].map((part) => model.phaseStart[step] + k + part);
    if (loads.length) return slow([from, to], isFirst ? LOADS_MS : AGAIN_MS, says.at(isFirst ? -1 : 0));
    const why = tells === "row max" ? ` ${WHY[Number(isFirst)]}` : "";
    if (isFirst || !rescales) return slow([from, to], WORKS_MS, says.at(isFirst ? 0 : -1) + why);
    return [slow([from, middle], SHRINKS_MS, says[0]), slow([middle, to], SHRINKS_MS, says.at(-1))];
  });
}

export function overtureOf(model) {
  const good = goodTile(model);
  const [opens, ends] = [model.turnFirst[good], model.turnLast[good]];
  const steps = [1, opens, good + 1, ends + 1, model.count];
  const [second, start, next, after, last] = steps.map((step) => model.phaseStart[step]);
  const { block_m: rows, block_n: keys } = model.data.problem;
  const tiles = `It makes ${rows} × ${keys} scores at a time, uses them on the chip, and drops them.`;
  const follow = `Other queries go the same way. Follow ${rowCalled(model, opens, toldRow(model, opens))}.`;
  const stores = (...given) => act("Standard attention", [0, 0], STORES_MS, EMPTY, ...given);
  const flash = (...given) => act(model.data.label, ...given);
  const slow = (way, ms, says) => flash(way, ms, SLOW, says);
  return [
    act("Attention", [0, 0], TAKES_MS, EMPTY, TAKES, (part) => ({ about: ends, come: 1.3 * part })),
    ...STORES.map((says, i) => stores(says, (part) => ({ stored: i + part }))),
    flash([0, second], 1.5 * ON_MS, MELTS, tiles, bare),
    flash([second, start], ON_MS, MELTS, follow, bare),
    ...told(model, slow, opens),
    ...told(model, slow, good),
    flash([next, after - 1], ON_MS, MELTS, "So it goes on, tile by tile, to the end of the row."),
    slow([after - 1, after], 1.5 * ON_MS, ENDS),
    flash([after, last], ON_MS, MELTS, "The last queries go the same way."),
  ];
}

// The second tile of a row in which old sums of many rows shrink by about half, or any second tile.
export function goodTile(model) {
  const second = range(model.count).filter((step) => step === model.turnFirst[step] + 1);
  const shrinks = (step) => (tileKind(model, step) === KIND.full) * shrinkingRows(model, step).length;
  return second.reduce((best, step) => (shrinks(step) > shrinks(best) ? step : best), second[0] ?? 0);
}
