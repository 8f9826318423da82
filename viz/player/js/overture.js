// What a first visitor sees: what attention is, what standard attention stores, then FlashAttention, slowly.

import { clamp, lerp, within } from "./run/easing.js";
import { goodTile, toldRow } from "./run/figure.js";
import { formatBytes } from "./run/formats.js";
import { sum } from "./run/model.js";
import { rowCalled, wordsOf } from "./run/sentences.js";

// Tiles per second, as they are seen; how long an act is seen, and for each letter of its words.
const [SLOW, BEAT, LETTER_MS] = [0.2, 400, 31];

const between = (value, part) => (Array.isArray(value) ? lerp(...value, part) : value);

// The acts of film.toml, for a run.
export function overtureOf(model, film = model.data.film) {
  const { phases, phaseStart, bytes, count } = model;
  const { label, problem, standard_parts: parts, tensors } = model.data;
  const good = goodTile(model);
  const [opens, after] = [model.turnFirst[good], model.turnLast[good] + 1];
  const steps = { opens, good, after, last: count };
  const row = toldRow(model, opens);
  const bytesOf = (some) => sum(parts.filter(some).map((part) => part.bytes));
  const unstored = bytesOf(({ name }) => tensors.every((each) => each.name !== name));
  const [all, who] = [bytesOf(() => true), rowCalled(model, opens, row)];
  const saved = { unstored: formatBytes(unstored), skipped: formatBytes(all - unstored - bytes[count]) };
  const { block_m: q, block_n: kv, head_dim: d, rows: n } = problem;
  const words = { label, who, q, kv, d, n, ...saved };
  let reached = 0;
  return film.map((act) => {
    const { title, says, to, at = to, rate = SLOW, beat = BEAT, waits = 0, rests = 0.25, ...scene } = act;
    const [, name, offset = 0] = /^(\w+)([+-].*)?$/.exec(at) ?? [];
    const step = steps[name] ?? Number(name);
    const place = at ? phaseStart[step] + Number(offset) : reached;
    const [from] = [to ? reached : place, (reached = place)];
    const phase = phases[step]?.[Math.ceil(offset) - 1];
    const known = { ...words, ...(phase && wordsOf(model, { step, phase }, row)) };
    const [head, body] = [title, says].map((each) => each.replace(/\{(\w+)\}/g, (_, word) => known[word]));
    const shape = (part) => within(part, waits, 1 - rests);
    const valueAt =
      (part) =>
      ([key, value]) => [key, between(value, clamp(part / (1 - rests)))];
    const valuesAt = (part) => Object.fromEntries(Object.entries(scene).map(valueAt(part)));
    const time = { from, to: place, shape, rate: () => rate, ms: beat + LETTER_MS * body.length };
    return { ...time, says: `${head}\n${body}`, scene: (part) => ({ about: after - 1, ...valuesAt(part) }) };
  });
}
