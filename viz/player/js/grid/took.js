// What a longer text takes, in a film: first both ways race, as recorded; last what moves, as modelled.

import { FONT, fillBox, text, wrapped } from "./draw.js";
import { smooth, within } from "../run/easing.js";
import { formatMs } from "../run/formats.js";
import { range } from "../run/model.js";

const ROWS = ["S written", "S read", "P written", "P read"];
const KEPT = ["query", "key", "value", "output"]; // alike
const [NAMES, PAD, TOP, BELOW, GAP] = [86, 12, 20, 66, 5]; // room for names and words; between squares
const WAYS = ["standard attention", "FlashAttention"];
const COLORS = ["muted", "good"];

export function drawTook(context, box, how) {
  const { palette, at } = how;
  const write = (words, x, y, size, come = 1, color = palette.text, weight = "650") =>
    text(context, words, x, y, color, { size, weight, alpha: smooth(come), widest: box.x + box.w - x });
  (at.clock >= 0 ? drawRace : drawMoved)(context, box, { ...how, write });
  context.font = `15px ${FONT}`;
  const notes = wrapped(context, at.under, box.w - 2 * PAD).toReversed();
  const y = box.y + box.h - 12;
  notes.forEach((words, i) => write(words, box.x + PAD, y - 18 * i, 15, 1, palette.muted, ""));
}

// Both run at once, in slow motion, to scale.
function drawRace(context, { x, y, w, h }, { palette, at, write }) {
  const [size, longest] = [Math.min(34, w / 16), Math.max(...at.took.ms)];
  at.took.ms.forEach((ms, i) => {
    const now = Math.min(at.clock * longest, ms);
    const bar = { x: x + PAD, y: y + (0.2 + 0.36 * i) * h, w: (w - 5 * size) * (now / longest), h: 0.17 * h };
    const middle = bar.y + bar.h / 2;
    write(WAYS[i], bar.x, bar.y - 0.7 * size, 0.8 * size, 1, palette[COLORS[i]]);
    fillBox(context, palette[COLORS[i]], bar);
    const isDone = now === ms;
    write(formatMs(isDone ? ms : Number(now.toPrecision(2))), bar.x + bar.w + 10, middle, size);
  });
}

// A square per head and way of S and P; below, at the same scale, what else there is; beside them the times.
function drawMoved(context, { x, y, w, h }, { palette, at, write }) {
  const { heads, part, each, all, kept, ms, faster } = at.took;
  const isHigh = h > w; // then the squares of a way have two lines, and the times stand below
  const [columns, lines] = isHigh ? [heads / 2, 2 * ROWS.length] : [heads, ROWS.length];
  const room = (isHigh ? 0.96 : 0.8) * (w - PAD - NAMES);
  const unit = Math.min(room / columns, (h - TOP - BELOW) / (lines + (isHigh ? 4.5 : 1.5)));
  const [side, left] = [unit - GAP, x + PAD + NAMES];
  for (const i of range(ROWS.length * heads)) {
    const [words, line] = [ROWS[Math.floor(i / heads)], Math.floor(i / columns)];
    const top = y + TOP + line * unit;
    if (i % heads === 0) write(words, x + PAD, top + side / 2, 16);
    const come = smooth(at.races * ROWS.length * heads - i);
    const box = { x: left + (i % columns) * unit, y: top, w: side, h: side };
    fillBox(context, words.startsWith("S") ? palette.muted : palette.now, box, come);
  }
  write(each, left + 3, y + TOP + side / 2, side / 3.8, 30 * at.races, palette.background);
  const last = { y: y + TOP + (lines + 0.3) * unit, h: side };
  const middle = last.y + side / 2;
  write("Q, K, V, O", x + PAD, middle, 16);
  const wide = (side * part) / KEPT.length;
  KEPT.forEach((color, i) => fillBox(context, palette[color], { ...last, x: left + i * wide, w: wide }));
  const [large, beside] = [Math.min(36, w / 15), isHigh ? x + PAD : left + columns * unit + 16];
  const come = (from) => within(at.races, from, from + 0.2);
  WAYS.forEach((way, i) => {
    const [from, top] = isHigh
      ? [beside + (i * w) / 2, last.y + 1.8 * unit]
      : [beside, y + TOP + 9 + 2.2 * i * unit];
    const line = (words, down, when) =>
      write(words, from, top + down * large, large, when, palette[COLORS[i]]);
    write(way, from, top, 18, come(0.8), palette[COLORS[i]]);
    line([all, kept][i], 0.9, come(0.8));
    line(formatMs(ms[i]), 1.9, come(1.3 + 0.2 * i));
  });
  const under = isHigh ? last.y + 4.4 * unit : middle;
  write(`${faster}× faster`, beside, under, large, come(1.8), palette.good);
}
