// The film's last picture, of a longer text: what moves of S and P, modelled, and what both ways took.

import { FONT, fillBox, text, wrapped } from "./draw.js";
import { smooth, within } from "../run/easing.js";
import { range } from "../run/model.js";

const ROWS = ["S written", "S read", "P written", "P read"];
const KEPT = ["query", "key", "value", "output"]; // alike
const [NAMES, PAD, TOP, BELOW, GAP] = [86, 12, 20, 66, 5]; // room for names and words; between squares

// A square per head and way of S and P; below, at the same scale, what else there is; beside them the times.
export function drawTook(context, { x, y, w, h }, { palette, at }) {
  const { heads, part, each, moved, kept, times, faster, under } = at.took;
  const isHigh = h > w; // then the squares of a way have two lines, and the times stand below
  const [columns, lines] = isHigh ? [heads / 2, 2 * ROWS.length] : [heads, ROWS.length];
  const room = (isHigh ? 0.96 : 0.8) * (w - PAD - NAMES);
  const unit = Math.min(room / columns, (h - TOP - BELOW) / (lines + (isHigh ? 4.5 : 1.5)));
  const [side, left] = [unit - GAP, x + PAD + NAMES];
  const write = (words, from, middle, size, come = 1, color = palette.text, weight = "650") =>
    text(context, words, from, middle, color, { size, weight, alpha: smooth(come), widest: x + w - from });
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
  write(`${kept}: FlashAttention, if each moves once`, left + side * part + 10, middle, isHigh ? 15 : 22);
  const [large, beside] = [Math.min(40, w / 15), isHigh ? x + PAD : left + columns * unit + 16];
  const [first, second] = isHigh ? [last.y + 2 * unit, last.y + 3.4 * unit] : [y + TOP + 2 * unit, middle];
  write(moved, beside, isHigh ? first : first - 1.3 * large, large, within(at.races, 0.9, 1));
  const [after, end] = isHigh ? [x + w / 2, second] : [beside, second + 1.3 * large];
  if (!isHigh) write("standard attention", beside, y + TOP + 0.2 * unit, 18, within(at.races, 0.9, 1));
  write(times[0], after, first, large, within(at.races, 1.3, 1.5));
  write(times[1], after, second, large, within(at.races, 1.5, 1.7), palette.now);
  write(`${faster}× faster`, beside, end, large, within(at.races, 1.8, 2), palette.now);
  context.font = `15px ${FONT}`;
  const notes = wrapped(context, under, w - 2 * PAD).toReversed();
  notes.forEach((words, i) => write(words, x + PAD, y + h - 12 - 18 * i, 15, 1, palette.muted, ""));
}
