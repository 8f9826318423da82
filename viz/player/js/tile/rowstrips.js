// One row of a tile that is too large to be shown whole: a strip of cells per matrix. What matters of a
// strip, its largest score or its sum, stands in words above it; any cell says its number under the pointer
// and under the keys.

import { element } from "../controls/dom.js";
import { tint } from "../grid/draw.js";
import { rowOf, standsIn } from "../run/figure.js";
import { formatNumber, formatSteady } from "../run/formats.js";

const MOST_WITH_NUMBERS = 16; // columns; with more the cells are too narrow for a number each

export class RowStrips {
  // `say` is called with the words of the cell that the reader points at, or with "" once it is none.
  constructor(say) {
    this.say = say;
    this.node = element("div", { class: "fa-strips" });
    this.strips = [];
  }

  draw(model, palette, figure, at, offset) {
    this.build(model, figure);
    for (const strip of this.strips) {
      const matrix = standsIn(model, figure, strip.slot, at);
      strip.matrix = matrix;
      strip.first =
        strip.slot.columns === "kv_tile" ? Math.max(model.kv[at.step], 0) * model.data.problem.block_n : 0;
      this.fill(palette, strip, matrix ? rowOf(matrix, offset) : []);
    }
  }

  build(model, figure) {
    if (this.builtFor === model && this.built === figure) return;
    Object.assign(this, { builtFor: model, built: figure });
    const { block_n: keys, head_dim: width } = model.data.problem;
    const sizes = { kv_tile: keys, head_dim: width, one: 1 };
    const slots = figure.slots.filter(({ rows }) => rows === "q_tile");
    this.strips = slots.map((slot) => this.strip(slot, sizes[slot.columns]));
    this.node.replaceChildren(...this.strips.map(({ node }) => node));
  }

  strip(slot, columns) {
    const label = element("div", { class: "fa-matrix-label" });
    const cells = Array.from({ length: columns }, (_, column) => {
      const cell = element("span", { class: "fa-cell" });
      cell.addEventListener("mouseenter", () => this.inspect(strip, column));
      return cell;
    });
    const style = `grid-template-columns: repeat(${columns}, minmax(0, 1fr));`;
    const row = element("div", { class: "fa-strip", style, tabindex: "0", role: "group" }, cells);
    row.addEventListener("mouseleave", () => this.inspect(null));
    row.addEventListener("focus", () => this.inspect(strip, Math.max(0, strip.marked)));
    row.addEventListener("blur", () => this.inspect(null));
    row.addEventListener("keydown", (event) => this.move(event, strip));
    const strip = {
      slot,
      cells,
      label,
      row,
      marked: -1,
      node: element("div", { class: "fa-strip-slot" }, [label, row]),
    };
    return strip;
  }

  // The arrow keys go through the cells of the strip that has the focus.
  move(event, strip) {
    const last = strip.values.length - 1;
    const now = this.pointed?.strip === strip ? this.pointed.column : 0;
    const to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.inspect(strip, Math.max(0, Math.min(last, to)));
  }

  fill(palette, strip, values) {
    const { matrix, cells } = strip;
    strip.values = values;
    const finite = values.filter(Number.isFinite);
    const largest = Math.max(1e-9, ...finite.map(Math.abs));
    strip.marked = matrix?.scaled && finite.length ? values.indexOf(Math.max(...finite)) : -1;
    strip.label.textContent = [matrix?.label ?? strip.slot.name, this.essence(strip)]
      .filter(Boolean)
      .join(": ");
    strip.row.setAttribute("aria-label", strip.label.textContent);
    strip.node.classList.toggle("fa-fresh", Boolean(matrix?.fresh));
    cells.forEach((cell, column) => {
      const value = column < values.length ? values[column] : NaN;
      cell.classList.toggle("fa-hidden", value === -Infinity);
      cell.classList.toggle("fa-empty", Number.isNaN(value));
      cell.classList.toggle("fa-marked", column === strip.marked);
      cell.style.background = Number.isFinite(value) ? tint(palette, value / largest) : "";
      const isShown = cells.length <= MOST_WITH_NUMBERS && !Number.isNaN(value);
      cell.textContent = isShown ? formatNumber(value, 2) : "";
    });
  }

  // The largest of scores, and how many the mask hides; the sum of the weights.
  essence({ values, matrix, marked, first, cells }) {
    if (!matrix || values.every(Number.isNaN)) return "";
    if (cells.length === 1) return formatSteady(values[0]);
    const hidden = values.filter((value) => value === -Infinity).length;
    const masked = hidden ? `${hidden} of ${values.length} hidden by the mask` : "";
    const largest =
      marked < 0 ? "" : `the largest is ${formatSteady(values[marked])}, with key ${first + marked}`;
    const isWeights = matrix.name === "P";
    const sum = isWeights
      ? `they add up to ${formatSteady(values.reduce((total, value) => total + value, 0))}`
      : "";
    return [largest, masked, sum].filter(Boolean).join("; ");
  }

  inspect(strip, column) {
    this.pointed?.strip.cells[this.pointed.column].classList.remove("fa-factor");
    this.pointed = null;
    const value = strip ? strip.values[column] : NaN;
    if (Number.isNaN(value) || value === undefined) {
      this.say("");
      return;
    }
    this.pointed = { strip, column };
    strip.cells[column].classList.add("fa-factor");
    const where = strip.slot.columns === "kv_tile" ? `key ${strip.first + column}` : `column ${column}`;
    this.say(`${strip.matrix.label}, ${where}: ${formatSteady(value)}`);
  }
}
