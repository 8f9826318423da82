// The strips of tensors beside the grid, the numbers of the tiles, the gaps between the parts of the keys.

import { FONT, fillBox, outline, text } from "./draw.js";
import { LABEL, LETTER, STRIP, stripBox } from "./layout.js";
import { tileNumber, tilesOf } from "../run/model.js";
import { headName } from "../run/words.js";

export function drawStrips(context, layout, model, palette, at) {
  for (const strip of model.strips) {
    const box = stripBox(strip, layout);
    drawStrip(context, strip, box, palette, (from, end) => stripState(model, strip, at, from, end));
    if (strip.inParts) numberParts(context, layout, model, palette, box.y + STRIP / 2);
    nameStrip(context, strip, box, layout, model, palette);
  }
}

// The edges of a strip's tiles. Tiles narrower than a pixel are joined, since there may be very many.
function drawnEdges({ edges }, step) {
  const last = edges.length - 1;
  const joined = Math.ceil(last / (edges[last] * step));
  return joined > 1 ? edges.filter((_, i) => i === last || (i % joined === 0 && i + joined <= last)) : edges;
}

// The tiles of a strip, each from one of its edges to the next.
function drawStrip(context, strip, { x, y, step, vertical }, palette, stateOf) {
  const edges = drawnEdges(strip, step);
  const origin = vertical ? y : x;
  const isJoined = edges.length < strip.edges.length; // then on whole pixels, or else they are striped
  const places = edges.map((edge) => origin + edge * step).map((at) => (isJoined ? Math.round(at) : at));
  for (let i = 0; i + 1 < edges.length; i++) {
    const start = places[i];
    const long = places[i + 1] - start;
    const box = vertical ? { x, y: start, w: STRIP, h: long } : { x: start, y, w: long, h: STRIP };
    const gap = long > 4 ? 1 : 0;
    const { level, active } = stateOf(edges[i], edges[i + 1]);
    const [w, h] = vertical ? [box.w, box.h - gap] : [box.w - gap, box.h];
    fillBox(context, palette[strip.color], box.x, box.y, Math.max(w, 0.6), Math.max(h, 0.6), level);
    if (active) outline(context, { ...box, w: box.w - gap + 1, h: box.h - gap + 1 }, palette, 2);
  }
}

// What stands in the rows of a tensor, for its name where there is room.
const IN_WORDS = { Q: "queries Q", K: "keys K", V: "values V", O: "output O" };
const WORDS = { weight: "600", size: 11.5 };

function nameStrip(context, strip, box, layout, model, palette) {
  const color = palette[strip.color];
  const long = IN_WORDS[strip.name];
  context.font = `${WORDS.weight} ${WORDS.size}px ${FONT}`;
  const isAlone = model.strips.filter(({ side }) => side === strip.side).length === 1;
  const [left, right, above] = [box.x, box.x + STRIP, layout.y - 8];
  // the room of the long name, and where it goes
  const [room, x, y, align] = {
    top: [layout.x - 8, layout.x - 8, box.y + STRIP / 2, "right"],
    left: [isAlone ? right : 0, right, above, "right"],
    right: [isAlone ? layout.room - left : 0, left, above, "left"],
  }[strip.side];
  const short = { weight: "600", size: strip.name.length > 2 ? 11 : 13 };
  if (long && context.measureText(long).width <= room) text(context, long, x, y, color, { ...WORDS, align });
  else if (strip.side === "top") text(context, strip.name, x, y, color, { ...short, align });
  else text(context, strip.name, left + STRIP / 2, above, color, { ...short, align: "center" });
}

// How bright the tiles [from, end) of a strip are, and whether they are being moved right now.
export function stripState(model, strip, at, from, end) {
  const { step, phase } = at;
  const [first, last] = step < 0 ? [0, 0] : tilesOf(model, strip.along, step);
  const here = first < end && from < last;
  const active = here && phase !== null && [...phase.loads, ...phase.stores].includes(strip.name);
  if (strip.isFilled) return { level: filledLevel(model, strip, at, from, end), active };
  return { level: here && isLoaded(model, strip, at) ? 1 : 0.45, active };
}

// Whether the tile of a strip that the step is about has come to the chip: by a phase of this step, or before
// it.
function isLoaded(model, strip, { step, phase, complete, kernel }) {
  const loads = (one) => one.loads.includes(strip.name);
  if (!model.kernelPhases[kernel].some(loads)) return false;
  const phases = model.phases[step];
  return complete || phases.findIndex(loads) <= phases.indexOf(phase);
}

// A strip that is written grows brighter with the steps that fill it.
function filledLevel(model, strip, at, from, end) {
  const steps = strip.filling
    .slice(from, end)
    .flat()
    .filter((step) => model.head[step] === at.head);
  if (!steps.length) return at.finished ? 1 : 0.12;
  return 0.12 + (0.88 * steps.filter((step) => at.isDone(step)).length) / steps.length;
}

function numberParts(context, layout, model, palette, y) {
  const edges = model.keyParts;
  const widths = edges.slice(1).map((end, i) => (end - edges[i]) * layout.cellWidth);
  if (Math.min(...widths) < 18) return;
  widths.forEach((width, i) => {
    const x = layout.x + edges[i] * layout.cellWidth + width / 2;
    text(context, `${i}`, x, y, palette.text, {
      size: 10.5,
      align: "center",
      weight: "600",
      halo: palette.background,
    });
  });
}

// A gap between the parts of the keys, across the grid and the strips above it.
export function drawParts(context, layout, model, palette, top = layout.y) {
  const parts = model.keyParts.length - 1;
  const thick = Math.min(4, (layout.width / parts) * 0.3);
  for (const tile of model.keyParts.slice(1, -1)) {
    const x = layout.x + tile * layout.cellWidth - 0.5 - thick / 2;
    fillBox(context, palette.background, x, top, thick, layout.y + layout.height - top);
  }
}

// Every how many tiles a label fits.
function labelEvery(step, room) {
  return Math.max(1, Math.ceil(room / step));
}

// Numbers of the key tiles above the strips, and of the query tiles left of them, as many as fit.
export function drawLabels(context, layout, model, palette) {
  const room = Math.max(26, LETTER * (String(model.kvTiles).length + 1));
  for (let kv = 0; kv < model.kvTiles; kv += labelEvery(layout.cellWidth, room)) {
    const x = layout.x + (kv + 0.5) * layout.cellWidth;
    text(context, `${kv}`, x, LABEL / 2 + 1, palette.muted, { align: "center" });
  }
  const strips = model.strips.filter((strip) => strip.side === "left").length;
  const x = layout.x - 6 - strips * (STRIP + 4);
  for (let q = 0; q < model.qTiles; q += labelEvery(layout.cellHeight, 15)) {
    const y = layout.y + (q + 0.5) * layout.cellHeight;
    text(context, `${tileNumber(model, q)}`, x, y, palette.muted, { align: "right" });
  }
}

// The name of each head above its grid, or its number alone, or nothing where neither has room.
export function nameHeads(context, layouts, heads, model, palette) {
  const [{ room, y }] = layouts;
  if (y < LABEL) return;
  context.font = `11px ${FONT}`;
  const words = [(head) => headName(model, head), String].find(
    (wordsOf) => context.measureText(wordsOf(heads.at(-1))).width + 4 <= room,
  );
  if (!words) return;
  heads.forEach((head, i) => text(context, words(head), layouts[i].x, layouts[i].y - 7, palette.muted));
}
