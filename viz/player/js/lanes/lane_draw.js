// Where the tracks of the shown SMs lie, and what is drawn of them: only what is seen.

import { FONT, drawLine, fillBox, outline, text } from "../grid/draw.js";
import { visibleEvents } from "./lane_model.js";
import { clamp } from "../run/easing.js";
import { range, sum } from "../run/model.js";
import { tickWords, ticksOf } from "./span.js";

const AXIS = 20; // height of the time axis
const HEADING = 17; // above the rows of a run
const [TRACK, STAGE_TRACK] = [15, 20];
const [ROW_GAP, RUN_GAP] = [5, 8];
const [NARROW_LABELS, WIDE_LABELS, STAGE_LABELS] = [94, 132, 160];
const TEXT_SIZE = 10.5;
const [NARROW, ROOM_FOR_A_FRAME, ROOM_FOR_WORDS, ROOMY] = [1, 4, 14, 620]; // pixels
const [TICK_ROOM, PERIOD_ROOM] = [84, 190]; // of words

const lines = (tracks) => tracks.filter(({ joins }) => !joins).length; // on a stage

// {height, left, runs: [{run, index, y, tracks: [{track, y, h}]}]}; `chosen` has the index of each run's SM.
// On a stage of height `room`: no rows without room, no tracks after `until`, products of a row on one line.
export function layoutLanes(model, chosen, width, until, room, h = room ? STAGE_TRACK : TRACK) {
  let y = AXIS;
  const runs = model.runs.map((run, index) => {
    const heading = y;
    y += HEADING;
    const { tracks: all } = run.sms[chosen[index]];
    const begun = all.filter(({ first }) => !(run.begin[first] > until));
    const rows = [...Map.groupBy(begun, ({ row }) => row).values()];
    const isOver = (kept, own) => kept.length && y + (h + 1) * lines([...kept, ...own]) > room;
    const shown = rows.reduce((kept, own) => (isOver(kept, own) ? kept : kept.concat(own)), []);
    const tracks = shown.map((track) => {
      y += track.begins ? ROW_GAP : room && track.joins ? -h - 1 : 0;
      y += h + 1;
      return { run, index, track, y: y - h - 1, h };
    });
    y += RUN_GAP;
    return { run, index, y: heading, tracks };
  });
  const higher = (room - y) / lines(runs.flatMap(({ tracks }) => tracks.map(({ track }) => track)));
  if (higher > 1) return layoutLanes(model, chosen, width, until, room, h + higher);
  const left = room ? STAGE_LABELS : width < 520 ? NARROW_LABELS : WIDE_LABELS;
  return { runs, height: y, left, width, room };
}

export const timeAt = ({ left, width }, span, x) => span.from + ((x - left) / (width - left)) * span.length;

export const xOf = ({ left, width }, span, time) =>
  left + ((time - span.from) / span.length) * (width - left);

// `marked` has a set of events per run, of those about `tiles`; `picked` is {index, event} or null. `head` is
// the time that a playback of the span has come to; Infinity for none.
export function drawLanes(context, layout, span, { model, palette, marked, picked, tiles, head }) {
  const { left, width, height } = layout;
  context.clearRect(0, 0, width, height);
  drawAxis(context, layout, span, palette, head < span.to ? xOf(layout, span, head) : Infinity);
  for (const placed of layout.runs) drawNames(context, layout, span, placed, palette);
  context.save();
  context.beginPath();
  context.rect(left, 0, width - left, height);
  context.clip();
  for (const { run, index, tracks } of layout.runs) {
    const looks = run.activities.map((each) => makeLook(model.data.looks[each.kind], each.name, palette));
    const own = { looks, palette, marked: marked[index], picked };
    for (const placed of tracks) drawTrack(context, layout, span, placed, own);
  }
  context.restore();
  for (const placed of layout.runs) {
    if (layout.room) drawPeriod(context, layout, span, placed, { palette, head });
    if (head < span.to) drawHead(context, layout, span, placed, { palette, head });
    else drawElsewhere(context, layout, placed, { palette, marked, tiles });
  }
}

// The median time of a tile, from the end of a softmax, or product, to that of the next: where it is nearest.
function drawPeriod(context, layout, span, { run, y, tracks }, { palette, head }) {
  const { track } = tracks.find((each) => !each.track.product) ?? tracks[0];
  const apart = run.end.subarray(track.first + 1, track.end).map((end, i) => end - run.end[track.first + i]);
  const median = apart.toSorted()[apart.length >> 1];
  const away = (event) => Math.abs(apart[event - track.first] - median);
  const pairs = range(track.end - 1, track.first).toSorted((a, b) => away(a) - away(b));
  const from = pairs.map((event) => run.end[event]).find((end) => end > span.from && end + median < span.to);
  const [left, right, top] = [xOf(layout, span, from), xOf(layout, span, from + median), y + HEADING / 2];
  if (!(from + median <= head)) return;
  drawLine(context, palette.now, 2, [left, top + 8, left, top, right, top, right, top + 8]);
  const words = `${(median / 1000).toFixed(2)} µs per tile (median)`;
  const [x, align] = right < layout.width - PERIOD_ROOM ? [right + 8, "left"] : [left - 8, "right"];
  text(context, words, x, top, palette.now, { size: 13, weight: "700", align });
}

// What comes later is pale.
function drawHead(context, layout, span, { tracks }, { palette, head }) {
  const [x, top, bottom] = [xOf(layout, span, head), tracks[0].y, tracks.at(-1).y + tracks.at(-1).h];
  fillBox(context, palette.background, { x, y: top, w: layout.width - x, h: bottom - top }, 0.85);
  fillBox(context, palette.now, { x: x - 1, y: top - 2, w: 2, h: bottom - top + 4 });
  const clock = { size: 15, weight: "700", align: "center" };
  const inside = clamp(x, layout.left + TICK_ROOM / 2, layout.width - TICK_ROOM / 2);
  text(context, `${(head / 1000).toFixed(1)} µs`, inside, 8, palette.now, clock);
}

// Without the times beside that of the playhead.
function drawAxis(context, layout, span, palette, headX) {
  const { left, width, height } = layout;
  const { step, times } = ticksOf(span, (width - left) / TICK_ROOM);
  for (const time of times) {
    const x = xOf(layout, span, time);
    fillBox(context, palette.line, { x, y: AXIS - 4, w: 1, h: height - AXIS });
    const align = x < left + 20 ? "left" : x > width - 30 ? "right" : "center";
    if (Math.abs(x - headX) > TICK_ROOM)
      text(context, tickWords(time, step, span.to), x, 8, palette.muted, { size: TEXT_SIZE, align });
  }
}

// On a stage the activities of a track stand before it, not on their blocks.
function drawNames(context, { left, width, room }, span, { run, y, tracks }, palette) {
  const middle = y + HEADING / 2 + 1;
  fillBox(context, palette.background, { x: 0, y, w: width, h: HEADING });
  text(context, run.title, 2, middle, palette.text, { size: 11.5, weight: "600" });
  const end = 14 + context.measureText(run.title).width;
  if (!room && width > ROOMY) text(context, run.provenance, end, middle, palette.muted, { size: TEXT_SIZE });
  for (const { track, y: top, h } of tracks) {
    if (track.begins) text(context, track.row, 2, top + h / 2, palette.text, { size: TEXT_SIZE });
    fillBox(context, palette.surface, { x: left, y: top, w: width - left, h });
    const style = { size: 13, weight: "600", align: "right" };
    if (room)
      text(context, track.product ? "product" : "softmax", left - 8, top + h / 2, palette.text, style);
  }
}

function makeLook({ color, fill }, activity, palette) {
  const name = activity.replace(/^place for .*/, "").replace("^T", "ᵀ"); // of a place, others tell more
  const isSolid = fill === "solid";
  const ink = isSolid && color !== "plain" ? palette.background : palette.text;
  const narrow = fill === "open" ? palette.line : palette[color];
  return { name, isSolid, ink, color: palette[color], narrow };
}

// The events of a track, and frames around those that are `marked` or picked.
function drawTrack(context, layout, span, placed, { looks, palette, marked, picked }) {
  const { run, index, track, y, h } = placed;
  const perNs = (layout.width - layout.left) / span.length;
  const dense = { pixel: -1, widths: looks.map(() => 0) };
  const framed = [];
  for (const event of visibleEvents(run, track, span.from, span.to)) {
    const x = layout.left + (run.begin[event] - span.from) * perNs;
    const w = (run.end[event] - run.begin[event]) * perNs;
    const number = run.activity[event];
    const isPicked = picked?.index === index && picked.event === event;
    if (isPicked || marked.has(event)) framed.push({ x, w, width: isPicked ? 3 : 1.5 });
    if (w >= NARROW) {
      drawBlock(context, { x, y, w, h }, looks[number], { layout, palette });
      continue;
    }
    if (Math.floor(x) !== dense.pixel) drawDense(context, { y, h }, looks, dense);
    dense.pixel = Math.floor(x);
    dense.widths[number] += w;
  }
  drawDense(context, { y, h }, looks, dense);
  for (const { x, w, width } of framed)
    outline(context, { x: x + 1, y: y + 1, w: w - 1, h: h - 1 }, palette, width);
}

// Blocks of which several fall on a pixel: in the colour that takes most of it, as strong as they fill it.
function drawDense(context, { y, h }, looks, { pixel, widths }) {
  const filled = sum(widths);
  if (!filled) return;
  const { color } = looks[widths.indexOf(Math.max(...widths))];
  fillBox(context, color, { x: pixel, y, w: 1, h }, Math.min(1, filled));
  widths.fill(0);
}

function drawBlock(context, { x, y, w, h }, look, { layout, palette }) {
  if (w < ROOM_FOR_A_FRAME) return fillBox(context, look.narrow, { x, y, w: Math.max(w, 0.8), h });
  fillBox(context, look.isSolid ? look.color : palette.background, { x, y, w: w - 0.5, h });
  context.strokeStyle = look.color;
  context.lineWidth = 1;
  if (!look.isSolid) context.strokeRect(x + 0.5, y + 0.5, w - 1.5, h - 1);
  const [from, to] = [Math.max(x, layout.left), Math.min(x + w, layout.width)]; // what is seen of it
  if (layout.room || to - from < ROOM_FOR_WORDS || h < TEXT_SIZE) return;
  const style = { size: TEXT_SIZE, align: "center", weight: "600" };
  context.font = `${style.weight} ${TEXT_SIZE}px ${FONT}`;
  if (context.measureText(look.name).width + 6 > to - from) return;
  text(context, look.name, (from + to) / 2, y + h / 2 + 0.5, look.ink, style);
}

// Where a run has no event about the tiles that are shown, it says so.
function drawElsewhere(context, layout, { index, y }, { palette, marked, tiles }) {
  if (marked[index].size || !tiles.length) return;
  const style = { size: TEXT_SIZE, align: "right", weight: "600" };
  text(context, "this tile ran on another SM", layout.width - 4, y + HEADING / 2 + 1, palette.muted, style);
}
