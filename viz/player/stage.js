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

// The colour of a share of the row's attention, in parts of the largest one that is drawn.
function shareColor(palette, part) {
  const at = Math.sqrt(Math.min(1, part)) * (palette.scale.length - 1);
  const [low, high] = [Math.floor(at), Math.ceil(at)].map((i) => [1, 3, 5].map((from) => parseInt(palette.scale[i].slice(from, from + 2), 16)));
  return `rgb(${low.map((channel, i) => Math.round(channel + (high[i] - channel) * (at % 1))).join()})`;
}

// Rectangles of the stage for one head: the grid, and the strips around it.
function stageLayout(width, height, model) {
  const { strips } = model.data;
  const left = 30 + strips.left.length * (STRIP + 4) + 2;
  const top = LABEL + strips.top.length * (STRIP + 2) + 18;
  const right = 6 + strips.right.length * (STRIP + 4) + 20;
  let cellWidth = (width - left - right) / model.kvTiles;
  let cellHeight = (height - top - 6) / model.qTiles;
  cellWidth = Math.min(cellWidth, Math.max(cellHeight * 3, 24));
  cellHeight = Math.min(cellHeight, Math.max(cellWidth * 3, 24, model.qTiles === 1 ? 150 : 0));
  const gridWidth = cellWidth * model.kvTiles;
  const x = left + Math.max(0, (width - left - right - gridWidth) / 2);
  return { x, y: top, cellWidth, cellHeight, width: gridWidth, height: cellHeight * model.qTiles };
}

// Small multiples for all programs at once: one grid a head.
function headLayouts(width, height, model, heads) {
  if (heads.length === 1) return [stageLayout(width, height, model)];
  const shortest = (columns) => Math.min((width / columns - 8) / model.kvTiles, (height / Math.ceil(heads.length / columns) - 16) / model.qTiles);
  const columns = heads.reduce((best, _, i) => (shortest(i + 1) > shortest(best) ? i + 1 : best), 1); // tiles as large as they can be
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
  const { cells } = model.kernels[model.kernel[step]];
  if (model.kv[step] < 0 || model.q[step] < 0 || !cells) return;
  const box = cellBox(layout, model, step);
  const gap = layout.cellWidth > 5 && layout.cellHeight > 5 ? 1 : 0;
  const color = cells === "share" ? shareColor(palette, model.tileShare[step] / model.scaleShare) : palette.plain;
  context.fillStyle = color;
  if (cells === "share" && tileKind(model, step) === KIND.partial && layout.cellHeight >= 6) {
    context.clearRect(box.x, box.y, box.w, box.h);
    context.fillStyle = palette.surface;
    context.fillRect(box.x, box.y, box.w - gap, box.h - gap);
    context.fillStyle = color;
    visiblePath(context, model, step, { ...box, w: box.w - gap, h: box.h - gap });
    context.fill();
  } else {
    context.fillRect(box.x, box.y, Math.max(box.w - gap, 0.6), Math.max(box.h - gap, 0.6));
  }
}

// The tile in progress: grey once its scores exist, in its colour once they are exponentials.
function drawInProgress(context, layout, model, palette, at) {
  const loop = model.kernels[at.kernel].source.phases[1];
  const phase = loop.indexOf(at.phase);
  const colored = loop.findIndex((name) => ["exponentials", "P from lse", "load P", "weigh", "PV"].includes(name));
  const grey = loop.findIndex((name) => ["QK^T", "load S"].includes(name));
  if (phase >= colored && colored >= 0) drawDone(context, layout, model, palette, at.step);
  else if (phase >= grey && grey >= 0) {
    const box = cellBox(layout, model, at.step);
    context.fillStyle = palette.plain;
    context.fillRect(box.x, box.y, box.w, box.h);
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

// A strip of tiles of one tensor, each from one of `edges` to the next; `lit` says of each how bright it is, and whether it is being moved.
function drawStrip(context, { x, y, step, thick, edges, vertical, color, palette, lit }) {
  for (let i = 0; i + 1 < edges.length; i++) {
    const long = (edges[i + 1] - edges[i]) * step;
    const box = vertical ? { x, y: y + edges[i] * step, w: thick, h: long } : { x: x + edges[i] * step, y, w: long, h: thick };
    const gap = long > 4 ? 1 : 0;
    const state = lit(edges[i], edges[i + 1]);
    context.globalAlpha = state.level;
    context.fillStyle = color;
    context.fillRect(box.x, box.y, Math.max(vertical ? box.w : box.w - gap, 0.6), Math.max(vertical ? box.h - gap : box.h, 0.6));
    context.globalAlpha = 1;
    if (state.active) outline(context, { ...box, w: box.w - gap + 1, h: box.h - gap + 1 }, palette.now, 2);
  }
}

// A gap between the parts of the keys, across the grid and the strips above it.
function drawParts(context, layout, model, palette, top = layout.y) {
  const thick = Math.min(4, (layout.width / model.parts.length) * 0.3);
  for (const tile of model.parts.slice(1, -1)) {
    const x = layout.x + tile * layout.cellWidth - 0.5 - thick / 2;
    context.fillStyle = palette.background;
    context.fillRect(x, top, thick, layout.y + layout.height - top);
  }
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
  const x = layout.x - 6 - model.data.strips.left.length * (STRIP + 4);
  for (let q = 0; q < model.qTiles; q += everyQ) {
    text(context, `${q}`, x, layout.y + (q + 0.5) * layout.cellHeight, palette.muted, { align: "right" });
  }
}

// Where a strip lies: along the top, or left or right of the grid.
function stripBox(strip, layout) {
  if (strip.side === "top") return { x: layout.x, y: LABEL + 2 + strip.place * (STRIP + 2), step: layout.cellWidth };
  const x = strip.side === "left" ? layout.x - 6 - STRIP - strip.place * (STRIP + 4) : layout.x + layout.width + 6 + strip.place * (STRIP + 4);
  return { x, y: layout.y, step: layout.cellHeight, vertical: true };
}

function drawStrips(context, layout, model, palette, at) {
  for (const strip of model.strips) {
    const box = stripBox(strip, layout);
    drawStrip(context, { ...box, thick: STRIP, edges: strip.edges, color: palette[strip.color], palette, lit: (from, end) => stripState(model, strip, at, from, end) });
    if (strip.edges === model.parts) numberParts(context, layout, model, palette, box.y + STRIP / 2);
    const options = { weight: "600", size: strip.name.length > 2 ? 11 : 13 };
    if (strip.side === "top") text(context, strip.name, layout.x - 8, box.y + STRIP / 2, palette[strip.color], { ...options, align: "right" });
    else text(context, strip.name, box.x + STRIP / 2, layout.y - 8, palette[strip.color], { ...options, align: "center" });
  }
}

function numberParts(context, layout, model, palette, y) {
  const widths = model.parts.slice(1).map((end, i) => (end - model.parts[i]) * layout.cellWidth);
  if (Math.min(...widths) < 18) return;
  widths.forEach((width, i) => text(context, `${i}`, layout.x + model.parts[i] * layout.cellWidth + width / 2, y, palette.text, { size: 10.5, align: "center", weight: "600" }));
}

// How bright the part [from, end) of a strip is, and whether it is being moved right now.
function stripState(model, strip, at, from, end) {
  const step = at.step;
  const here = step >= 0 && (strip.along === "q" ? model.q[step] === from : model.kv[step] < end && from < model.kvEnd[step]);
  const active = here && [...movedTensors(at.phase, "load"), ...movedTensors(at.phase, "store")].includes(strip.name);
  if (!strip.store) {
    const loads = step >= 0 && model.kernels[at.kernel].source.phases.flat().some((phase) => movedTensors(phase, "load").includes(strip.name));
    return { level: here && loads ? 1 : 0.45, active };
  }
  const tiles = fillingSteps(model, strip, at.head);
  const steps = end - from > 1 ? tiles.slice(from, end).flat() : tiles[from];
  if (!steps.length) return { level: at.finished ? 1 : 0.12, active };
  let filled = 0;
  for (const one of steps) if (at.isDone(strip.store.everyStep ? one : model.turnLast[one])) filled += 1;
    else if (at.isDone(one)) filled += 0.6;
  return { level: 0.12 + (0.88 * filled) / steps.length, active };
}

function drawPinnedRow(context, layout, model, palette, pinned) {
  if (!layout) return;
  const offset = model.offsets[pinned.row] / model.data.problem.block_m;
  const y = layout.y + (pinned.q + offset) * layout.cellHeight + 0.5;
  context.strokeStyle = palette.now;
  context.lineWidth = 1;
  context.setLineDash([4, 3]);
  context.beginPath();
  context.moveTo(layout.x, y);
  context.lineTo(layout.x + layout.width, y);
  context.stroke();
  context.setLineDash([]);
}
