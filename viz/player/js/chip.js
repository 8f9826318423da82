// What lies in SRAM, to scale against its capacity.

import { drawRowBars } from "./bars.js";
import { FONT, fitCanvas, outline, text } from "./draw.js";
import { formatKib, formatNumber } from "./formats.js";
import { isLive, isWorkedOn } from "./model.js";

const TOO_SMALL = 1 / 12; // parts that fill less of the SRAM than this are drawn larger

export function drawChip(canvas, model, palette, at) {
  const { context, width, height } = fitCanvas(canvas);
  context.clearRect(0, 0, width, height);
  const kernel = model.kernels[at.kernel];
  const narrow = width < 440; // the bars of the rows go below the SRAM
  const barsWidth = narrow ? width : Math.min(190, width * 0.32);
  const sramWidth = narrow || !kernel.bars ? width : width - barsWidth - 18;
  const thick = narrow ? 22 : Math.max(18, Math.min(30, height - 38));
  drawSram(context, { width: sramWidth, top: 18, thick }, model, palette, at);
  const below = { x: 0, y: 66, w: width, h: height - 66 };
  const beside = { x: sramWidth + 18, y: 0, w: barsWidth, h: height };
  if (kernel.bars) drawRowBars(context, narrow ? below : beside, model, palette, at);
}

function drawSram(context, box, model, palette, at) {
  const { sram } = model.kernels[at.kernel];
  const { capacity } = model.data.gpu;
  const used = sram.reduce((sum, part) => sum + part.bytes, 0);
  const enlarged = used < capacity * TOO_SMALL ? (0.75 * capacity) / used : 1;
  const scale = (enlarged * box.width) / Math.max(used, capacity);
  drawTitle(context, box, model, palette, used, enlarged);
  context.fillStyle = palette.surface;
  context.fillRect(0, box.top, box.width, box.thick);
  let x = 0;
  for (const part of sram) {
    drawPart(context, { x, y: box.top, w: part.bytes * scale, h: box.thick }, part, model, palette, at);
    x += part.bytes * scale;
  }
  const fits = used <= capacity;
  context.strokeStyle = fits ? palette.muted : palette.bad;
  context.lineWidth = fits ? 1 : 2;
  const end = enlarged > 1 ? box.width + 4 : capacity * scale; // an enlarged bar is open on the right
  context.strokeRect(0.5, box.top + 0.5, end - 1, box.thick - 1);
  drawPartLabels(context, sram, scale, box.top + box.thick + 10, box.width, palette);
  if (enlarged > 1) context.clearRect(box.width, box.top - 1, 8, box.thick + 2);
}

function drawTitle(context, { width }, model, palette, used, enlarged) {
  const { capacity, name } = model.data.gpu;
  const title = width < 340 || enlarged > 1 ? "SRAM" : `SRAM of one SM (${name})`;
  text(context, title, 0, 8, palette.text, { size: 12, weight: "600" });
  const fits = used <= capacity;
  const larger = enlarged > 1 ? `, drawn ${formatNumber(enlarged, 2)}× larger` : "";
  const words = `${formatKib(used)} of ${formatKib(capacity)}${fits ? "" : ": does not fit"}${larger}`;
  const options = { size: 12, align: "right", weight: fits ? "" : "600" };
  text(context, words, width, 8, fits ? palette.text : palette.bad, options);
}

function drawPart(context, box, part, model, palette, at) {
  const running = at.started && !at.finished;
  const live = at.phase ? isLive(model.kernels[at.kernel], part, at.phase) : at.step >= 0 || running;
  const shrinks = at.phase?.rescales && part.holds.every((name) => at.phase.makes.includes(name));
  context.globalAlpha = live ? 0.25 + 0.75 * (shrinks ? at.meanAlpha : 1) : 0.18;
  context.fillStyle = palette[part.color];
  context.fillRect(box.x, box.y, Math.max(box.w - 1, 0.8), box.h);
  context.globalAlpha = 1;
  if (!live || !at.phase || !isWorkedOn(part, at.phase)) return;
  outline(context, { x: box.x + 1, y: box.y + 1, w: box.w - 1, h: box.h - 1 }, palette.now, 2);
}

// Names under their parts; names of small parts move into the room to their right.
function drawPartLabels(context, parts, scale, y, width, palette) {
  let x = 0;
  let free = 0;
  for (const part of parts) {
    const words = `${part.name} ${formatNumber(part.bytes / 1024)}`;
    context.font = `600 11px ${FONT}`;
    const needed = context.measureText(words).width + 8;
    const at = Math.max(x, free);
    if (at + needed <= width + 8) {
      text(context, words, at, y, palette[part.color], { size: 11, weight: "600" });
      free = at + needed;
    }
    x += part.bytes * scale;
  }
}
