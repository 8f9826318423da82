// A merge of parts of the keys: the O of each shrinks to its share of the weights, and falls into its place.

import { fillBox, roundBox, text } from "./draw.js";
import { heldIn, sumOf, workedPart } from "../run/bench.js";
import { clamp, lerp, smooth } from "../run/easing.js";
import { lseOfPart } from "../run/figure.js";
import { difference, formatSteady } from "../run/formats.js";
import { stepsOfTile, sum, valueAt } from "../run/model.js";

const [PAD, ABOVE, HEADING, GAP] = [14, 48, 22, 8]; // beside and above all, and above the lines and O
const [NAME, TERM, SHARE, WHY] = [3, 4.5, 4, 8]; // of a part, its lse, its share, and e^(…), in text heights
const NARROW = 420; // width of a chip that does not say why
const middleOf = (box) => box.y + box.h / 2;
const [TALL, LARGEST, SMALLEST] = [40, 16, 7]; // of a line, and of its numbers

export const isMerge = ({ bars }) => bars === "weight";

// A line per part below the O of the part at hand, and above the O of all.
export function partsLayout(chip, model, step) {
  const steps = stepsOfTile(model, model.kernel[step], model.head[step], model.q[step]);
  const count = steps.length;
  const high = (chip.h - ABOVE - HEADING - GAP - PAD) / (count + 2);
  const h = clamp(high, 3, TALL);
  const size = clamp(h, SMALLEST, LARGEST);
  const term = { x: chip.x + PAD + NAME * size, w: (TERM - 1) * size };
  const box = { x: term.x + TERM * size, y: chip.y + ABOVE, h };
  const isNarrow = chip.w < NARROW;
  box.w = chip.x + chip.w - box.x - (SHARE + (isNarrow ? 0 : WHY)) * size;
  const lines = { ...box, y: box.y + h + HEADING };
  const y = lines.y + count * h + GAP;
  const own = { ...term, y: lines.y + steps.indexOf(step) * h, h };
  const slots = { "partial O": box, "partial lse": own, O: { ...box, y }, lse: { ...term, y, h } };
  return { slots, lines, size, isNarrow, draw: drawParts, state: null };
}

function drawParts(context, { slots, lines, size, isNarrow }, { model, palette, at, strong, row }) {
  const steps = stepsOfTile(model, at.kernel, model.head[at.step], model.q[at.step]);
  const shares = steps.map((step) => valueAt(model, "weight", step, row) || 0);
  const terms = steps.map((step) => lseOfPart(model, step, row));
  const most = shares.indexOf(Math.max(...shares));
  const all = terms[most] - Math.log(shares[most]);
  const now = steps.indexOf(at.step);
  const adds = model.phases[at.step].findIndex(sumOf);
  const part = adds < 0 ? 0 : workedPart(model.phases[at.step][adds], at.progress[adds]);
  const [came, summed] = [now, now + (part === 1)].map((end) => sum(shares.slice(0, end)));
  const { "partial O": own, O: whole, lse } = slots;
  const left = lse.x - NAME * size;
  const write = (words, x, y, color = palette.text, style = {}) =>
    text(context, words, x, y, color, { size, alpha: strong, ...style });
  const name = (words, x, y, color, widest) =>
    write(words, x, y, color, { size: Math.max(size, 13), weight: "650", widest });
  name("O", left, middleOf(whole), palette.output);
  name("part", left, lines.y - 11, palette.text, lse.x - left);
  name("lse", lse.x, lines.y - 11, palette.state);
  name("share of all weights", lines.x, lines.y - 11, palette.state, lines.w);
  const isRead = heldIn(model, at, "partial lse").held === 1;
  for (const [i, share] of shares.entries()) {
    const y = lines.y + (i + 0.5) * lines.h;
    const color = i === now ? palette.now : palette.text;
    fillBox(context, palette.line, { ...lines, y: y - 0.5, h: 1 }, 0.6 * strong);
    write(i, left, y, color);
    if (isRead) write(formatSteady(terms[i]), lse.x, y, color);
    const come = i < now ? 1 : i === now ? smooth(2 * part) : 0;
    if (!come) continue;
    const x = lines.x + sum(shares.slice(0, i)) * lines.w;
    const bar = { x, y: y - 0.3 * lines.h, w: share * lines.w * come, h: 0.6 * lines.h };
    fillBox(context, i === now ? palette.now : palette.state, bar, strong);
    const why = i === now && !isNarrow ? `e^(${difference(terms[i], all)}) = ` : "";
    write(`${why}${formatSteady(share)}`, lines.x + lines.w + 8, y, color, { weight: "650" });
  }
  roundBox(context, whole, 2, { fill: palette.surface, line: palette.line });
  fillBox(context, palette.output, { ...whole, w: summed * whole.w }, strong);
  const bold = { weight: "700" };
  if (summed) write(formatSteady(summed), whole.x + whole.w + 8, middleOf(whole), palette.now, bold);
  if (heldIn(model, at, "lse").held === 1)
    write(formatSteady(all), lse.x, middleOf(whole), palette.now, bold);
  const { held, flies } = heldIn(model, at, "partial O");
  if (part === 1 || flies || !held) return;
  if (!part) name("partial O", left, middleOf(own), palette.output);
  const [shrinks, falls] = [smooth(2 * part), smooth(2 * part - 1)];
  const [x, w] = [lerp(own.x, lines.x + came * lines.w, shrinks), own.w * lerp(1, shares[now], shrinks)];
  fillBox(context, palette.output, { ...own, x, y: lerp(own.y, whole.y, falls), w }, strong);
}
