// What a first visitor sees: what attention is, what standard attention stores, then FlashAttention, slowly.

import { clamp } from "./run/easing.js";
import { goodTile, toldRow } from "./run/figure.js";
import { rowCalled, sentencesOf } from "./run/sentences.js";

const [MELTS, SLOW] = [4, 0.2]; // tiles per second, as they are seen
const [BEAT_MS, LETTER_MS] = [400, 31]; // each act takes the time in which its words are read
const TAKES = [
  "Each word takes something of itself and of the words before it. Its query Q says what it looks for.",
  "The key K of a word says what it is found by.",
  "Its value V is what it passes on: of some words more, of some less.",
];
const STORES = [
  "The first kernel computes a score S = query · key of each pair of words, and writes all to HBM.",
  "The second kernel reads the scores back, turns them into weights P (softmax), and writes these, too.",
  "The third kernel reads the weights back, and adds up the values V, each times its weight: the outputs O.",
];
const GOES_ON = "So it goes on, tile by tile: where m grows, the old sums shrink to fit it.";
const NEXT = "The next tile of keys comes to the same queries.";
const WHY = ["Only a part of the row had been seen.", "With it, e^(score − m) never overflows."];
const MAP = "The last queries go the same way. All weights, drawn for you: they were stored nowhere.";

const bare = () => ({ bare: true }); // without what was not said yet
const shape = (part) => clamp(1.33 * part); // at its end it rests
const act = (title, [from, to], says, scene, rate = MELTS) => {
  const ms = BEAT_MS + LETTER_MS * says.length;
  return { from, to, ms, rate: () => rate, shape, says: `${title}\n${says}`, scene };
};

// Each phase: in the first tile of a row what it moves or does; in the next one what it does to the told row.
// There the old sums shrink, and then what is new stands on them.
function toldOf(model, slow, step) {
  const isFirst = step === model.turnFirst[step];
  let from = model.phaseStart[step];
  return model.phases[step].flatMap((phase, k) => {
    const { loads, rescales, tells } = phase;
    if (!isFirst && !["scores", "row max", "rescale"].includes(tells)) return []; // seen with the next
    const says = sentencesOf(model, { step, phase }, toldRow(model, step, null));
    const to = model.phaseStart[step] + k + 1;
    const way = [from, (from = to)];
    if (!isFirst && tells === "scores") return slow(way, NEXT);
    const why = tells === "row max" ? ` ${WHY[Number(isFirst)]}` : "";
    if (isFirst || !rescales) return slow(way, says.at(isFirst && !loads.length ? 0 : -1) + why);
    return [slow([way[0], to - 0.5], says[0]), slow([to - 0.5, to], says.at(-1))];
  });
}

const stores = (says, i) => act("Standard attention", [0, 0], says, (part) => ({ stored: i + part }));

export function overtureOf(model) {
  const good = goodTile(model);
  const [opens, ends] = [model.turnFirst[good], model.turnLast[good]];
  const { data, phaseStart, count } = model;
  const [start, after, last] = [opens, ends + 1, count].map((step) => phaseStart[step]);
  const { block_m: q, block_n: kv } = data.problem;
  const tiles = `It makes a tile of ${q} × ${kv} scores at a time, uses them on the chip, and drops them.`;
  const told = rowCalled(model, opens, toldRow(model, opens));
  const follow = `Other queries go the same way, each with its row of scores. Follow ${told}.`;
  const takes = (says, i) =>
    act("Attention", [0, 0], says, (part) => ({ about: ends, seen: i + shape(part) }));
  const flash = (...given) => act(data.label, ...given);
  const slow = (way, says, scene) => flash(way, says, scene, SLOW);
  const again = toldOf(model, slow, good);
  return [
    ...TAKES.map(takes),
    ...STORES.map(stores),
    slow([0, phaseStart[1]], `${tiles} No score goes to HBM.`, bare),
    flash([phaseStart[1], start], follow, bare),
    ...toldOf(model, slow, opens),
    ...again,
    slow([again.at(-1).to, after - 1], GOES_ON),
    slow([after - 1, after], "O is divided by l: its weights add up to 1. Then it goes to HBM."),
    flash([last, last], MAP, (part) => ({ come: shape(part) })),
  ];
}
