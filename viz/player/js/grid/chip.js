// What a program keeps on the chip, to scale: one bar per memory, against what the program can have of it.

import { drawRowBars } from "./bars.js";
import { FONT, fitCanvas, outline, text } from "./draw.js";
import { formatKib, formatNumber } from "../run/formats.js";
import { isLive, isWorkedOn } from "../run/model.js";

const LINE = 12; // height of a line of words below the bars
const GAP = 14; // between the bars, in units of drawing
const WIDE = 480; // of both bars: there is room for the name of the GPU
const LOWEST = 60; // bars of the rows with their title and their words
const TOO_SMALL = 1 / 12; // parts that fill less of both memories than this are drawn larger

export function drawChip(canvas, model, palette, at) {
  if (!canvas.clientWidth) return; // hidden
  const { context, width, height } = fitCanvas(canvas);
  context.clearRect(0, 0, width, height);
  const kernel = model.kernels[at.kernel];
  const narrow = width < 440; // the bars of the rows go below the memories
  const barsWidth = narrow ? width : Math.min(190, width * 0.3);
  const memoryWidth = narrow || !kernel.bars ? width : width - barsWidth - 18;
  const thick = narrow ? 22 : Math.max(18, Math.min(28, height - 46));
  drawMemories(context, { width: memoryWidth, top: 18, thick }, model, palette, at);
  const below = { x: 0, y: 72, w: width, h: height - 72 };
  const beside = { x: memoryWidth + 18, y: 0, w: barsWidth, h: height };
  const bars = narrow ? below : beside;
  if (kernel.bars && bars.h > LOWEST) drawRowBars(context, bars, model, palette, at);
}

// The memories, each with its parts, what they take and what a program can have; and how many times larger
// than to scale they are drawn.
export function memoriesOf({ parts }, limits) {
  const memories = Object.entries(limits).map(([name, limit]) => {
    const own = parts.filter(({ memory }) => memory === name);
    return { name, limit, parts: own, used: own.reduce((sum, { bytes }) => sum + bytes, 0) };
  });
  const filled = memories.map(({ used, limit }) => used / limit);
  const isSmall = Math.max(...filled) < TOO_SMALL;
  return { memories, enlarged: isSmall ? 0.75 / Math.max(...filled) : 1 };
}

function drawMemories(context, box, model, palette, at) {
  const kernel = model.kernels[at.kernel];
  if (!kernel.parts.length) {
    const words = "What this kernel keeps on the chip is not seen: only its loads and stores.";
    text(context, words, 0, 14, palette.muted, { size: 12.5 });
    return;
  }
  const { limits, name } = model.data.gpu;
  const { memories, enlarged } = memoriesOf(kernel, limits);
  const widest = memories.reduce((sum, { used, limit }) => sum + Math.max(used, limit), 0);
  const scale = (box.width - GAP * (memories.length - 1)) / widest;
  let x = 0;
  for (const memory of memories) {
    const width = Math.max(memory.used, memory.limit) * scale;
    drawMemory(context, { ...box, x, width }, memory, scale * enlarged, model, palette, at);
    x += width + GAP;
  }
  const bottom = box.top + box.thick + 10 + LINE;
  if (enlarged > 1)
    text(context, `drawn ${formatNumber(enlarged, 2)}× larger`, 0, bottom, palette.muted, { size: 10.5 });
  if (box.width >= WIDE) text(context, name, box.width, 8, palette.muted, { size: 11, align: "right" });
}

function drawMemory(context, box, { name, limit, parts, used }, scale, model, palette, at) {
  const { x, top, width, thick } = box;
  const fits = used <= limit;
  const words = fits ? ` ${formatNumber(used / 1024)} of` : `: ${formatKib(used - limit)} more than`;
  const color = fits ? palette.text : palette.bad;
  text(context, `${name}${words} ${formatKib(limit)}`, x, 8, color, { size: 11.5, weight: "600" });
  context.fillStyle = palette.surface;
  context.fillRect(x, top, width, thick);
  let from = x;
  for (const part of parts) {
    drawPart(context, { x: from, y: top, w: part.bytes * scale, h: thick }, part, model, palette, at);
    from += part.bytes * scale;
  }
  context.strokeStyle = fits ? palette.muted : palette.bad;
  context.lineWidth = fits ? 1 : 2;
  const end = fits ? width : (width * limit) / used; // what does not fit lies beyond the line
  context.strokeRect(x + 0.5, top + 0.5, end - 1, thick - 1);
  drawPartLabels(context, parts, scale, { x, y: top + thick + 10, width }, palette);
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
  outline(context, { x: box.x + 1, y: box.y + 1, w: box.w - 1, h: box.h - 1 }, palette, 2);
}

// Names under their parts. Names of small parts move into the room to their right, or else to a second line.
function drawPartLabels(context, parts, scale, { x: start, y, width }, palette) {
  let x = start;
  let free = start;
  const end = start + width + GAP;
  let low = end; // the second line is filled from its end
  for (const part of parts) {
    const words = `${part.name} ${formatNumber(part.bytes / 1024)}`;
    context.font = `600 11px ${FONT}`;
    const needed = context.measureText(words).width + 8;
    const at = Math.max(x, free);
    const fits = at + needed <= end;
    if (fits) free = at + needed;
    const place = fits ? [at, y] : [Math.min(x, low - needed), y + LINE];
    if (!fits) [low] = place;
    text(context, words, ...place, palette[part.color], { size: 11, weight: "600" });
    x += part.bytes * scale;
  }
}
