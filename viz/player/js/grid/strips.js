// The strips of tensors in HBM beside the map, and the gaps between the parts of the keys.

import { FONT, drawLine, fillBox, outline, roundBox, text } from "./draw.js";
import { clamp } from "../run/easing.js";
import { HEAD, NAMED, showsKeys, stripBox, stripTile } from "./layout.js";
import { range, sequenceOf, tilesOf } from "../run/model.js";
import { liesIn, paintTiles } from "./tensor.js";
import { headName } from "../run/words.js";

export const RESTS = 0.6; // how strong a tensor is drawn of which nothing is used now
const OTHERS = 0.14; // and a page of another sequence
const LEAST = 10.4; // size of a name
const DIGIT = 7; // width of a digit in the block table

export function drawStrips(context, layout, model, palette, at) {
  for (const strip of model.strips) {
    const box = stripBox(strip, layout);
    const lies = liesIn(layout, model, strip);
    const paint = (tiles, piece, alpha) =>
      paintTiles(context, { model, palette, at }, strip, tiles, piece, { lies, alpha });
    drawStrip(context, strip, box, palette, paint, (from, end) => stripState(model, strip, at, from, end));
    if (strip.inParts) numberParts(context, layout, model, palette, box.y + box.thick / 2);
    const isTop = strip.side === "top" || layout.shelf;
    // names of strips side by side leave room for each other
    const size = isTop
      ? Math.min(15, box.thick + 4)
      : clamp((box.thick + 5) / (0.6 * strip.name.length), LEAST, 15);
    const style = { size, weight: "650", align: isTop ? "right" : "center" };
    const middle = box.thick / 2;
    const [x, y] = isTop ? [box.x - 4, box.y + middle] : [box.x + middle, box.y - 8.5];
    text(context, strip.name, x, y, palette[strip.color], style);
  }
  if (model.page) drawPages(context, layout, model, palette, at);
}

const middle = (box) => box.x + box.w / 2;

function writeOver(context, words, x, y, palette) {
  text(context, words, x, y, palette.text, { align: "center", weight: "600", halo: palette.background });
}

// The pages' numbers in the block table, if there is room, and a line from the entry read to its page.
function drawPages(context, layout, model, palette, at) {
  const table = model.strips.find(({ lists }) => lists);
  const sequence = sequenceOf(model, at.head);
  if (layout.cellWidth > DIGIT * `${model.data.pages.count - 1}`.length + 4) {
    for (const tile of range(model.kvTiles)) {
      const box = stripTile(table, layout, tile, tile + 1);
      const page = model.pageOfTile.get(`${sequence}|${tile}`) ?? "";
      writeOver(context, page, middle(box), box.y + box.h / 2, palette);
    }
  }
  if (at.step < 0 || model.page[at.step] < 0 || !isLoaded(model, table, at)) return;
  const boxOf = (strip) => stripTile(strip, layout, ...tilesOf(model, strip.along, at.step));
  const boxes = [table, ...model.strips.filter(({ paged }) => paged)].map(boxOf);
  boxes.slice(1).forEach((box, i) => {
    drawLine(context, palette.text, 1.5, [middle(boxes[i]), boxes[i].y, middle(box), box.y + box.h]);
  });
}

// The edges of a strip's tiles. Tiles narrower than a pixel are joined, since there may be very many.
function drawnEdges({ edges }, step) {
  const last = edges.length - 1;
  const joined = Math.ceil(last / (edges[last] * step));
  return joined > 1 ? edges.filter((_, i) => i === last || (i % joined === 0 && i + joined <= last)) : edges;
}

function drawStrip(context, strip, { x, y, step, thick, vertical }, palette, paint, stateOf) {
  const edges = drawnEdges(strip, step);
  const origin = vertical ? y : x;
  const isJoined = edges.length < strip.edges.length; // then on whole pixels, or else they are striped
  const places = edges.map((edge) => origin + edge * step).map((at) => (isJoined ? Math.round(at) : at));
  const piece = (start, end) =>
    vertical ? { x, y: start, w: thick, h: end - start } : { x: start, y, w: end - start, h: thick };
  roundBox(context, piece(places[0], places.at(-1)), 2, { line: palette.line });
  for (let i = 0; i + 1 < edges.length; i++) {
    const [start, next] = [places[i], places[i + 1]];
    const gap = next - start > 4 ? 1 : 0;
    const { level, active } = stateOf(edges[i], edges[i + 1]);
    paint([edges[i], edges[i + 1]], piece(start, Math.max(next - gap, start + 0.6)), level);
    const box = piece(start, next);
    if (active) outline(context, { ...box, w: box.w - gap + 1, h: box.h - gap + 1 }, palette, 2);
  }
}

// How strong the tiles [from, end) of a strip are drawn, and whether they are being moved right now. A tensor
// that is written is an empty frame which fills; one that is only read is there from the start.
export function stripState(model, strip, at, from, end) {
  const { step, phase } = at;
  if (at.lands >= 0 && !strip.isFilled) return { level: 0, active: false }; // its words are on their way
  const [first, last] = step < 0 || at.finished ? [0, 0] : tilesOf(model, strip.along, step);
  const here = first < end && from < last;
  const active = here && phase !== null && [...phase.loads, ...phase.stores].includes(strip.name);
  if (strip.isFilled) return { level: filledLevel(model, strip, at, from, end), active };
  if (here && isLoaded(model, strip, at)) return { level: 1, active };
  const isOthers = (page) => !model.ownPages.has(`${sequenceOf(model, at.head)}|${page}`);
  const allOthers = strip.along === "page" && range(end - from).every((i) => isOthers(from + i));
  return { level: allOthers ? OTHERS : RESTS, active };
}

// Whether the tile of a strip that the step is about has come to the chip, in this step or before it.
function isLoaded(model, strip, { step, phase, complete, kernel }) {
  const loads = (one) => one.loads.includes(strip.name);
  if (!model.kernelPhases[kernel].some(loads)) return false;
  const phases = model.phases[step];
  return complete || phases.findIndex(loads) <= phases.indexOf(phase);
}

function filledLevel(model, strip, at, from, end) {
  const isOwn = (step) => model.head[step] === at.head;
  const steps = strip.filling.slice(from, end).flat().filter(isOwn);
  if (!steps.length) return at.finished ? 1 : 0;
  return steps.filter((step) => at.isDone(step)).length / steps.length;
}

function numberParts(context, layout, model, palette, y) {
  const edges = model.keyParts;
  const widths = edges.slice(1).map((end, i) => (end - edges[i]) * layout.cellWidth);
  if (Math.min(...widths) < 18) return;
  widths.forEach((width, i) => {
    const x = layout.x + edges[i] * layout.cellWidth + width / 2;
    writeOver(context, `${i}`, x, y, palette);
  });
}

export function drawParts(context, layout, model, palette) {
  const thick = Math.min(4, (layout.width / (model.keyParts.length - 1)) * 0.3);
  for (const tile of model.keyParts.slice(1, -1)) {
    const x = layout.x + tile * layout.cellWidth - 0.5 - thick / 2;
    const color = palette[showsKeys(model) ? "background" : "surface"];
    fillBox(context, color, { x, y: layout.y, w: thick, h: layout.height });
  }
}

// The borders of documents across the map and the strips beside it, and the number of each above its keys.
export function drawDocuments(context, layout, model, palette) {
  const { borders, block_m, block_n, q_len, kv_len, tile_numbers: sampled } = model.data.problem;
  if (!borders || sampled.length) return;
  const xOf = (key) => layout.x + (key / block_n) * layout.cellWidth;
  const yOf = (key) => layout.y + ((key - kv_len + q_len) / block_m) * layout.cellHeight;
  const top = Math.min(...model.strips.filter((s) => s.side === "top").map((s) => stripBox(s, layout).y));
  const [right, bottom] = [layout.x + layout.width, layout.y + layout.height];
  for (const key of new Set(borders.slice(1, -1))) {
    drawLine(context, palette.text, 1, [xOf(key), top, xOf(key), bottom]);
    if (yOf(key) > layout.y) drawLine(context, palette.text, 1, [layout.x, yOf(key), right, yOf(key)]);
  }
  borders.slice(1).forEach((end, i) => {
    const width = xOf(end) - xOf(borders[i]);
    if (width < 12) return;
    const words = width < 90 ? `${i}` : `document ${i}`;
    writeOver(context, words, xOf(borders[i]) + width / 2, top + layout.strip / 2, palette);
  });
}

// The name of each head above its map, or its number alone, or nothing where neither has room. Keys of one
// query have that of their key head beside them.
export function nameHeads(context, layouts, heads, model, palette) {
  const [{ room, y, height }] = layouts;
  const group = heads.length / model.data.problem.kv_heads;
  const nameKeys = ({ x, y: top }, i) => {
    if (i % group) return;
    text(context, `K head ${i / group}`, x - NAMED, top + 4, palette.text);
    if (group > 1) text(context, `${group} query heads`, x - NAMED, top + 16, palette.muted);
  };
  if (showsKeys(model)) return layouts.forEach(nameKeys);
  if (y < HEAD || height < 9) return; // there is no room
  context.font = `11px ${FONT}`;
  const fits = (wordsOf) => context.measureText(wordsOf(heads.at(-1))).width + 4 <= room;
  const words = [(head) => headName(model, head), String].find(fits);
  if (!words) return;
  heads.forEach((head, i) => text(context, words(head), layouts[i].x, layouts[i].y - 7, palette.muted));
}
