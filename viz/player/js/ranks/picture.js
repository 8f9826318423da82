// The picture of ranks that share a sequence out, at one moment of their common clock.
// A row per rank: the chunk of keys that it holds, its part of the scores against every rank's keys, and how
// much each chunk has in the sum of one of its rows. Below, what each rank did and when. A chunk has the
// colour and the number of the rank that owns it.

import { drawLine, fillBox, roundBox, text } from "../grid/draw.js";
import { clamp, lerp, smooth, within } from "../run/easing.js";
import { range } from "../run/model.js";

const COLORS = ["query", "key", "output", "value", "state", "cold", "standard", "rival"]; // of the ranks
const [TOP, LANE, LANES_GAP, GAP] = [62, 15, 40, 22];
const STRIPES = 8; // drawn of each rank, if its tokens lie apart
const SMALL = 13;
const ROOM_FOR_PARTS = 520; // of a picture
const NARROW_NAMES = 46;
const SHORT_LEGEND = "over time: computing; thin: arriving; red: merge";
const LEGEND = "over time: what it computes, by whose keys; thin: the next keys arrive; red: the merge";

export const colorOf = (palette, rank) => palette[COLORS[rank % COLORS.length]];

// Where everything lies: the holds, the square of scores, the shares of a row, and the lanes below.
export function layoutOf({ ranks }, width, height) {
  const hold = { x: width > ROOM_FOR_PARTS ? 104 : NARROW_NAMES, w: clamp(width * 0.12, 54, 120) };
  const left = hold.x + hold.w + 14;
  const below = ranks * (LANE + 3) + LANES_GAP;
  const side = Math.max(80, Math.min(height - TOP - below - 12, (width - left) * 0.62));
  const row = side / ranks;
  const x = left + side + GAP;
  const shares = { x, w: Math.min(width - x - 8, 1.6 * side) };
  const lanes = { x: 20, y: TOP + side + LANES_GAP, w: width - 28 };
  return { row, side, left, hold, shares, lanes, y: (rank) => TOP + rank * row };
}

// Draws run `run` (see ranks.py) at `ns`; `longest` is the end of the time axis.
export function drawRanks(context, { width, height }, run, palette, ns, longest) {
  const layout = layoutOf(run, width, height);
  context.clearRect(0, 0, width, height);
  drawNames(context, layout, run, palette);
  for (const span of run.spans)
    if (span.kind === "attend") drawScores(context, layout, run, palette, span, ns);
  range(run.ranks).forEach((rank) => drawShares(context, layout, run, palette, rank, ns));
  drawHolds(context, layout, run, palette, ns);
  drawLanes(context, layout, run, palette, ns, longest);
}

function drawNames(context, { y, row, left, side, hold, shares, lanes }, run, palette) {
  const grey = { size: SMALL };
  const isWide = hold.x > NARROW_NAMES;
  const byHeads = run.heads !== "all";
  const own = byHeads ? "all tokens, by its own heads" : "rows against keys of rank";
  text(context, isWide ? "holds K, V of" : "holds", hold.x, 14, palette.muted, grey);
  text(context, isWide ? own : "scores", left, 14, palette.muted, grey);
  if (run.lse.length && shares.w > 60)
    text(context, isWide ? "shares of a row's sum" : "shares", shares.x, 14, palette.muted, grey);
  text(context, isWide ? LEGEND : SHORT_LEGEND, lanes.x, lanes.y - 14, palette.muted, { size: 12.5 });
  for (const rank of range(run.ranks)) {
    const middle = y(rank) + row / 2;
    const shift = isWide ? 8 : 0;
    text(context, `rank ${rank}`, 2, middle - shift, palette.text, { size: 14, weight: "650" });
    if (shift) text(context, run.part_words[rank], 2, middle + 9, palette.muted, { size: 12 });
    drawPart(context, { x: left, y: 26, w: side, h: 12 }, run, palette, rank);
    const x = left + (rank + 0.5) * row;
    const bold = { size: 14, align: "center", weight: "650" };
    if (!byHeads) text(context, String(rank), x, 51, colorOf(palette, rank), bold);
  }
  roundBox(context, { x: left, y: y(0), w: side, h: side }, 2, { fill: palette.surface, line: palette.line });
  for (const at of range(run.ranks, 1)) {
    drawLine(context, palette.line, 1, [left + at * row, y(0), left + at * row, y(0) + side]);
    drawLine(context, palette.line, 1, [left, y(at), left + side, y(at)]);
  }
}

// Which tokens of the sequence a rank holds.
function drawPart(context, { x, y, w, h }, { parts, ranks, rows }, palette, rank) {
  const length = ranks * rows;
  for (const [first, count, step] of parts[rank]) {
    const pieces = step > 1 ? STRIPES : 1;
    for (const piece of range(pieces)) {
      const from = step > 1 ? (piece * ranks + first) / (pieces * ranks) : first / length;
      const share = step > 1 ? 1 / (pieces * ranks) : count / length;
      fillBox(context, colorOf(palette, rank), { x: x + from * w, y, w: share * w - 1, h });
    }
  }
}

// The pairs of a call, whose rows fill from the first to the last while it runs.
function drawScores(context, layout, run, palette, { rank, owner, begin, end, places, bounds }, ns) {
  const part = within(ns, begin, end);
  if (!part) return;
  const { left, row, y } = layout;
  const [firstRow, endRow, firstKey, endKey] = places;
  const whole = owner < 0; // all positions, for some heads: a small square for each rank
  const parts = whole ? run.ranks : 1;
  const [perRow, perKey] = [row / run.rows / parts, row / run.keys / parts];
  const [x0, y0] = [left + (whole ? rank : owner) * row, y(rank)];
  const [rows, keys, [low, high]] = [(endRow - firstRow) * part, endKey - firstKey, bounds];
  const at = (key, query) => [x0 + (firstKey + key) * perKey, y0 + (firstRow + query) * perRow];
  const clip = (key) => clamp(key, 0, keys);
  context.fillStyle = colorOf(palette, whole ? rank : owner);
  context.globalAlpha = part < 1 ? 1 : 0.62;
  context.beginPath();
  const steps = 24; // of the slanted edges
  const edge = range(steps + 1).map((step) => (rows * step) / steps);
  edge.forEach((query) => context.lineTo(...at(clip(query + high + 1), query)));
  edge.toReversed().forEach((query) => context.lineTo(...at(clip(query + low), query)));
  context.fill();
  context.globalAlpha = 1;
}

// What each rank holds, and the chunks on their way to the next rank.
function drawHolds(context, { y, row, hold }, run, palette, ns) {
  const h = Math.min(26, row * 0.42);
  const box = (owner, x, w, middle, alpha = 1) => {
    roundBox(context, { x, y: middle - h / 2, w, h }, 4, { fill: colorOf(palette, owner), alpha });
    const words = { size: SMALL, align: "center", weight: "650", alpha };
    text(context, String(owner), x + w / 2, middle + 0.5, palette.background, words);
  };
  const half = hold.w * 0.46;
  for (const rank of range(run.ranks)) {
    const { owners } = run.held[rank].findLast(({ from }) => from <= ns);
    const pitch = Math.min(half, hold.w / owners.length);
    owners.forEach((owner, i) => box(owner, hold.x + i * pitch, pitch - 4, y(rank) + row / 2));
  }
  for (const span of run.spans) {
    if (span.kind !== "transfer" || span.owner < 0 || ns < span.begin || ns >= span.end) continue;
    const part = smooth(within(ns, span.begin, span.end));
    const [from, to] = [span.rank, (span.rank + 1) % run.ranks];
    const middle = lerp(y(from), y(to), part) + row / 2;
    const out = Math.sin(part * Math.PI) * hold.w * 0.3; // beside those that stay
    box(span.owner, hold.x + half + out, half - 4, middle, 0.85);
  }
}

// How much of the sum of one row each chunk has so far: what came before shrinks when more is merged.
function drawShares(context, { y, row, shares }, run, palette, rank, ns) {
  if (!run.lse.length || shares.w < 60) return;
  const steps = run.lse[rank].filter(({ end }) => end <= ns);
  const place = { x: shares.x, y: y(rank) + row * 0.36, w: shares.w, h: Math.min(30, row * 0.4) };
  text(context, run.row_words[rank], place.x, place.y - 9, palette.muted, { size: 12 });
  roundBox(context, place, 3, { line: palette.line });
  if (!steps.length) return;
  const moved = smooth(within(ns, steps.at(-1).end, steps.at(-1).end + run.ns / 40));
  const upTo = (all) => {
    const last = all.at(-1)?.lse ?? -Infinity;
    return range(run.ranks).map((owner) => {
      const own = all.findIndex((step) => step.owner === owner);
      const [after, before] = [all[own]?.lse ?? -Infinity, all[own - 1]?.lse ?? -Infinity];
      return own < 0 || last === -Infinity ? 0 : Math.exp(after - last) - Math.exp(before - last);
    });
  };
  const [before, after] = [upTo(steps.slice(0, -1)), upTo(steps)];
  const style = { size: SMALL, align: "center", weight: "600" };
  let x = place.x;
  for (const owner of range(run.ranks)) {
    const share = lerp(before[owner], after[owner], moved);
    const w = share * place.w;
    fillBox(context, colorOf(palette, owner), { ...place, x, w });
    const words = w > 40 ? `${Math.round(100 * share)} %` : "";
    text(context, words, x + w / 2, place.y + place.h / 2, palette.background, style);
    x += w;
  }
}

function drawLanes(context, { lanes }, run, palette, ns, longest) {
  const xOf = (time) => lanes.x + (time / longest) * lanes.w;
  for (const rank of range(run.ranks)) {
    const y = lanes.y + rank * (LANE + 3);
    text(context, String(rank), lanes.x - 12, y + LANE / 2, palette.muted, { size: 12, align: "right" });
    fillBox(context, palette.surface, { x: lanes.x, y, w: xOf(run.ns) - lanes.x, h: LANE });
  }
  for (const { kind, rank, owner, begin, end } of run.spans) {
    const y = lanes.y + rank * (LANE + 3);
    const x = xOf(begin);
    const w = Math.max(1, xOf(end) - x);
    const shown = kind === "transfer" ? (owner + run.ranks - 1) % run.ranks : owner; // what arrives
    const color = owner < 0 ? palette.plain : colorOf(palette, shown);
    if (kind === "transfer") fillBox(context, color, { x, y: y + LANE - 3, w, h: 3 });
    else fillBox(context, kind === "merge" ? palette.now : color, { x, y, w: w - 0.5, h: LANE - 4 });
  }
  const x = xOf(Math.min(ns, run.ns));
  const bottom = lanes.y + run.ranks * (LANE + 3);
  const later = { x, y: lanes.y - 1, w: lanes.x + lanes.w - x + 2, h: bottom - lanes.y };
  fillBox(context, palette.background, later, 0.72);
  drawLine(context, palette.now, 2, [x, lanes.y - 4, x, bottom]);
}
