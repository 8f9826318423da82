// What a longer text takes, in a film: its times as recorded, and its bytes as modelled.

import { FONT, fillBox, text, wrapped } from "./draw.js";
import { clamp, smooth, within } from "../run/easing.js";
import { formatBytes, formatMs } from "../run/formats.js";
import { sum } from "../run/model.js";

const WAYS = ["standard attention", "FlashAttention"];
const COLORS = ["muted", "good"];
const [PAD, BEGINS] = [12, 0.2]; // part of the room that is for the first bytes

export function drawTook(context, { x, y, w, h }, { palette, at }) {
  const { ms, parts, words, faster } = at.took;
  const size = Math.min(34, w / 16, h / 11);
  const write = (what, left, middle, more) =>
    text(context, what, left, middle, palette.text, { size, weight: "650", widest: x + w - left, ...more });
  // a bar of segments, [color, length, name], with its name above and its sum beside it; 1 is the whole width
  const draw = (way, top, high, segments, label) => {
    const color = palette[COLORS[way]];
    text(context, WAYS[way], x + PAD, y + (top - 0.035) * h, color, { size: 0.6 * size, weight: "650" });
    let left = x + PAD;
    for (const [fill, length, name] of segments) {
      const box = { x: left, y: y + top * h, w: length * (w - 5 * size), h: high * h };
      fillBox(context, palette[fill], { ...box, w: Math.max(box.w - 1, 0.5) });
      const inside = { size: 0.5 * size, align: "center", alpha: Number(box.w > 2 * size) };
      text(context, name ?? "", box.x + box.w / 2, box.y + box.h / 2, palette.background, inside);
      left += box.w;
    }
    write(label, left + 10, y + (top + high / 2) * h);
  };
  // both run at once, in slow motion
  const race = (clock, tops, high) => {
    const longest = Math.max(...ms);
    ms.forEach((all, way) => {
      const now = Math.min(clamp(clock) * longest, all);
      const label = now === all ? formatMs(all) : `${now.toFixed(1)} ms`;
      draw(way, tops[way], high, [[COLORS[way], now / longest]], label);
    });
  };
  if ("clock" in at) race(at.clock, [0.16, 0.5], 0.18);
  else {
    const grown = (words / at.first) ** (smooth(at.races) - 1); // of all words
    const bytesOf = (part, n = grown) => part.bytes * n ** ("SP".includes(part.name) ? 2 : 1);
    const all = sum(parts.map((part) => bytesOf(part)));
    const first = sum(parts.map((part) => bytesOf(part, at.first / words)));
    const unit = Math.min(BEGINS / first, 1 / all); // it grows, then is seen from afar
    write(`${Math.round(words * grown).toLocaleString("en-US")} words`, x + PAD, y + 0.06 * h);
    [parts, parts.filter(({ name }) => !"SP".includes(name))].forEach((own, way) => {
      const segments = own.map((part) => [part.color, bytesOf(part) * unit, part.name]);
      draw(way, 0.2 + 0.17 * way, 0.09, segments, formatBytes(sum(own.map((part) => bytesOf(part)))));
    });
    if (at.races > 1) race(at.races - 1, [0.56, 0.73], 0.09);
    const come = { align: "right", alpha: within(at.races, 1.9, 2) };
    text(context, `${faster}× faster`, x + w - PAD, y + 0.775 * h, palette.good, {
      size,
      weight: "700",
      ...come,
    });
  }
  context.font = `15px ${FONT}`;
  const notes = wrapped(context, at.under, w - 2 * PAD).toReversed();
  const note = { size: 15, weight: "" };
  notes.forEach((line, i) => text(context, line, x + PAD, y + h - 12 - 18 * i, palette.muted, note));
}
