// One run on the stage: HBM, the chip and the bytes at a position. A player has one pane, a duel two.

import { FADES, benchOf, cellAt, drawAsked, drawBench, drawFar, hasRoom } from "./bench.js";
import { canvas } from "../controls/dom.js";
import { fillBox, fitCanvas, namePlace, outline, usePalette } from "./draw.js";
import { drawFlights, drawStores } from "./flights.js";
import { EDGE, NARROW, aboveOf, cellBox, headLayouts, placesOf, showsKeys, tileAt } from "./layout.js";
import { drawHbm, drawMap, drawPinnedRow, isInHbm, nameMap } from "./map.js";
import { hasNumbers, progressOf } from "../run/bench.js";
import { meltOf, scanOf, smooth, within } from "../run/easing.js";
import { knowsRow, toldRow } from "../run/figure.js";
import { factorLines } from "../run/cell.js";
import {
  bytesSoFar,
  hasTile,
  modelOf,
  range,
  rowAbove,
  rowCount,
  rowNumber,
  tileNumber,
} from "../run/model.js";
import { isMerge, partsLayout } from "./parts.js";
import { drawSms } from "./sms.js";
import { drawTook } from "./took.js";
import { drawStored } from "./stored.js";
import { drawDocuments, drawParts, drawStrips, nameHeads } from "./strips.js";
import { isOfRows, rowsLayout } from "./whole_rows.js";
import { Timeline } from "../run/timeline.js";
import { headName, tileWords } from "../run/words.js";

const [SMS, GAP] = [0.27, 12]; // part of the stage that is the SMs, beside all programs at once
const WIDER = 9; // than high, at most: the tiles of a map that has the stage
const MEMORIES = 40; // height of the gauges of the chip, with their names
const ROOM = { beside: 190, below: 340 }; // height of a stage: on a lower one the map stands alone

export class Pane {
  // `onPick(tile)` is called when the user picks a row of a tile, `onPick(null)` to let go; null: no picks.
  constructor(onPick = null) {
    this.onPick = onPick;
    this.stage = canvas("stage", "tiles of the tensors in HBM, and what of them is on the chip");
    this.reduced = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.pinned = null; // {head, q, row}: the row that the user picked
    this.pointed = null; // {slot, row, column}: the number of an open tile that the user points at
    const { stage } = this;
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
    return isNew;
  }

  usePalette(root) {
    return (this.palette = usePalette(root, this.model.data.palettes));
  }

  // The cursor at a position, with what the drawing asks of it; at so many tiles per second.
  stateAt(position = this.timeline.position, rate = 0) {
    const { model, timeline } = this;
    const at = timeline.cursor(position);
    at.isDone = (step) => timeline.isDone(at, step);
    // with all programs at once: a step of the kernel that runs at this moment
    const latest = timeline.moments.start.findLastIndex((start) => start <= (at.time ?? -1));
    const standing = at.step >= 0 ? at.step : at.finished ? model.count - 1 : Math.max(0, latest);
    at.head = model.head[at.finished && timeline.order === "gpu" ? 0 : standing];
    at.kernel = model.kernel[standing];
    const end = at.finished && model.data.words && hasNumbers(model) && model.kernels[at.kernel].bars === "l";
    at.scan = timeline.order === "gpu" ? 0 : end && this.onPick ? 1 : scanOf(this.onPick ? rate : 3 * rate);
    at.melt = meltOf(rate);
    at.marks = this.onPick || this.pinned?.q === model.q[at.step]; // a talk follows one row, or none
    at.progress = at.step < 0 ? [] : progressOf(model, timeline, at, at.melt);
    return at;
  }

  // Returns the bytes so far, and the number of tiles in progress. `isOpen`: one is shown in its numbers.
  draw(at, isOpen = false) {
    return { active: this.drawStage(at, isOpen), bytes: bytesSoFar(this.timeline, at) };
  }

  drawStage(at, isOpen) {
    const { model, palette, timeline } = this;
    const { context, width, height, zoom } = fitCanvas(this.stage);
    const atOnce = timeline.order === "gpu";
    const heads = atOnce ? model.heads : [at.head];
    const isFar = atOnce || height < (width < NARROW ? ROOM.below : ROOM.beside);
    const isHbm = atOnce && model.data.ticks && heads.length === 1; // on a stage, HBM has it alone
    const aside = atOnce && model.data.sms && width >= NARROW && !isHbm ? width * SMS : 0;
    const whole = { x: 0, y: 0, w: width - aside, h: height };
    context.clearRect(0, 0, width, height);
    const { hbm, chip } = isFar ? { hbm: whole } : placesOf(width, height, isOpen, aboveOf(model), at.near);
    const layouts = headLayouts(hbm, model, heads, isHbm ? WIDER : 1);
    const far = () => drawFar(context, whole, { model, palette, at }, null, layouts[0]);
    if (at.took) return drawTook(context, whole, { palette, at });
    if (at.seen && !(at.lands > FADES)) return far();
    this.shown = { layouts, heads, zoom, chip, cellAt: null };
    const layoutOf = (step) => layouts[heads.indexOf(model.head[step])];
    const { steps, active } = this.doneAndActive(at);
    drawHbm(context, hbm, layouts, model, palette, at);
    if (at.stored >= 0 && chip) {
      this.drawAround(context, hbm, layouts, heads, at);
      if (!(at.lands < 1)) drawStored(context, { layout: layouts[0], hbm, chip, model, palette, at });
      if (!at.lands) return;
      fillBox(context, palette.background, whole, 1 - smooth(within(at.lands, FADES, 0.5)));
      return far();
    }
    const { start, end } = timeline.moments;
    const partOf = (step) => within(at.time, start[step], end[step]);
    const running = atOnce ? active.map((step) => [step, partOf(step)]) : [];
    drawMap(context, { layouts, layoutOf, model, palette, steps, running, at });
    this.drawAround(context, hbm, layouts, heads, at);
    const right = { x: whole.w + GAP, y: EDGE, w: aside - GAP - EDGE, h: height - 2 * EDGE };
    if (aside) drawSms(context, right, { model, palette, moments: timeline.moments, at });
    if (layouts.length === 1) nameMap(context, layouts[0], model, palette, at);
    const thin = layouts.length > 1 && Math.min(layouts[0].cellWidth, layouts[0].cellHeight) < 8;
    const frame = (step) => outline(context, cellBox(layoutOf(step), model, step), palette, thin ? 1 : 2.5);
    if (!at.finished) active.forEach(frame);
    if (layouts.length === 1) drawStores(context, { layout: layouts[0], ...this }, running);
    const layout = this.onPick && this.pinned && layouts[heads.indexOf(this.pinned.head)];
    if (layout) drawPinnedRow(context, layout, model, palette, this.pinned);
    if (chip && at.near > 0) fillBox(context, palette.background, hbm, 0.3 * smooth(at.near));
    if (chip) this.drawChip(context, chip, layouts[0], at, isOpen);
    if (at.asks) drawAsked(context, chip, { model, palette, at });
    return active.length;
  }

  drawChip(context, chip, layout, at, isOpen) {
    const { model, palette, reduced, pointed } = this;
    const own = model.kernels[at.kernel];
    const kernel = at.plain ? { ...own, series: [] } : own; // of m and l nothing is told yet
    const row = at.step < 0 ? 0 : toldRow(model, at.step, this.pinned);
    const benchWith = (only) => {
      if (!isOpen && isOfRows(model, kernel)) return rowsLayout(chip, model, at.step);
      if (!isOpen && isMerge(kernel))
        return partsLayout(chip, model, at.step < 0 ? model.count - 1 : at.step);
      return benchOf(chip, kernel, model, only, isOpen ? 3 : 1.5);
    };
    // of large tiles one row is known, or has room for its numbers: it opens alone
    const isAlone =
      isOpen && knowsRow(model, row) && (model.matrixRow !== null || !hasRoom(benchWith(null), model));
    const only = isAlone ? model.offsets[row] : null;
    const bench = benchWith(only);
    const lines = isOpen && pointed ? factorLines(model, at, pointed) : [];
    const fades = !this.onPick && bench.lines ? 0 : 0.75; // of a talk a merge stays
    const strong = Math.max(0, 1 - (model.data.words && this.onPick ? 2 : fades) * at.scan);
    const how = { model, palette, at, strong, row, only, isOpen, pointed: isOpen && pointed, lines };
    const V = drawBench(context, chip, bench, how);
    if (!isOpen && this.onPick) drawFar(context, chip, how, this.pinned); // a talk has a pale chip
    if (isOpen) this.shown.cellAt = (x, y) => cellAt(bench, model, only, x, y);
    const slots = V ? { ...bench.slots, V } : bench.slots;
    const places = { layout, bench: { ...bench, slots }, chip };
    if (at.scan < 0.5) drawFlights(context, { ...places, model, palette, at, reduced });
  }

  drawAround(context, hbm, layouts, heads, at) {
    const { model, palette } = this;
    const isAlone = layouts.length === 1;
    const more = isAlone && model.heads.length > 1 ? headName(model, heads[0]) : "GPU memory: large, slow";
    const place = isAlone ? { ...hbm, w: layouts[0].room } : hbm;
    if (isAlone || isInHbm(model, at)) namePlace(context, "HBM", more, place, palette);
    else if (showsKeys(model)) namePlace(context, "Keys", "read so far", hbm, palette);
    else namePlace(context, "Weights", "stored nowhere", hbm, palette);
    if (isAlone) {
      drawStrips(context, layouts[0], model, palette, at);
      drawDocuments(context, layouts[0], model, palette);
    } else nameHeads(context, layouts, heads, model, palette);
    layouts.forEach((layout) => drawParts(context, layout, model, palette));
  }

  doneAndActive(at) {
    const { model, timeline } = this;
    const atOnce = timeline.order === "gpu";
    const isSeen = (step) =>
      (atOnce || model.head[step] === at.head) &&
      (!model.data.each_kernel_anew || model.kernel[step] === at.kernel);
    const isBegun = (step) => at.started && timeline.moments.start[step] <= at.time && !at.isDone(step);
    const isActive = (step) => hasTile(model, step) && (atOnce ? isBegun(step) : step === at.step);
    const seen = range(model.count).filter(isSeen);
    return { steps: seen.filter(at.isDone), active: seen.filter(isActive) };
  }

  placeOf(event) {
    const bounds = this.stage.getBoundingClientRect();
    const { zoom } = this.shown;
    return [(event.clientX - bounds.left) / zoom, (event.clientY - bounds.top) / zoom];
  }

  // The number of an open tile under the pointer, {slot, row, column}; null if there is none.
  cellAt(event) {
    return this.shown?.cellAt?.(...this.placeOf(event)) ?? null;
  }

  // The tile under the pointer: its head, query tile, key tile and row; null beside the map.
  hit(event) {
    if (!this.shown) return null;
    const { layouts, heads } = this.shown;
    const tile = tileAt(...this.placeOf(event), layouts, this.model.data.problem.block_m);
    return tile && { ...tile, head: heads[tile.index] };
  }

  pick(event) {
    const { model, pinned } = this;
    const hit = this.onPick && this.hit(event);
    if (!hit) return;
    const row = rowOfHit(model, hit);
    const isPinned = pinned && Object.keys(row).every((name) => row[name] === pinned[name]);
    this.pinned = isPinned ? null : row;
    this.onPick(isPinned ? null : { ...hit, q: tileNumber(model, hit.q) });
  }

  // The picked row as head and number of the row, "2.195".
  pinnedText() {
    return `${this.pinned.head}.${rowNumber(this.model, this.pinned)}`;
  }

  // Pick the row of such words, or the drawn row above it; no row for anything else.
  pinText(words) {
    const [, head, number] = /^(\d+)\.(\d+)$/.exec(words ?? "")?.map(Number) ?? [];
    const { heads, tileNumbers, data } = this.model;
    const { block_m, rows } = data.problem;
    const q = tileNumbers.indexOf(Math.floor(number / block_m));
    const exists = heads.includes(head) && number < rows && q >= 0;
    this.pinned = exists ? { head, q, row: rowAbove(this.model, number % block_m) } : null;
  }

  describe(event) {
    const hit = this.hit(event);
    if (hit) return tileWords(this.model, hit, this.stateAt().kernel, Boolean(this.onPick));
    const { chip } = this.shown ?? {};
    const [x, y] = chip ? this.placeOf(event) : [];
    return chip && x > chip.x && y < chip.y + MEMORIES ? this.model.data.gpu.words : "";
  }
}

export function rowOfHit(model, { head, q, offset }) {
  return { head, q, row: Math.min(rowAbove(model, offset), rowCount(model, q) - 1) };
}
