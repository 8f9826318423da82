// What a first visitor sees: what attention is, what standard attention stores, then FlashAttention, slowly.

import { clamp } from "./run/easing.js";
import { goodTile, toldRow } from "./run/figure.js";
import { rowCalled, sentencesOf } from "./run/sentences.js";

const [EMPTY, MELTS, SLOW] = [9.17, 4, 0.2]; // tiles per second, as they are seen: at first nothing of them
const [BEAT_MS, LETTER_MS] = [400, 31]; // each act takes the time in which its words are read
const TAKES = "Each word takes something of itself and of every earlier word: of some more, of some less.";
const STORES = [
  "First it reads queries Q and keys K, and writes a score S of each pair of words to HBM.",
  "Then it reads the scores back, turns them into weights P (softmax), and writes these, too.",
  "Last it reads the weights back, and adds up the values V, each times its weight: the outputs O.",
];
const WHY = ["Only a part of the row had been seen.", "With it, e^(score − m) never overflows."];
const MAP = "The weights of all words, drawn for you: they were stored nowhere.";

const bare = () => ({ bare: true }); // without what was not said yet
const shape = (part) => clamp(1.33 * part); // at its end it rests
const act = (title, [from, to], says, scene, rate = MELTS) => {
  const ms = BEAT_MS + LETTER_MS * says.length;
  return { from, to, ms, rate: () => rate, shape, says: `${title}\n${says}`, scene };
};

// Each phase: in the first tile of a row what it does, of what it loads what that is; in the next one what it
// does to the told row. There the old sums shrink, and then what is new stands on them.
function told(model, slow, step) {
  const isFirst = step === model.turnFirst[step];
  let from = model.phaseStart[step];
  return model.phases[step].flatMap((phase, k) => {
    const { loads, rescales, tells } = phase;
    if (!isFirst && !["scores", "row max", "rescale"].includes(tells)) return []; // seen with the next
    const says = sentencesOf(model, { step, phase }, toldRow(model, step, null));
    const to = model.phaseStart[step] + k + 1;
    const way = [from, (from = to)];
    const why = tells === "row max" ? ` ${WHY[Number(isFirst)]}` : "";
    if (isFirst || !rescales) return slow(way, says.at(isFirst && !loads.length ? 0 : -1) + why);
    return [slow([way[0], to - 0.5], says[0]), slow([to - 0.5, to], says.at(-1))];
  });
}

export function overtureOf(model) {
  const good = goodTile(model);
  const [opens, ends] = [model.turnFirst[good], model.turnLast[good]];
  const { data, phaseStart, count } = model;
  const [start, after, last] = [opens, ends + 1, count].map((step) => phaseStart[step]);
  const { block_m: rows, block_n: keys } = data.problem;
  const tiles = `It makes ${rows} × ${keys} scores at a time, uses them on the chip, and drops them.`;
  const follow = `Other queries go the same way. Follow ${rowCalled(model, opens, toldRow(model, opens))}.`;
  const stores = (says, i) => act("Standard attention", [0, 0], says, (part) => ({ stored: i + part }));
  const flash = (...given) => act(data.label, ...given);
  const slow = (way, says, scene) => flash(way, says, scene, SLOW);
  const again = told(model, slow, good);
  return [
    act("Attention", [0, 0], TAKES, (part) => ({ about: ends, come: shape(part) })),
    ...STORES.map(stores),
    slow([0, phaseStart[1]], `${tiles} No score goes to HBM.`, bare),
    flash([phaseStart[1], start], follow, bare),
    ...told(model, slow, opens),
    ...again,
    flash([again.at(-1).to, after - 1], "So it goes on, tile by tile, to the end of the row."),
    slow([after - 1, after], "O is divided by l: its weights add up to 1. Then it goes to HBM."),
    flash([after, last], "The last queries go the same way.", () => ({ come: 0 }), EMPTY),
    flash([last, last], MAP, (part) => ({ come: shape(part) })),
  ];
}
