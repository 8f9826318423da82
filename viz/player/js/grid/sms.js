// While all programs are shown at once: each SM, in colour while a program runs on it. Once all that began
// have ended, it is as strong as the part of the time in which it had one.

import { fillBox, namePlace, roundBox, text } from "./draw.js";
import { range, sum } from "../run/model.js";

const [PAD, TOP, COLUMNS] = [14, 72, 11];

export function drawSms(context, box, { model, palette, moments: { start, end }, at }) {
  const parts = new Float64Array(model.data.sms); // of each SM
  const isBegun = (step) => at.started && model.turnFirst[step] === step && start[step] <= at.time;
  const begun = range(model.count).filter(isBegun);
  const whole = Math.max(...begun.map((i) => end[model.turnLast[i]]));
  const isOver = whole <= at.time;
  for (const i of begun) {
    const ends = end[model.turnLast[i]];
    if (isOver) parts[model.sm[i]] += (ends - start[i]) / whole;
    else if (at.time < ends) parts[model.sm[i]] = 1;
  }
  roundBox(context, box, 12, { fill: palette.background, line: palette.line });
  namePlace(context, "Chip", `${parts.length} SMs`, box, palette);
  const words = `${Math.round((100 * sum(parts)) / parts.length)} % in use`;
  if (isOver) text(context, words, box.x + PAD, box.y + 48, palette.now, { size: 24, weight: "700" });
  const wide = (box.w - 2 * PAD) / COLUMNS;
  const high = (box.h - TOP - PAD) / Math.ceil(parts.length / COLUMNS);
  parts.forEach((part, sm) => {
    const [column, row] = [sm % COLUMNS, Math.floor(sm / COLUMNS)];
    const cell = { x: box.x + PAD + column * wide, y: box.y + TOP + row * high, w: wide - 2, h: high - 2 };
    fillBox(context, palette.now, cell, part);
    roundBox(context, cell, 2, { line: part ? palette.now : palette.muted });
  });
}
