// What the player says in words: the step counter, the readout, the tooltip.

import { scanOf } from "./easing.js";
import { formatBytes, formatNumber } from "./formats.js";
import { KIND, rowNumber, stepsAbout, sum, tileKind, tileNumber } from "./model.js";
import { capital, sentenceOf } from "./sentences.js";
import { shownRow } from "./series.js";

export function countWords(timeline, at) {
  const { model, moments, order, position, unit } = timeline;
  if (order === "one") {
    const step = `step ${at.step + 1} / ${model.count}`;
    if (unit !== "phase" || at.step < 0) return step;
    const phase = Math.ceil(position) - model.phaseStart[at.step];
    return `${step}, phase ${phase} / ${model.phases[at.step].length}`;
  }
  return `${(Math.max(at.time, 0) / 1000).toFixed(1)} / ${(moments.last / 1000).toFixed(1)} µs`;
}

// If the heads that share a key head are packed into one tile of rows, a "head" of the trace is a key head.
export const headName = (model, head) => `${model.data.problem.packed ? "K head" : "head"} ${head}`;

export function rowWords(model, at, pinned) {
  const shown = shownRow(model, at, pinned);
  const { head } = shown;
  const { q_len, rows, packed } = model.data.problem;
  const number = rowNumber(model, shown);
  const whose = head * (rows / q_len) + Math.floor(number / q_len);
  const inHead = packed && rows > q_len ? `: head ${whose}, query ${number % q_len}` : "";
  return `row ${number}${inHead}`;
}

// What is said aloud: which tiles and which phase the playback stands at, and its caption.
export function saidWords({ model, order }, at, caption) {
  if (order === "gpu" || at.step < 0) return caption;
  return `${capital(tilesOfStep(model, at))}${at.complete ? "" : `: ${at.phase.name}`}. ${caption}`;
}

// The caption under the picture: what happens now, in one or two sentences, told for a drawn row.
export function captionOf(timeline, at, { row, rate, bytes, active }) {
  const { model } = timeline;
  if (timeline.order === "gpu") return at.started ? momentWords(timeline, at, bytes, active) : "";
  if (at.step < 0) return "";
  if (at.finished) return endWords(model);
  if (scanOf(rate) > 0.5) return scanWords(model, at);
  return sentenceOf(model, at, row);
}

function endWords({ data: { standard_parts: parts, tensors, problem }, bytes, count }) {
  const stored = parts.filter(({ name }) => tensors.every((each) => each.name !== name));
  const names = stored.map(({ name }) => name).join(" and ");
  const all = formatBytes(sum(parts.map((part) => part.bytes)));
  const own = problem.tile_numbers.length ? " for these query tiles" : "";
  const done = `Done: ${formatBytes(bytes[count])} loaded and stored${own}`;
  if (!parts.length) return `${done}.`;
  return `${done}, in place of standard attention’s ${all}. ${names} were never stored.`;
}

function scanWords(model, at) {
  const { stays } = model.kernels[at.kernel];
  const [kept, moves] = stays === "kv_tile" ? ["keys and values", "queries"] : ["queries", "keys"];
  if (model.q[at.step] < 0 || model.kv[at.step] < 0) return "";
  return `${capital(tilesOfStep(model, at))}: the ${kept} stay on the chip, ${moves} stream past them.`;
}

function momentWords(timeline, at, bytes, active) {
  if (at.finished) return `All programs have ended. ${formatBytes(bytes.total)} requested.`;
  const { name } = timeline.model.data.gpu;
  const basis = timeline.moments.measured
    ? "by the GPU's clock (traced launch)"
    : `modelled: one program per SM of the ${name}, a step takes its bytes or its FLOPs`;
  const tiles = `${active} ${active === 1 ? "tile" : "tiles"} in progress`;
  return `${tiles}, ${basis}. ${formatBytes(bytes.total)} requested so far.`;
}

function tilesOfStep(model, at) {
  const [index, kv] = [model.q[at.step], model.kv[at.step]];
  const { observed } = model.data;
  const query = `query tile ${tileNumber(model, index)}`;
  if (index < 0 && kv < 0) return "no tile of Q, K, V or O";
  if (index < 0) return `key tile ${kv}${observed ? "" : " is seen by no query"}`;
  if (kv < 0) return `${query}${!observed && model.kernels[at.kernel].cells ? " sees no key" : ""}`;
  const part = model.keyParts.findLastIndex((first) => first <= kv);
  if (part >= 0) return `part ${part}, ${keyTiles(model, at.step)}`;
  const masked = { [KIND.partial]: " (cut)", [KIND.hidden]: " (hidden by the mask)" };
  return `${query}, ${keyTiles(model, at.step)}${masked[tileKind(model, at.step)] ?? ""}`;
}

function keyTiles(model, step) {
  const [kv, end] = [model.kv[step], model.kvEnd[step]];
  const page = model.page?.[step] ?? -1;
  const where = page < 0 ? "" : ` (page ${page})`;
  return end - kv > 1 ? `key tiles ${kv} to ${end - 1}` : `key tile ${kv}${where}`;
}

// The tooltip of a tile of the grid. `picks`: a click picks a row of it.
export function tileWords(model, hit, kernel, picks = false) {
  const kinds = ["skipped by the mask", "cut", "full", "hidden by the mask, computed all the same"];
  const kind = kinds[model.kinds[hit.q * model.kvTiles + hit.kv]];
  const step = stepsAbout(model, kernel, hit)[0] ?? -1;
  const known = step >= 0 && model.kernels[kernel].cells === "share";
  const percent = known ? formatNumber((100 * model.share[step]) / 65535) : "";
  const whose = known && model.kvEnd[step] - model.kv[step] > 1 ? `${keyTiles(model, step)} together: ` : "";
  const share = known ? `, ${whose}${percent} % of the attention of its rows` : "";
  const follow = picks && !model.data.observed ? " Click to go there and follow this row." : "";
  return `query tile ${tileNumber(model, hit.q)}, key tile ${hit.kv}: ${kind}${share}.${follow}`;
}

// Where two runs stand that race over the same bytes; at the end, how the longer way compares.
export function duelWords(race) {
  const ends = race.ends.map((each) => each.at(-1));
  const stands = race.ends.map((each, i) =>
    race.done(i) === each.length
      ? `${"AB"[i]} is done: ${formatBytes(ends[i])}.`
      : `${"AB"[i]}: step ${race.done(i)} of ${each.length}.`,
  );
  const [short, long] = ends[0] <= ends[1] ? [0, 1] : [1, 0];
  const ratio = formatNumber(ends[long] / ends[short]);
  if (race.position < race.last() || ratio === "1") return stands.join(" ");
  const both = [long, short].map((i) => formatBytes(ends[i])).join(" against ");
  return `${"AB"[long]} asks for ${ratio} times as many bytes as ${"AB"[short]}: ${both}.`;
}
