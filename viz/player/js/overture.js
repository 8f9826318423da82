// What a first visitor sees: what attention is, what standard attention stores, then FlashAttention, slowly.

import { clamp, lerp, within } from "./run/easing.js";
import { goodTile, rowNamed, softmaxState, toldRow } from "./run/figure.js";
import { formatBytes, formatSteady } from "./run/formats.js";
import { rowCalled, wordsOf } from "./run/sentences.js";
import { bytesOfScores } from "./run/stored.js";

// Tiles per second, as they are seen; how long an act is seen for each letter of its words.
const [SLOW, LETTER_MS] = [0.2, 50];

const between = (value, part) => (Array.isArray(value) ? lerp(...value, part) : value);

// The acts of film.toml, for a run of FlashAttention whose numbers were all recorded.
export function overtureOf(model, film = model.data.film) {
  const { phases, phaseStart, count } = model;
  const good = goodTile(model);
  const opens = model.turnFirst[good];
  const steps = { opens, good, after: good + 1, last: count };
  const row = toldRow(model, opens);
  const told = rowCalled(model, opens, row);
  const { block_m: q, block_n: kv, rows: n } = model.data.problem;
  const P = rowNamed(model, "P", opens, row) ?? [];
  const wordOf = (step, key) => model.data.words?.[1][model.kv[step] * kv + key] ?? "";
  const ordinary = P.map((each, i) => (each < 0.9 && /^\p{L}/u.test(wordOf(opens, i)) ? each : 0));
  const key = ordinary.indexOf(Math.max(...ordinary)); // a word that is not the largest
  const last = rowNamed(model, "P", good, row) ?? [];
  const most = Math.max(...last);
  const { l } = softmaxState(model, good, row);
  const best = wordOf(good, last.indexOf(most));
  const share = { best, most: formatSteady(most), l: formatSteady(l), percent: Math.round((100 * most) / l) };
  const scores = formatBytes(bytesOfScores(model, film.find(({ many }) => many)?.many));
  const words = { told, q, kv, n, scores, ...share };
  let reached = 0;
  return film.map((act) => {
    const { title, says, to, at = to, rate = SLOW, beat = 0, waits = 0, rests = 0.25, ...scene } = act;
    const [, name, offset = 0] = /^(\w+)([+-].*)?$/.exec(at) ?? [];
    const step = steps[name] ?? Number(name);
    const place = at ? phaseStart[step] + Number(offset) : reached;
    const [from] = [to ? reached : place, (reached = place)];
    const phase = phases[step]?.[Math.ceil(offset) - 1];
    const known = { ...words, ...(phase && wordsOf(model, { step, phase }, row)) };
    const filled = (each) => each.replace(/\{(\w+)\}/g, (_, word) => known[word]);
    const [head, body] = [title, says].map(filled);
    if (scene.count) scene.count = filled(scene.count);
    const shape = (part) => within(part, waits, 1 - rests);
    const values = Object.entries({ about: good, opens, row, key, word: wordOf(opens, key), ...scene });
    const shown = (part) => values.map(([is, value]) => [is, between(value, clamp(part / (1 - rests)))]);
    const time = { from, to: place, shape, rate: () => rate, ms: beat + LETTER_MS * body.length };
    return { ...time, says: `${head}\n${body}`, scene: (part) => Object.fromEntries(shown(part)) };
  });
}
