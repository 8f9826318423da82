// The grid of score tiles between the strips of Q, K, V and O: what was visited, what is being worked on.

const STRIP = 13;
const LABEL = 12;

function fitCanvas(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

function hatch(context, color, spacing = 5, cross = false) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = spacing * 2;
  const pen = tile.getContext("2d");
  pen.strokeStyle = color;
  pen.lineWidth = 1;
  for (let at = -spacing * 2; at <= spacing * 4; at += spacing) {
    pen.moveTo(at, spacing * 2);
    pen.lineTo(at + spacing * 2, 0);
    if (cross) {
      pen.moveTo(at, 0);
      pen.lineTo(at + spacing * 2, spacing * 2);
    }
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

function shareColor(palette, share) {
  const at = Math.sqrt(Math.min(1, share)) * (palette.scale.length - 1);
  return palette.scale[Math.round(at)];
}

// Rectangles of the stage for one head: the grid, and the strips around it.
function stageLayout(width, height, model) {
  const left = 30 + STRIP + 6;
  const top = LABEL + 2 * STRIP + 20;
  const right = 6 + STRIP + 24;
  let cellWidth = (width - left - right) / model.kvTiles;
  let cellHeight = (height - top - 6) / model.qTiles;
  cellWidth = Math.min(cellWidth, Math.max(cellHeight * 3, 24));
  cellHeight = Math.min(cellHeight, Math.max(cellWidth * 3, 24));
  const gridWidth = cellWidth * model.kvTiles;
  const x = left + Math.max(0, (width - left - right - gridWidth) / 2);
  return { x, y: top, cellWidth, cellHeight, width: gridWidth, height: cellHeight * model.qTiles };
}

// Small multiples for all programs at once: one grid a head.
function headLayouts(width, height, model, heads) {
  if (heads.length === 1) return [stageLayout(width, height, model)];
  const columns = Math.ceil(Math.sqrt((heads.length * width) / height));
  const rowsOfHeads = Math.ceil(heads.length / columns);
  const w = width / columns;
  const h = height / rowsOfHeads;
  return heads.map((_, i) => {
    const grid = { width: w - 8, height: h - 16 };
    return {
      x: (i % columns) * w + 4,
      y: Math.floor(i / columns) * h + 14,
      cellWidth: grid.width / model.kvTiles,
      cellHeight: grid.height / model.qTiles,
      ...grid,
    };
  });
}

function cellBox(layout, model, step) {
  const x = layout.x + model.kv[step] * layout.cellWidth;
  const span = Math.max(1, model.kvEnd[step] - model.kv[step]);
  return { x, y: layout.y + model.q[step] * layout.cellHeight, w: layout.cellWidth * span, h: layout.cellHeight };
}

// The part of a tile that the mask leaves, as a path.
function visiblePath(context, model, step, box) {
  const { q_len, kv_len, block_m, block_n, left, right } = model.data.problem;
  const firstKey = model.kv[step] * block_n;
  const keys = (model.kvEnd[step] - model.kv[step]) * block_n;
  const edge = (row, shift) => {
    const key = model.q[step] * block_m + row * block_m + kv_len - q_len + shift - firstKey;
    return box.x + (box.w * Math.max(0, Math.min(key, keys, kv_len - firstKey))) / keys;
  };
  const at = [0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1];
  context.beginPath();
  at.forEach((row) => context.lineTo(edge(row, right + 1), box.y + row * box.h));
  at.reverse().forEach((row) => context.lineTo(edge(row, -left), box.y + row * box.h));
  context.closePath();
}

function drawDone(context, layout, model, palette, step) {
  if (model.kv[step] < 0) return;
  const box = cellBox(layout, model, step);
  const gap = layout.cellWidth > 5 && layout.cellHeight > 5 ? 1 : 0;
  context.fillStyle = shareColor(palette, model.share[step] / 65535);
  if (tileKind(model, step) === KIND.partial && layout.cellHeight >= 6) {
    context.clearRect(box.x, box.y, box.w, box.h);
    context.fillStyle = palette.surface;
    context.fillRect(box.x, box.y, box.w - gap, box.h - gap);
    context.fillStyle = shareColor(palette, model.share[step] / 65535);
    visiblePath(context, model, step, { ...box, w: box.w - gap, h: box.h - gap });
    context.fill();
  } else {
    context.fillRect(box.x, box.y, Math.max(box.w - gap, 0.6), Math.max(box.h - gap, 0.6));
  }
}

// The tile in progress: grey once its scores exist, in its colour once they are exponentials.
function drawInProgress(context, layout, model, palette, at) {
  const loop = model.data.source.phases[1];
  const phase = loop.indexOf(at.phase);
  if (phase >= loop.indexOf("exponentials")) drawDone(context, layout, model, palette, at.step);
  else if (phase >= loop.indexOf("QK^T")) {
    const box = cellBox(layout, model, at.step);
    context.globalAlpha = 0.6;
    context.fillStyle = palette.muted;
    context.fillRect(box.x, box.y, box.w, box.h);
    context.globalAlpha = 1;
  }
}

// Tiles nobody has visited yet: hatched, since S is never in HBM; tiles that the mask skips: crossed.
function drawUnvisited(context, layout, model, palette) {
  context.fillStyle = hatch(context, palette.line, 6);
  context.fillRect(layout.x, layout.y, layout.width, layout.height);
  context.fillStyle = palette.surface;
  const skipped = hatch(context, palette.line, 4, true);
  const gap = layout.cellWidth > 5 && layout.cellHeight > 5 ? 1 : 0;
  for (let q = 0; q < model.qTiles; q++) {
    for (let kv = 0; kv < model.kvTiles; kv++) {
      if (model.kinds[q * model.kvTiles + kv] !== KIND.skipped) continue;
      const x = layout.x + kv * layout.cellWidth;
      const y = layout.y + q * layout.cellHeight;
      context.fillStyle = palette.surface;
      context.fillRect(x, y, layout.cellWidth, layout.cellHeight);
      if (gap) {
        context.fillStyle = skipped;
        context.fillRect(x + 1, y + 1, layout.cellWidth - 2, layout.cellHeight - 2);
      }
    }
  }
  if (layout.cellWidth >= 8 && layout.cellHeight >= 8) {
    context.strokeStyle = palette.line;
    context.lineWidth = 0.5;
    context.beginPath();
    for (let kv = 0; kv <= model.kvTiles; kv++) {
      context.moveTo(layout.x + kv * layout.cellWidth, layout.y);
      context.lineTo(layout.x + kv * layout.cellWidth, layout.y + layout.height);
    }
    for (let q = 0; q <= model.qTiles; q++) {
      context.moveTo(layout.x, layout.y + q * layout.cellHeight);
      context.lineTo(layout.x + layout.width, layout.y + q * layout.cellHeight);
    }
    context.stroke();
  }
}

// Keeps the tiles that are done in a canvas of its own, so that a frame of playback only adds what is new.
class DoneLayer {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.key = "";
    this.done = new Set();
  }

  // steps: those done, ascending; key changes when everything must be drawn anew.
  update(key, width, height, layouts, layoutOf, model, palette, steps) {
    const ratio = window.devicePixelRatio || 1;
    const context = this.canvas.getContext("2d");
    if (key !== this.key || steps.length < this.done.size || steps.length - this.done.size > 2000) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      layouts.forEach((layout) => drawUnvisited(context, layout, model, palette));
      this.done.clear();
      this.key = key;
    }
    for (const step of steps) {
      if (this.done.has(step)) continue;
      drawDone(context, layoutOf(step), model, palette, step);
      this.done.add(step);
    }
  }
}

function outline(context, box, color, width) {
  context.strokeStyle = color;
  context.lineWidth = width;
  context.strokeRect(box.x - 0.5, box.y - 0.5, Math.max(box.w, 3), Math.max(box.h, 3));
}

function text(context, words, x, y, color, { size = 11, align = "left", weight = "" } = {}) {
  context.fillStyle = color;
  context.font = `${weight} ${size}px "Source Sans", "Source Sans Pro", system-ui, sans-serif`;
  context.textAlign = align;
  context.textBaseline = "middle";
  context.fillText(words, x, y);
}

// A strip of tiles of one tensor. `lit` tiles are on the chip, `full` ones are in HBM; output tiles fill as they are stored.
function drawStrip(context, { x, y, step, thick, count, vertical, color, palette, lit, label }) {
  for (let i = 0; i < count; i++) {
    const box = vertical ? { x, y: y + i * step, w: thick, h: step } : { x: x + i * step, y, w: step, h: thick };
    const gap = step > 4 ? 1 : 0;
    const state = lit(i);
    context.globalAlpha = state.level;
    context.fillStyle = color;
    context.fillRect(box.x, box.y, Math.max(vertical ? box.w : box.w - gap, 0.6), Math.max(vertical ? box.h - gap : box.h, 0.6));
    context.globalAlpha = 1;
    if (state.active) outline(context, { ...box, w: box.w - gap + 1, h: box.h - gap + 1 }, palette.now, 2);
  }
  if (label) text(context, label.words, label.x, label.y, color, { weight: "600", size: 13, align: label.align ?? "left" });
}

// Every how many tiles a label fits.
function labelEvery(step, room) {
  return Math.max(1, Math.ceil(room / step));
}

function drawLabels(context, layout, model, palette) {
  const everyKv = labelEvery(layout.cellWidth, 26);
  for (let kv = 0; kv < model.kvTiles; kv += everyKv) {
    text(context, `${kv}`, layout.x + (kv + 0.5) * layout.cellWidth, LABEL / 2 + 1, palette.muted, { align: "center" });
  }
  const everyQ = labelEvery(layout.cellHeight, 15);
  for (let q = 0; q < model.qTiles; q += everyQ) {
    text(context, `${q}`, layout.x - STRIP - 10, layout.y + (q + 0.5) * layout.cellHeight, palette.muted, { align: "right" });
  }
}

function drawStrips(context, layout, model, palette, at) {
  const phase = at.step < 0 ? "" : at.phase;
  const kv = at.step < 0 ? -1 : model.kv[at.step];
  const q = at.step < 0 ? -1 : model.q[at.step];
  const loaded = (tile, active) => ({ level: active || tile ? 1 : 0.45, active });
  const common = { palette, thick: STRIP };
  const topK = LABEL + 2;
  const row = { ...common, x: layout.x, step: layout.cellWidth, count: model.kvTiles };
  const label = (words, y) => ({ words, x: layout.x - 8, y, align: "right" });
  drawStrip(context, { ...row, y: topK, color: palette.key, lit: (i) => loaded(i === kv, i === kv && phase === "load K"), label: label("K", topK + STRIP / 2) });
  drawStrip(context, { ...row, y: topK + STRIP + 2, color: palette.value, lit: (i) => loaded(i === kv, i === kv && phase === "load V"), label: label("V", topK + STRIP * 1.5 + 2) });
  const column = { ...common, y: layout.y, step: layout.cellHeight, count: model.qTiles, vertical: true };
  drawStrip(context, { ...column, x: layout.x - STRIP - 6, color: palette.query, lit: (i) => loaded(i === q, i === q && phase === "load Q") });
  text(context, "Q", layout.x - STRIP / 2 - 6, layout.y - 8, palette.query, { weight: "600", size: 13, align: "center" });
  const outX = layout.x + layout.width + 6;
  const stored = (i) => {
    const first = at.programOf(i);
    if (first < 0) return { level: at.finished ? 1 : 0.12, active: false };
    const last = model.programLast[first];
    if (at.isDone(last)) return { level: 1, active: i === q && phase.startsWith("store") };
    let done = 0;
    while (first + done <= last && at.isDone(first + done)) done++;
    return { level: done || i === q ? 0.25 + (0.5 * done) / (last - first + 1) : 0.12, active: i === q && phase.startsWith("store") };
  };
  drawStrip(context, { ...column, x: outX, color: palette.output, lit: stored });
  text(context, "O", outX + STRIP / 2, layout.y - 8, palette.output, { weight: "600", size: 13, align: "center" });
}

function drawPinnedRow(context, layout, model, palette, pinned) {
  if (!layout) return;
  const offset = model.offsets[pinned.row] / model.data.problem.block_m;
  const y = layout.y + (model.q[pinned.programFirst] + offset) * layout.cellHeight + 0.5;
  context.strokeStyle = palette.now;
  context.lineWidth = 1;
  context.setLineDash([4, 3]);
  context.beginPath();
  context.moveTo(layout.x, y);
  context.lineTo(layout.x + layout.width, y);
  context.stroke();
  context.setLineDash([]);
}
