// One run on the stage: the grid, the chip and the bytes at a position. A player has one pane, a duel two.

import { drawChip } from "./chip.js";
import { canvas, element, fillBytes } from "../controls/dom.js";
import { fitCanvas, outline, text, usePalette } from "./draw.js";
import { LABEL, cellBox, headLayouts, tileAt } from "./layout.js";
import { hasTile, modelOf, range, rowCount, rowNumber, valueAt } from "../run/model.js";
import { drawAllDone, drawInProgress, drawPinnedRow } from "./stage.js";
import { drawLabels, drawParts, drawStrips, nameHeads } from "./strips.js";
import { Timeline } from "../run/timeline.js";
import { bytesSoFar, headName, tileWords } from "../run/words.js";

export class Pane {
  // `onPick` is called when the user picks a row of the grid or lets it go; without it no row can be picked.
  constructor(onPick = null) {
    this.onPick = onPick;
    this.nodes = {
      stage: canvas("stage", "score tiles, with the tensors beside them"),
      chip: canvas("chip", "what a program keeps in shared memory and in registers"),
      bytes: element("div", { class: "fa-bytes" }),
    };
    this.pinned = null; // {head, q, row}: the row that the user picked
    const { stage } = this.nodes;
    stage.addEventListener("click", (event) => this.pick(event));
    stage.addEventListener("mousemove", (event) => (stage.title = this.describe(event)));
  }

  // Returns whether the run is another one; the same run again may come with another GPU or palette.
  load(data) {
    const isNew = this.model?.data.id !== data.id;
    if (isNew) {
      this.model = modelOf(data);
      this.timeline = new Timeline(this.model);
    }
    this.model.data = data;
    this.nodes.chip.title = data.gpu.words;
    return isNew;
  }

  // Choose the palette by the page, and hand it to the style sheet below `root`.
  usePalette(root) {
    this.palette = usePalette(root, this.model.data.palettes);
  }

  // Draw the bars of bytes so that `largest` would still fit.
  scaleBytes(largest) {
    this.showBytes = fillBytes(this.nodes.bytes, this.model, this.palette, largest);
  }

  // The cursor, with what the panels ask of it. `tween` says how much of the transition is over, from 0 to 1.
  stateAt(tween) {
    const { model, timeline } = this;
    const at = timeline.cursor();
    at.tween = tween;
    at.isDone = (step) => timeline.isDone(at, step);
    // with all programs at once: a step of the kernel that runs at this moment
    const latest = timeline.moments.start.findLastIndex((start) => start <= (at.time ?? -1));
    const standing = at.step >= 0 ? at.step : at.finished ? model.count - 1 : Math.max(0, latest);
    at.head = model.head[at.finished && timeline.order === "gpu" ? 0 : standing];
    at.kernel = model.kernel[standing];
    const isOfRows = at.step >= 0 && model.values.alpha && model.q[at.step] >= 0;
    const rows = range(isOfRows ? rowCount(model, model.q[at.step]) : 0);
    const alphas = isOfRows ? rows.map((row) => valueAt(model, "alpha", at.step, row)) : [1];
    at.alphaRange = [Math.min(...alphas), Math.max(...alphas)];
    at.meanAlpha = 1 + (alphas.reduce((sum, alpha) => sum + alpha, 0) / alphas.length - 1) * tween;
    return at;
  }

  // Draw everything; returns the bytes so far and the number of tiles in progress. `isHidden`: the bytes
  // alone.
  draw(at, isHidden = false) {
    const { model, palette, timeline } = this;
    const active = isHidden ? 1 : this.drawStage(at);
    if (!isHidden) drawChip(this.nodes.chip, model, palette, at);
    const bytes = bytesSoFar(timeline, at);
    this.showBytes(bytes);
    return { active, bytes };
  }

  drawStage(at) {
    const { model, palette, timeline } = this;
    const { context, width, height, zoom } = fitCanvas(this.nodes.stage);
    const heads = timeline.order === "gpu" ? model.heads : [at.head];
    const layouts = headLayouts(width, height, model, heads);
    this.shown = { layouts, heads, zoom };
    const layoutOf = (step) => layouts[heads.indexOf(model.head[step])];
    const { steps, active } = this.doneAndActive(at, heads);
    context.clearRect(0, 0, width, height);
    drawAllDone(context, { layouts, layoutOf, model, palette, steps });
    this.drawAround(context, layouts, heads, at);
    if (at.step >= 0 && !at.complete && hasTile(model, at.step)) {
      drawInProgress(context, layouts[0], model, palette, at);
    }
    const thin = layouts.length > 1 && Math.min(layouts[0].cellWidth, layouts[0].cellHeight) < 8;
    const boxOf = (step) => cellBox(layoutOf(step), model, step);
    active.forEach((step) => outline(context, boxOf(step), palette, thin ? 1 : 2.5));
    const layout = this.pinned && layouts[heads.indexOf(this.pinned.head)];
    if (layout) drawPinnedRow(context, layout, model, palette, this.pinned);
    return active.length;
  }

  drawAround(context, layouts, heads, at) {
    const { model, palette } = this;
    const split = model.keyParts.length > 0;
    if (layouts.length > 1) {
      if (split) layouts.forEach((layout) => drawParts(context, layout, model, palette));
      nameHeads(context, layouts, heads, model, palette);
      return;
    }
    if (split) drawParts(context, layouts[0], model, palette, LABEL + 2);
    drawStrips(context, layouts[0], model, palette, at);
    drawLabels(context, layouts[0], model, palette);
    const name = model.heads.length > 1 ? headName(model, heads[0]) : "HBM";
    text(context, name, 2, LABEL / 2 + 1, palette.muted, { weight: "600" });
  }

  doneAndActive(at, heads) {
    const { model, timeline } = this;
    const atOnce = timeline.order === "gpu";
    const steps = [];
    const active = !atOnce && at.step >= 0 && hasTile(model, at.step) ? [at.step] : [];
    for (let i = 0; i < model.count; i++) {
      if (!atOnce && model.head[i] !== heads[0]) continue;
      if (model.data.each_kernel_anew && model.kernel[i] !== at.kernel) continue;
      const started = atOnce && at.started && timeline.moments.start[i] <= at.time;
      if (at.isDone(i)) steps.push(i);
      else if (started && hasTile(model, i)) active.push(i);
    }
    return { steps, active };
  }

  // The tile under the pointer: its head, query tile, key tile and row; null beside the grid.
  hit(event) {
    if (!this.shown) return null;
    const bounds = this.nodes.stage.getBoundingClientRect();
    const { layouts, heads, zoom } = this.shown;
    const { block_m } = this.model.data.problem;
    const [x, y] = [(event.clientX - bounds.left) / zoom, (event.clientY - bounds.top) / zoom];
    const tile = tileAt(x, y, layouts, block_m);
    return tile && { ...tile, head: heads[tile.index] };
  }

  pick(event) {
    const { model, pinned } = this;
    const hit = this.onPick && this.hit(event);
    if (!hit) return;
    const row = rowOfHit(model, hit);
    this.pinned = pinned && Object.keys(row).every((name) => row[name] === pinned[name]) ? null : row;
    this.onPick();
  }

  // The picked row as head and number of the row, "2.195".
  pinnedText() {
    return `${this.pinned.head}.${rowNumber(this.model, this.pinned)}`;
  }

  // Pick the row of such words, or the drawn row above it; no row for anything else.
  pinText(words) {
    const [, head, number] = /^(\d+)\.(\d+)$/.exec(words ?? "")?.map(Number) ?? [];
    const { heads, tileNumbers, offsets, data } = this.model;
    const { block_m, rows } = data.problem;
    const q = tileNumbers.indexOf(Math.floor(number / block_m));
    const exists = heads.includes(head) && number < rows && q >= 0;
    const row = offsets.findLastIndex((offset) => offset <= number % block_m);
    this.pinned = exists ? { head, q, row } : null;
  }

  describe(event) {
    const hit = this.hit(event);
    return hit ? tileWords(this.model, hit, this.stateAt(1).kernel, Boolean(this.onPick)) : "";
  }
}

// The drawn row of a place on the grid.
export function rowOfHit(model, { head, q, offset }) {
  const above = model.offsets.findLastIndex((each) => each <= offset);
  return { head, q, row: Math.min(above, rowCount(model, q) - 1) };
}
