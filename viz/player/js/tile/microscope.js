// A tile of the grid in its numbers: the matrices of the step laid out as the products they are, filled phase
// by phase, with the sentence of the phase. Every number is one that the kernel wrote down.

import { button, element, swatch, write } from "../controls/dom.js";
import { tint, zoomOf } from "../grid/draw.js";
import { factorsOf, figureOf, knowsRow, matrixOf, softmaxState, standsIn, toldRow } from "../run/figure.js";
import { formatNumber, formatSteady } from "../run/formats.js";
import { range, rowNumber, tileNumber } from "../run/model.js";
import { Predict } from "./predict.js";
import { sentenceOf } from "../run/sentences.js";

const BASE_2 = "The code counts in base 2, exp2(x · log₂e) = eˣ. All numbers here are in base e.";
const HINT = `${BASE_2} Point at a cell to see how it was made. ↑ and ↓ pick a row, Esc closes.`;
const ROW_HINT =
  `${BASE_2} Point at a cell for its number, or Tab to a strip and use ← and →. ` +
  "↑ and ↓ pick a row, Esc closes.";
const TO_COME = "The kernel runs here once more, to write down the numbers of this row.";
const NOT_RECORDED =
  "This run was recorded without the numbers of its tiles, and it cannot be run again here. " +
  "Tiles of at most 16 queries and 16 keys have them, as in Tiny, under “Start from” in the app.";
const LOW_ROOM = 130; // for the rows without numbers
const MOST_WITH_NUMBERS = 16; // columns of a row; with more the cells are too narrow
const TERMS = 6; // of a dot product that are written out

const number = formatSteady;

export class Microscope {
  // `owner` has close(), pick(row), togglePredict(), next() and runsRows.
  constructor(owner) {
    this.owner = owner;
    this.title = element("div", { class: "fa-head" });
    this.figure = element("div", { class: "fa-figure" });
    this.missing = element("div", { class: "fa-panel fa-missing", role: "status" });
    // in the grid the patterns mean the same
    this.legend = element("div", { class: "fa-legend" }, [
      swatch("fa-crossed", "hidden by the mask"),
      swatch("fa-swatch-positive", "positive"),
      swatch("fa-swatch-negative fa-negative", "negative"),
    ]);
    this.state = element("div", { class: "fa-state" });
    this.sentence = element("div", { class: "fa-sentence", "aria-live": "polite" });
    this.about = element("span");
    this.said = element("span", { role: "status" }); // what the keys point at is said aloud too
    this.hint = element("div", { class: "fa-hint" }, [this.about, this.said]);
    this.predict = new Predict(owner);
    this.ask = button("Predict", "hide m, l and α of the next step (p)", () => owner.togglePredict());
    const close = button("Back to the grid", "back to the grid (z or Esc)", () => owner.close());
    this.node = element("div", { class: "fa-micro", role: "group", "aria-label": "numbers of the tile" }, [
      element("div", { class: "fa-micro-title" }, [
        this.title,
        element("span", { class: "fa-group" }, [this.ask, close]),
      ]),
      this.figure,
      this.missing,
      this.legend,
      this.state,
      this.sentence,
      this.predict.node,
      this.hint,
    ]);
    this.boxes = new Map(); // of each slot: {node, label, matrix, cells, placeOf, hasRoom}
    this.pointed = null; // {slot, column} of the cell that the reader points at
  }

  // Whether a step has a figure, with or without its numbers.
  static shows(model, at) {
    return at.step >= 0 && figureOf(model, at.step) !== null;
  }

  draw(model, palette, at, pinned, predicting) {
    const figure = figureOf(model, at.step);
    const row = toldRow(model, at.step, pinned);
    this.offset = model.offsets[row];
    const name = rowNumber(model, { q: model.q[at.step], row });
    const isKnown = knowsRow(model, row);
    [this.figure, this.legend, this.hint].forEach((node) => (node.hidden = !isKnown));
    this.missing.hidden = isKnown;
    write(this.missing, isKnown ? "" : `Row ${name}: ${this.owner.runsRows ? TO_COME : NOT_RECORDED}`);
    const isNew = isKnown && this.build(model, figure);
    const state = [model, palette, at.step, at.phase, at.complete, row, predicting];
    if (!isNew && state.every((each, i) => each === this.drawn?.[i])) return; // between two phases
    this.drawn = state;
    const keys = model.kv[at.step] < 0 ? "" : `, key tile ${model.kv[at.step]}`;
    const tile = tileNumber(model, model.q[at.step]);
    this.title.textContent = `Query tile ${tile}${keys}, explained for row ${name}`;
    this.ask.hidden = !isKnown || !softmaxState(model, at.step, row);
    this.ask.setAttribute("aria-pressed", String(predicting));
    Object.assign(this, { model, at, shown: {} });
    for (const slot of isKnown ? figure.slots : []) {
      this.shown[slot.name] = standsIn(model, figure, slot, at);
      if (this.boxes.has(slot.name)) this.fill(palette, slot, this.shown[slot.name]);
    }
    this.sentence.textContent = predicting ? "" : sentenceOf(model, at, row);
    this.state.textContent = predicting ? "" : stateWords(model, at, row, name);
    write(this.about, this.isOfRow ? ROW_HINT : HINT);
    this.say("");
    this.predict.show(predicting ? { model, step: at.step, row, name } : null);
  }

  // The boxes of a kernel's slots, or of those that one row has; new ones for another kernel, run or width.
  // Returns whether.
  build(model, figure) {
    const isOfRow = model.matrixRow !== null;
    const { block_m: rows, block_n: keys, head_dim: width } = model.data.problem;
    const sizes = { q_tile: rows, kv_tile: keys, head_dim: width, one: 1 };
    const cell = isOfRow ? {} : cellSizes(this.node.clientWidth / zoomOf(this.node), figure, sizes);
    const key = [figure, model, cell.thin, cell.wide];
    if (key.every((each, i) => each === this.key?.[i])) return false;
    Object.assign(this, { key, built: figure, isOfRow, pointed: null });
    const slots = figure.slots.filter((slot) => !isOfRow || slot.rows === "q_tile");
    this.boxes = new Map(slots.map((slot) => [slot.name, this.box(slot, sizes, cell)]));
    this.figure.classList.toggle("fa-strips", isOfRow);
    this.legend.classList.toggle("fa-of-row", isOfRow);
    this.figure.replaceChildren(...this.boxes.values().map(({ node }) => node));
    return true;
  }

  // A matrix, cell by cell, or of a large tile one row of it. A transposed one has its columns as rows.
  box(slot, sizes, cell) {
    const { isOfRow } = this;
    const [along, across] = isOfRow ? ["one", slot.columns] : sidesOf(slot);
    const [rows, columns] = [sizes[along], sizes[across]];
    const placeOf = (i) => {
      const place = [isOfRow ? this.offset : Math.floor(i / columns), i % columns];
      return slot.transposed && !isOfRow ? place.toReversed() : place;
    };
    const cells = range(rows * columns).map(() => element("span", { class: "fa-cell" }));
    const [isWide, isTall] = [across !== "head_dim", along === "q_tile"];
    const [w, h] = [isWide ? cell.wide : cell.thin, isTall ? 20 : lowCell(this.built, rows)];
    const label = element("div", { class: "fa-matrix-label" });
    const matrix = element("div", { class: isOfRow ? "fa-matrix fa-strip" : "fa-matrix" }, cells);
    matrix.style.setProperty("--fa-columns", columns);
    for (const [name, size] of Object.entries(isOfRow ? {} : { w, h, font: w < 40 ? 10 : 12 })) {
      matrix.style.setProperty(`--fa-cell-${name}`, `calc(${size}px * var(--fa-zoom, 1))`);
    }
    this.takePointer(slot, matrix, (node) => placeOf(cells.indexOf(node)));
    if (isOfRow) this.takeKeys(slot, matrix);
    const node = element("div", { class: "fa-slot" }, [label, matrix]);
    if (!isOfRow) node.style.gridArea = `${slot.row + 1} / ${slot.column + 1}`;
    const hasRoom = isOfRow ? columns <= MOST_WITH_NUMBERS : isWide && isTall && w >= 26;
    return { node, label, matrix, cells, placeOf, hasRoom };
  }

  // The arrow keys go through the cells of a row while it has the focus.
  takeKeys(slot, row) {
    Object.assign(row, { tabIndex: 0, role: "group" });
    row.addEventListener("focus", () => this.explain(slot, this.offset, 0));
    row.addEventListener("blur", () => this.explain(null));
    row.addEventListener("keydown", (event) => {
      const now = this.pointed?.slot === slot ? this.pointed.column : 0;
      const last = (this.shown[slot.name]?.columns ?? 1) - 1;
      const to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: last }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      this.explain(slot, this.offset, Math.max(0, Math.min(last, to)));
    });
  }

  // `placeOf` gives the row and the column of the matrix that a cell shows.
  takePointer(slot, matrix, placeOf) {
    const isCell = ({ target }) => target !== matrix; // else it is the border
    matrix.addEventListener(
      "mouseover",
      (event) => isCell(event) && this.explain(slot, ...placeOf(event.target)),
    );
    matrix.addEventListener("mouseleave", () => this.explain(null));
    if (slot.rows !== "q_tile") return;
    const pick = ({ target }) => this.owner.pick(this.model.offsets.indexOf(placeOf(target)[0]));
    matrix.addEventListener("click", (event) => isCell(event) && pick(event));
  }

  fill(palette, slot, matrix) {
    const { node, label, matrix: drawn, cells, placeOf, hasRoom } = this.boxes.get(slot.name);
    const { isOfRow } = this;
    label.textContent = matrix?.label ?? slot.name;
    if (isOfRow) drawn.setAttribute("aria-label", label.textContent);
    node.classList.toggle("fa-fresh", Boolean(matrix?.fresh));
    const values = cells.map((_, i) => {
      const [row, column] = placeOf(i);
      return matrix && row < matrix.rows && column < matrix.columns ? matrix.at(row, column) : NaN;
    });
    const finite = values.filter(Number.isFinite);
    const largest = finite.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9);
    const marked = isOfRow && matrix?.scaled && finite.length ? values.indexOf(Math.max(...finite)) : -1;
    cells.forEach((cell, i) => {
      const value = values[i];
      const looks = {
        "fa-told": !isOfRow && slot.rows === "q_tile" && placeOf(i)[0] === this.offset,
        "fa-crossed": value === -Infinity,
        "fa-empty": Number.isNaN(value),
        "fa-negative": !isOfRow && !hasRoom && value < 0 && Number.isFinite(value),
        "fa-marked": i === marked,
      };
      for (const [name, is] of Object.entries(looks)) cell.classList.toggle(name, is);
      cell.style.backgroundColor = Number.isFinite(value) ? tint(palette, value / largest) : "";
      cell.textContent = hasRoom && !Number.isNaN(value) ? formatNumber(value, 2) : "";
    });
  }

  // Light the factors of a cell, or the cell of a row itself, and say how it was made.
  explain(slot, row, column) {
    for (const { cells } of this.boxes.values()) cells.forEach((cell) => cell.classList.remove("fa-factor"));
    this.pointed = null;
    const matrix = slot && this.shown[slot.name];
    if (!matrix || row >= matrix.rows || column >= matrix.columns) {
      this.say("");
      return;
    }
    this.pointed = { slot, column };
    this.say(this.isOfRow ? this.cellOfRow(slot, matrix, column) : this.cellOfTile(matrix, row, column));
  }

  cellOfRow(slot, matrix, column) {
    this.boxes.get(slot.name).cells[column].classList.add("fa-factor");
    const value = matrix.at(this.offset, column);
    const first = Math.max(this.model.kv[this.at.step], 0) * this.model.data.problem.block_n;
    const where = slot.columns === "kv_tile" ? `key ${first + column}` : `column ${column}`;
    return Number.isNaN(value) ? "" : `${matrix.label}, ${where}: ${number(value)}`;
  }

  // Of a product also its terms, of another matrix the numbers that it was made of.
  cellOfTile(matrix, row, column) {
    const isOf = ({ result, phase }) => result === matrix.slot && phase === matrix.phase;
    const product = matrix.isOfStepBefore ? null : this.built.products.find(isOf);
    const factors = product && factorsOf(product, this.shown, row, column);
    if (factors) {
      this.light(product.first, product.first_by, row);
      this.light(product.second, product.second_by, column);
    }
    const { scale } = this.model.data.problem;
    return cellWords(matrix, matrix.at(row, column), factors, scale) + this.partWords(matrix, row, column);
  }

  // Words about the cell that the reader points at, in place of the hint; "" brings that back.
  say(words) {
    write(this.said, words);
    this.about.hidden = words !== "";
  }

  // ", from score −0.602 and lse 4.10": what an element was made of.
  partWords({ made_of: names }, row, column) {
    const parts = names.flatMap((name) => {
      const named = this.built.matrices.find((each) => each.name === name);
      const part = matrixOf(this.model, this.built, named, this.at.step);
      if (!part) return [];
      return [`${named.scaled ? "score" : name} ${number(part.at(row, part.columns === 1 ? 0 : column))}`];
    });
    return parts.length ? `, from ${parts.join(", ")}` : "";
  }

  light(name, by, index) {
    const { cells, placeOf } = this.boxes.get(name);
    const isFactor = (i) => placeOf(i)[by === "row" ? 0 : 1] === index;
    cells.forEach((cell, i) => cell.classList.toggle("fa-factor", isFactor(i)));
  }
}

// What a slot's rows and columns count, as they are drawn.
const sidesOf = ({ transposed, rows, columns }) => (transposed ? [columns, rows] : [rows, columns]);

// Widths in pixels of a cell with a number in it (wide) and of one that is only coloured (thin), so that the
// figure fits into `room` if it can.
function cellSizes(room, { slots }, sizes) {
  const columns = Object.values(Object.groupBy(slots, ({ column }) => column)).map((stacked) => {
    const sides = stacked.map((slot) => sidesOf(slot)[1]);
    return sides.includes("head_dim")
      ? [sizes.head_dim, 0]
      : [0, Math.max(...sides.map((side) => sizes[side]))];
  });
  const [thins, wides] = [0, 1].map((kind) => columns.reduce((sum, counts) => sum + counts[kind], 0));
  const free = room - 16 * columns.length;
  const thin = Math.max(2, Math.min(12, Math.floor((0.42 * free) / Math.max(thins, 1))));
  return { thin, wide: Math.max(16, Math.min(66, Math.floor((free - thin * thins) / Math.max(wides, 1)))) };
}

// Height of a row without numbers. All matrices that lie below each other share the room for them.
function lowCell({ slots }, rows) {
  const stacked = slots.filter((slot) => sidesOf(slot)[0] === "head_dim").map(({ row }) => row);
  return Math.max(3, Math.min(12, Math.floor(LOW_ROOM / Math.max(1, new Set(stacked).size) / rows)));
}

// "row 5: m −∞ → 1.12, α 0, l 0 → 1.73": what is known by now.
function stateWords(model, at, row, name) {
  const state = softmaxState(model, at.step, row);
  if (!state) return "";
  const phases = model.phases[at.step];
  const now = at.complete ? phases.length : phases.indexOf(at.phase);
  const isKnown = (tells) => now >= phases.findIndex((phase) => phase.tells.startsWith(tells));
  const m = isKnown("row max") ? `${number(state.oldM)} → ${number(state.m)}` : number(state.oldM);
  const known = isKnown("rescale");
  const l = known ? `${number(state.oldL)} → ${number(state.l)}` : number(state.oldL);
  return `row ${name}:  max m ${m}   rescale factor α ${known ? number(state.alpha) : "?"}   sum l ${l}`;
}

function cellWords(matrix, value, factors, scale) {
  const result = `${matrix.label}: ${number(value)}`;
  if (!factors || value === -Infinity) return result;
  const [first, second] = factors;
  const terms = first.slice(0, TERMS).map((each, i) => `${number(each)} × ${number(second[i])}`);
  const rest = first.length > TERMS ? ` + … (${first.length} terms)` : "";
  const dot = first.reduce((sum, each, i) => sum + each * second[i], 0);
  const sum = `${terms.join(" + ")}${rest} = ${number(dot)}`;
  const isScaled = Math.abs(dot * scale - value) < 1e-3 * Math.max(1, Math.abs(value));
  if (isScaled && scale !== 1) return `${result} = ${number(scale)} × (${sum})`;
  return Math.abs(dot - value) < 1e-2 * Math.max(1, Math.abs(value))
    ? `${result} = ${sum}`
    : `${result}; this tile adds ${sum}`;
}
