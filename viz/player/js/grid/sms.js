// While all programs are shown at once: each SM, in colour while a program runs on it, and how many do. Once
// all that began have ended, each that had one.

import { drawChipBox, namePlace, roundBox, text } from "./draw.js";
import { range } from "../run/model.js";

const [PAD, TOP, COLUMNS] = [14, 72, 11];

export function drawSms(context, box, { model, palette, moments: { start, end }, at }) {
  const { sms } = model.data;
  const isBegun = (step) => at.started && model.turnFirst[step] === step && start[step] <= at.time;
  const begun = range(model.count).filter(isBegun);
  const running = begun.filter((step) => at.time < end[model.turnLast[step]]);
  const used = new Set((running.length ? running : begun).map((step) => model.sm[step]));
  drawChipBox(context, box, palette);
  namePlace(context, "Chip", `${sms} SMs`, box, palette);
  const size = Math.min(16, box.w / 10.8);
  const words = `${used.size} of ${sms} ${running.length || !begun.length ? "at work" : "had work"}`;
  text(context, words, box.x + PAD, box.y + 48, palette.now, { size, weight: "700" });
  const wide = (box.w - 2 * PAD) / COLUMNS;
  const high = (box.h - TOP - PAD) / Math.ceil(sms / COLUMNS);
  for (const sm of range(sms)) {
    const [column, row] = [sm % COLUMNS, Math.floor(sm / COLUMNS)];
    const cell = { x: box.x + PAD + column * wide, y: box.y + TOP + row * high, w: wide - 2, h: high - 2 };
    roundBox(context, cell, 2, used.has(sm) ? { fill: palette.now } : { line: palette.muted });
  }
}
