// A tile of the grid in its numbers: the matrices of the step laid out as the products they are, filled phase
// by phase, with the sentence of the phase. Every number is one that the kernel wrote down.

import { element, write } from "../controls/dom.js";
import { tint, zoomOf } from "../grid/draw.js";
import { factorsOf, figureOf, knowsRow, matrixOf, softmaxState, standsIn, toldRow } from "../run/figure.js";
import { formatNumber, formatSteady } from "../run/formats.js";
import { rowNumber, tileNumber } from "../run/model.js";
import { Predict } from "./predict.js";
import { sentenceOf } from "../run/sentences.js";

const BASE_2 = "The code counts in base 2, exp2(x · log₂e) = eˣ. All numbers here are in base e.";
const HINT = "Point at a cell to see how it was made. ↑ and ↓ pick a row, Esc closes.";
const ROW_HINT =
  "Point at a cell for its number, or Tab to a strip and use ← and →. ↑ and ↓ pick a row, Esc closes.";
const TO_COME = "The kernel runs here once more, to write down the numbers of this row.";
const NOT_RECORDED =
  "This run was recorded without the numbers of its tiles, and it cannot be run again here. " +
  "A tile has them if it has at most 16 queries and 16 keys and its rows at most 64 numbers: " +
  "Tiny, under “Start from” in the app, has such tiles.";
const USE_EXPONENTIALS = new Set(["row max", "exponentials", "rescale", "weights from lse"]);
const LOW_ROOM = 130; // for the rows without numbers
const MOST_WITH_NUMBERS = 16; // columns of a row; with more the cells are too narrow
const TERMS = 6; // of a dot product that are written out

const number = (value) => formatSteady(value);

export class Microscope {
  // `owner` has close(), pick(row), togglePredict(), next() and runsRows.
  constructor(owner) {
    this.owner = owner;
    this.title = element("div", { class: "fa-head" });
    this.figure = element("div", { class: "fa-figure" });
    this.missing = element("div", { class: "fa-missing", role: "status" });
    this.legend = legend();
    this.state = element("div", { class: "fa-state" });
    this.sentence = element("div", { class: "fa-sentence", "aria-live": "polite" });
    this.about = element("span");
    this.said = element("span", { role: "status" }); // what the keys point at is said aloud too
    this.hint = element("div", { class: "fa-hint" }, [this.about, this.said]);
    this.predict = new Predict(owner);
    const close = { type: "button", title: "back to the grid (z or Esc)", onclick: () => owner.close() };
    this.ask = element(
      "button",
      { type: "button", title: "hide m, l and α of the next step (p)", onclick: () => owner.togglePredict() },
      ["Predict"],
    );
    this.node = element("div", { class: "fa-micro", role: "group", "aria-label": "numbers of the tile" }, [
      element("div", { class: "fa-micro-title" }, [
        this.title,
        element("span", { class: "fa-group" }, [this.ask, element("button", close, ["Back to the grid"])]),
      ]),
      this.figure,
      this.missing,
      this.legend,
      this.state,
      this.sentence,
      this.predict.node,
      this.hint,
    ]);
    this.boxes = new Map(); // of each slot: {node, label, cells, placeOf, hasRoom}, and of a row its strip
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
    const keys = model.kv[at.step] < 0 ? "" : `, key tile ${model.kv[at.step]}`;
    const isOfRow = model.matrixRow !== null;
    const isKnown = knowsRow(model, row);
    this.figure.hidden = !isKnown;
    this.missing.hidden = isKnown;
    this.legend.hidden = !isKnown;
    this.legend.classList.toggle("fa-of-row", isOfRow);
    write(this.missing, isKnown ? "" : `Row ${name}: ${this.owner.runsRows ? TO_COME : NOT_RECORDED}`);
    const isNew = isKnown && this.build(model, figure, isOfRow);
    const place = [model.data.id, at.step, at.phase?.name, at.complete];
    const state = [...place, row, predicting, palette.background].join("|");
    if (!isNew && state === this.drawn) return; // a frame of playback between two phases
    this.drawn = state;
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
    this.state.textContent = predicting ? "" : stateWords(model, at, row);
    const hint = isOfRow ? ROW_HINT : HINT;
    write(this.about, USE_EXPONENTIALS.has(at.phase?.tells) ? `${BASE_2} ${hint}` : hint);
    this.say("");
    this.hint.hidden = !isKnown;
    this.predict.show(predicting ? { model, step: at.step, row, name } : null);
  }

  // The boxes of a kernel's slots, or of those that one row has; new ones for another kernel, run or width.
  // Returns whether.
  build(model, figure, isOfRow) {
    const { block_m: rows, block_n: keys, head_dim: width } = model.data.problem;
    const sizes = { q_tile: rows, kv_tile: keys, head_dim: width, one: 1 };
    const cell = isOfRow ? {} : cellSizes(this.node.clientWidth / zoomOf(this.node), figure, sizes);
    const key = `${isOfRow} ${cell.thin} ${cell.wide}`;
    if (this.built === figure && this.builtFor === model && this.builtAs === key) return false;
    Object.assign(this, { built: figure, builtFor: model, builtAs: key, cell, pointed: null });
    const slots = figure.slots.filter((slot) => !isOfRow || slot.rows === "q_tile");
    const boxOf = (slot) => (isOfRow ? this.strip(slot, sizes[slot.columns]) : this.box(slot, sizes));
    this.boxes = new Map(slots.map((slot) => [slot.name, boxOf(slot)]));
    this.figure.classList.toggle("fa-strips", isOfRow);
    this.figure.replaceChildren(...[...this.boxes.values()].map(({ node }) => node));
    return true;
  }

  // A matrix, cell by cell. A transposed one is drawn with its columns as rows.
  box(slot, sizes) {
    const [along, across] = slot.transposed ? [slot.columns, slot.rows] : [slot.rows, slot.columns];
    const [rows, columns] = [sizes[along], sizes[across]];
    const [wide, tall] = [across !== "head_dim", along === "q_tile"];
    const placeOf = (i) => {
      const [r, c] = [Math.floor(i / columns), i % columns];
      return slot.transposed ? [c, r] : [r, c];
    };
    const cells = this.cells(slot, rows * columns, placeOf);
    if (slot.rows === "q_tile") {
      const pick = (i) => this.owner.pick(this.model.offsets.indexOf(placeOf(i)[0]));
      cells.forEach((cell, i) => cell.addEventListener("click", () => pick(i)));
    }
    const [cellWidth, cellHeight] = [wide ? this.cell.wide : this.cell.thin, tall ? 20 : this.lowCell(rows)];
    const style =
      `--fa-cell-h: ${zoomed(cellHeight)}; --fa-cell-font: ${zoomed(cellWidth < 40 ? 10 : 12)}; ` +
      `grid-template-columns: repeat(${columns}, ${zoomed(cellWidth)}); ` +
      `grid-auto-rows: ${zoomed(cellHeight)};`;
    const label = element("div", { class: "fa-matrix-label" }, [slot.name]);
    const matrix = element("div", { class: "fa-matrix", style }, cells);
    const place = `grid-row: ${slot.row + 1}; grid-column: ${slot.column + 1};`;
    const node = element("div", { class: "fa-slot", style: place }, [label, matrix]);
    return { node, label, cells, placeOf, hasRoom: wide && tall && cellWidth >= 26 };
  }

  // One row of a matrix of a large tile. The arrow keys go through its cells while it has the focus.
  strip(slot, columns) {
    const placeOf = (i) => [this.offset, i];
    const cells = this.cells(slot, columns, placeOf);
    const style = `grid-template-columns: repeat(${columns}, minmax(0, 1fr));`;
    const row = element("div", { class: "fa-strip", style, tabindex: "0", role: "group" }, cells);
    const label = element("div", { class: "fa-matrix-label" });
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
    const node = element("div", {}, [label, row]);
    return { node, label, cells, placeOf, row, hasRoom: columns <= MOST_WITH_NUMBERS };
  }

  // `placeOf` gives the row and the column of the matrix that a cell shows.
  cells(slot, count, placeOf) {
    return Array.from({ length: count }, (_, i) => {
      const cell = element("span", { class: "fa-cell" });
      cell.addEventListener("mouseenter", () => this.explain(slot, ...placeOf(i)));
      cell.addEventListener("mouseleave", () => this.explain(null));
      return cell;
    });
  }

  // Height of a row without numbers. All matrices that lie below each other share the room for them.
  lowCell(rows) {
    const stacked = this.built.slots.filter(
      ({ transposed, rows: along, columns }) => (transposed ? columns : along) === "head_dim",
    );
    const count = new Set(stacked.map(({ row }) => row)).size;
    return Math.max(3, Math.min(12, Math.floor(LOW_ROOM / Math.max(1, count) / rows)));
  }

  fill(palette, slot, matrix) {
    const { node, label, row: strip, cells, placeOf, hasRoom } = this.boxes.get(slot.name);
    label.textContent = matrix?.label ?? slot.name;
    strip?.setAttribute("aria-label", label.textContent);
    node.classList.toggle("fa-fresh", Boolean(matrix?.fresh));
    const values = cells.map((_, i) => {
      const [row, column] = placeOf(i);
      return matrix && row < matrix.rows && column < matrix.columns ? matrix.at(row, column) : NaN;
    });
    const finite = values.filter(Number.isFinite);
    const largest = finite.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9);
    const marked = strip && matrix?.scaled && finite.length ? values.indexOf(Math.max(...finite)) : -1;
    cells.forEach((cell, i) => {
      const value = values[i];
      const hidden = value === -Infinity;
      cell.classList.toggle("fa-told", !strip && slot.rows === "q_tile" && placeOf(i)[0] === this.offset);
      cell.classList.toggle("fa-hidden", hidden);
      cell.classList.toggle("fa-empty", Number.isNaN(value));
      cell.classList.toggle("fa-negative", !strip && !hasRoom && value < 0 && !hidden);
      cell.classList.toggle("fa-marked", i === marked);
      cell.classList.remove("fa-factor");
      cell.style.background = Number.isFinite(value) ? tint(palette, value / largest) : "";
      cell.textContent = hasRoom && !Number.isNaN(value) ? formatNumber(value, 2) : "";
    });
  }

  // Light the factors of a cell, or the cell of a row itself, and say how it was made.
  explain(slot, row, column) {
    for (const { cells } of this.boxes.values()) cells.forEach((cell) => cell.classList.remove("fa-factor"));
    this.pointed = null;
    const matrix = slot && this.shown[slot.name];
    const isOfRow = Boolean(slot && this.boxes.get(slot.name).row);
    if (!matrix || row >= matrix.rows || column >= matrix.columns) {
      this.say("");
      return;
    }
    this.pointed = { slot, column };
    const value = matrix.at(row, column);
    if (isOfRow) {
      this.boxes.get(slot.name).cells[column].classList.add("fa-factor");
      const first = Math.max(this.model.kv[this.at.step], 0) * this.model.data.problem.block_n;
      const where = slot.columns === "kv_tile" ? `key ${first + column}` : `column ${column}`;
      this.say(Number.isNaN(value) ? "" : `${matrix.label}, ${where}: ${number(value)}`);
      return;
    }
    const phases = this.model.phases[this.at.step];
    const reached = new Set(phases.slice(0, phases.indexOf(this.at.phase) + 1).map(({ name }) => name));
    const product = this.built.products.find((each) => each.result === slot.name && reached.has(each.phase));
    const isProduct = product && matrix.phase === product.phase;
    const factors = isProduct ? factorsOf(product, this.shown, row, column) : null;
    if (factors) {
      this.light(product.first, product.first_by, row);
      this.light(product.second, product.second_by, column);
    }
    const words = cellWords(matrix, value, factors, this.model.data.problem.scale);
    this.say(words + this.partWords(matrix, row, column));
  }

  // Words about the cell that the reader points at, in place of the hint; "" brings that back.
  say(words) {
    write(this.said, words);
    this.about.hidden = words !== "";
  }

  // ", from score −0.602 and lse 4.10": what an element was made of.
  partWords({ madeOf }, row, column) {
    const parts = madeOf.flatMap((name) => {
      const named = this.built.matrices.find((each) => each.name === name);
      const part = matrixOf(this.model, this.built, named, this.at.step);
      return part
        ? [`${named.scaled ? "score" : name} ${number(part.at(row, part.columns === 1 ? 0 : column))}`]
        : [];
    });
    return parts.length ? `, from ${parts.join(", ")}` : "";
  }

  light(name, by, index) {
    const { cells, placeOf } = this.boxes.get(name);
    cells.forEach((cell, i) =>
      cell.classList.toggle("fa-factor", placeOf(i)[by === "row" ? 0 : 1] === index),
    );
  }
}

// What the colours and the patterns of the cells mean. In the grid the patterns mean the same.
function legend() {
  const patterns = [
    ["fa-empty", "not there yet"],
    ["fa-hidden", "hidden by the mask"],
    ["fa-swatch-positive", "positive"],
    ["fa-swatch-negative fa-negative", "negative"],
  ];
  const entries = patterns.map(([name, words]) =>
    element("span", {}, [element("i", { class: `fa-swatch ${name}` }), words]),
  );
  return element("div", { class: "fa-legend" }, entries);
}

const zoomed = (size) => `calc(${size}px * var(--fa-zoom, 1))`;

// Widths in pixels of a cell with a number in it (wide) and of one that is only coloured (thin), so that the
// figure fits into `room` if it can.
function cellSizes(room, { slots }, sizes) {
  const inColumn = new Map();
  for (const slot of slots) {
    const across = slot.transposed ? slot.rows : slot.columns;
    const known = inColumn.get(slot.column) ?? { thin: 0, wide: 0 };
    const kind = across === "head_dim" ? "thin" : "wide";
    known[kind] = Math.max(known[kind], sizes[across]);
    inColumn.set(slot.column, known);
  }
  const columns = [...inColumn.values()];
  const thinCount = columns.reduce((sum, { thin }) => sum + thin, 0);
  const wideCount = columns.reduce((sum, { thin, wide }) => sum + (thin ? 0 : wide), 0) || 1;
  const free = room - 16 * columns.length;
  const thin = Math.max(2, Math.min(12, Math.floor((0.42 * free) / Math.max(thinCount, 1))));
  return { thin, wide: Math.max(16, Math.min(66, Math.floor((free - thin * thinCount) / wideCount))) };
}

// "row 5: m −∞ → 1.12, α 0, l 0 → 1.73": what is known by now.
function stateWords(model, at, row) {
  const state = softmaxState(model, at.step, row);
  if (!state) return "";
  const phases = model.phases[at.step];
  const now = at.complete ? phases.length : phases.indexOf(at.phase);
  const isKnown = (tells) => now >= phases.findIndex((phase) => phase.tells.startsWith(tells));
  const name = rowNumber(model, { q: model.q[at.step], row });
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
