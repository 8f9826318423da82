// What a program keeps on the chip, to scale: one bar per memory, against what the program can have of it.

import { drawRowBars } from "./bars.js";
import { FONT, fillBox, fitCanvas, outline, text, wrapped } from "./draw.js";
import { formatKib, formatNumber } from "../run/formats.js";
import { isLive, isWorkedOn } from "../run/model.js";

const LINE = 12; // height of a line of words
const [TITLE, LABEL] = [11.5, 11]; // letters above a bar, and below it
const TITLE_ROOM = 18; // for a line above a bar
const GAP = 14; // between the bars, in units of drawing
const WIDE = 480; // of both bars: there is room for the name of the GPU
const LOW = 12; // the lowest bar of a memory
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
  const bottom = drawMemories(context, { width: memoryWidth, height, thick }, model, palette, at) + 4;
  const below = { x: 0, y: bottom, w: width, h: height - bottom };
  const beside = { x: memoryWidth + 18, y: 0, w: barsWidth, h: height };
  const bars = narrow ? below : beside;
  if (kernel.bars && bars.h > LOWEST) drawRowBars(context, bars, model, palette, at);
}

// The memories, each with its parts, what they take and what a program can have; and how many times larger
// than to scale they are drawn.
function memoriesOf({ parts }, limits) {
  const memories = Object.entries(limits).map(([name, limit]) => {
    const own = parts.filter(({ memory }) => memory === name);
    return { name, limit, parts: own, used: own.reduce((sum, { bytes }) => sum + bytes, 0) };
  });
  const filled = memories.map(({ used, limit }) => used / limit);
  const isSmall = Math.max(...filled) < TOO_SMALL;
  return { memories, enlarged: isSmall ? 0.75 / Math.max(...filled) : 1 };
}

// Beside each other, under titles that break where they have no room. Returns where their words end.
function drawMemories(context, { width: room, height, thick }, model, palette, at) {
  const kernel = model.kernels[at.kernel];
  if (!kernel.parts.length) {
    const words = "What this kernel keeps on the chip is not seen: only its loads and stores.";
    text(context, words, 0, 14, palette.muted, { size: 12.5 });
    return 2 * TITLE_ROOM;
  }
  const { limits, name } = model.data.gpu;
  const { memories, enlarged } = memoriesOf(kernel, limits);
  const sizes = memories.map(({ used, limit }) => Math.max(used, limit));
  const scale = (room - GAP * (sizes.length - 1)) / sizes.reduce((sum, size) => sum + size, 0);
  context.font = `600 ${TITLE}px ${FONT}`;
  const titles = memories.map((memory, i) => wrapped(context, titleOf(memory), sizes[i] * scale));
  const top = TITLE_ROOM + LINE * (Math.max(...titles.map(({ length }) => length)) - 1);
  const low = Math.max(LOW, Math.min(thick, height - top - 4 - 2 * LINE)); // under longer titles
  let x = 0;
  let lines = 1;
  memories.forEach((memory, i) => {
    const box = { x, top, width: sizes[i] * scale, thick: low, scale: scale * enlarged, title: titles[i] };
    const end = i === memories.length - 1 ? room : x + box.width + GAP; // of the names of its parts
    box.labels = placeLabels(context, memory.parts, box.scale, { start: x, end });
    lines = Math.max(lines, ...box.labels.map(({ line }) => line + 1));
    drawMemory(context, box, memory, palette, model, at);
    x += box.width + GAP;
  });
  const bottom = top + low + 4 + LINE * Math.max(2, lines);
  if (enlarged > 1) {
    const words = `drawn ${formatNumber(enlarged, 2)}× larger`; // the second line is filled from its end
    text(context, words, 0, bottom - 6, palette.muted, { size: 10.5 });
  }
  if (room >= WIDE) text(context, name, room, 8, palette.muted, { size: 11, align: "right" });
  return bottom;
}

// What becomes of the rest: a compiler moves it from registers to HBM, shared memory has no other place.
const TOO_MUCH = { registers: "would spill to HBM", "shared memory": "do not fit" };

function titleOf({ name, limit, used }) {
  if (used <= limit) return `${name} ${formatNumber(used / 1024)} of ${formatKib(limit)}`;
  return `${name}: ${formatKib(used - limit)} over ${formatKib(limit)} ${TOO_MUCH[name]}`;
}

function drawMemory(context, box, { limit, parts, used }, palette, model, at) {
  const { x, top, width, thick, scale } = box;
  const fits = used <= limit;
  const color = fits ? palette.text : palette.bad;
  box.title.forEach((line, i) => text(context, line, x, 8 + i * LINE, color, { size: TITLE, weight: "600" }));
  fillBox(context, palette.surface, x, top, width, thick);
  let from = x;
  for (const part of parts) {
    drawPart(context, { x: from, y: top, w: part.bytes * scale, h: thick }, part, model, palette, at);
    from += part.bytes * scale;
  }
  context.strokeStyle = fits ? palette.muted : palette.bad;
  context.lineWidth = fits ? 1 : 2;
  const full = fits ? width : (width * limit) / used; // what does not fit lies beyond the line
  context.strokeRect(x + 0.5, top + 0.5, full - 1, thick - 1);
  for (const { words, at: place, line, part } of box.labels) {
    text(context, words, place, top + thick + 10 + line * LINE, palette[part.color], {
      size: LABEL,
      weight: "600",
    });
  }
}

function drawPart(context, box, part, model, palette, at) {
  const running = at.started && !at.finished;
  const live = at.phase ? isLive(model.kernels[at.kernel], part, at.phase) : at.step >= 0 || running;
  const shrinks = at.phase?.rescales && part.holds.every((name) => at.phase.makes.includes(name));
  const alpha = live ? 0.25 + 0.75 * (shrinks ? at.meanAlpha : 1) : 0.18;
  fillBox(context, palette[part.color], box.x, box.y, Math.max(box.w - 1, 0.8), box.h, alpha);
  if (!live || !at.phase || !isWorkedOn(part, at.phase)) return;
  outline(context, { x: box.x + 1, y: box.y + 1, w: box.w - 1, h: box.h - 1 }, palette, 2);
}

// Names under their parts, or in the room to their right; those that have none follow each other below.
function placeLabels(context, parts, scale, { start, end }) {
  let x = start;
  let [line, free] = [0, start];
  context.font = `600 ${LABEL}px ${FONT}`;
  return parts.map((part) => {
    const words = `${part.name} ${formatNumber(part.bytes / 1024)}`;
    const wide = context.measureText(words).width;
    let at = line ? free : Math.max(x, free);
    if (at + wide > end) [line, at] = [line + 1, Math.max(0, Math.min(start, end - wide))];
    free = at + wide + 8;
    x += part.bytes * scale;
    return { words, at, line, part };
  });
}
