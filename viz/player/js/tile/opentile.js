// A tile in its numbers: which row is told, how the number pointed at was made.

import { button, element, write } from "../controls/dom.js";
import { cellWords, shownIn } from "../run/cell.js";
import { figureOf, knowsRow, stepToOpen, toldRow } from "../run/figure.js";
import { rowOfHit } from "../grid/pane.js";
import { rowCount, rowNumber, stepsAbout, tileNumber } from "../run/model.js";
import { stateWords } from "../run/sentences.js";

const NO_TILE = "This run has no numbers of its tiles.";
const HINT = "Point at a number to see how it was made. The code computes 2^x, these numbers are of e^x.";
const TO_COME = "The kernel runs here once more, to write down the numbers of this row.";
const NOT_RECORDED = "It was not recorded in its numbers, and this run cannot be run again here.";

export class OpenTile {
  constructor(player) {
    this.player = player;
    this.pane = player.pane;
    this.isOpen = false; // whether a tile is shown in its numbers
    this.chosen = ""; // the row that was picked here and not by the reader, in words
    this.runsRows = false; // whether whoever shows the player runs the kernel again for the numbers of a row
    this.title = element("div", { class: "fa-head" });
    this.missing = element("div", { class: "fa-panel fa-missing", role: "status" });
    this.state = element("div", { class: "fa-state" });
    this.about = element("span", {}, [HINT]);
    this.said = element("span", { role: "status" }); // what is pointed at is said aloud too
    this.hint = element("div", { class: "fa-hint" }, [this.about, this.said]);
    const close = button("Back to the grid", "back to the grid (z or Esc)", () => this.close());
    const head = element("div", { class: "fa-micro-title" }, [this.title, close]);
    const numbers = { class: "fa-micro", role: "group", "aria-label": "numbers of the tile" };
    this.node = element("div", numbers, [head, this.missing, this.state, this.hint]);
    const { stage } = this.pane;
    stage.addEventListener("mousemove", (event) => this.isShown && this.point(this.pane.cellAt(event)));
    stage.addEventListener("mouseleave", () => this.point(null));
    stage.addEventListener("click", (event) => this.pickAt(this.pane.cellAt(event)));
    stage.addEventListener("dblclick", (event) => this.openAt(this.pane.hit(event)));
  }

  get timeline() {
    return this.player.timeline;
  }

  shows(step) {
    return step >= 0 && figureOf(this.pane.model, step) !== null;
  }

  get isShown() {
    return this.isOpen && this.shows(this.timeline.cursor().step);
  }

  draw(at) {
    const { model, pinned } = this.pane;
    const row = toldRow(model, at.step, pinned);
    const name = rowNumber(model, { q: model.q[at.step], row });
    const isKnown = knowsRow(model, row);
    this.hint.hidden = !isKnown;
    this.missing.hidden = isKnown;
    write(this.missing, isKnown ? "" : `Row ${name}: ${this.runsRows ? TO_COME : NOT_RECORDED}`);
    const keys = model.kv[at.step] < 0 ? "" : `, key tile ${model.kv[at.step]}`;
    const tile = tileNumber(model, model.q[at.step]);
    write(this.title, `Query tile ${tile}${keys}, explained for row ${name}`);
    write(this.state, at.marks ? stateWords(model, at, row, name) : "");
  }

  // Light the number in a cell {slot, row, column}, or what it was made of, and say how; none for null.
  point(cell) {
    const { pane } = this;
    if (["slot", "row", "column"].every((name) => cell?.[name] === pane.pointed?.[name])) return;
    pane.pointed = cell;
    const words = cell ? cellWords(pane.model, pane.stateAt(), cell) : "";
    write(this.said, words);
    this.about.hidden = words !== "";
    this.player.draw();
  }

  pointNext(direction) {
    const { model, pinned, pointed } = this.pane;
    const { step } = this.timeline.cursor();
    const figure = figureOf(model, step);
    const shown = shownIn(model, figure, this.pane.stateAt());
    const own = figure.slots.filter(({ rows }) => rows === "q_tile");
    const first = own.find(({ name }) => name === "S" && shown.S) ?? own.find(({ name }) => shown[name]);
    const slot = own.find(({ name }) => name === pointed?.slot) ?? first;
    const last = model.data.problem[slot?.columns === "kv_tile" ? "block_n" : "head_dim"] - 1;
    const column = Math.max(0, Math.min(last, (pointed?.column ?? -direction) + direction));
    if (slot) this.point({ slot: slot.name, row: model.offsets[toldRow(model, step, pinned)], column });
  }

  // What a key does; undefined for the others.
  action(key, event) {
    if (key === "z") return () => this.toggle();
    if (!this.isOpen) return undefined;
    const direction = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (event?.shiftKey && direction && this.isShown) return () => this.pointNext(direction);
    return {
      Escape: () => this.close(),
      ArrowUp: () => this.pickNext(-1),
      ArrowDown: () => this.pickNext(1),
    }[key];
  }

  // Whether the tiles of the run can be shown in their numbers.
  get canOpen() {
    return this.runsRows || this.pane.model.hasMatrices;
  }

  // A run is shown anew, with a tile open or not.
  stand(isOpen) {
    this.isOpen = isOpen && this.canOpen;
    if (this.isOpen) this.goTo(this.stepToOpen(null));
    else this.chosen = "";
  }

  toggle() {
    if (this.isOpen) return this.close();
    const step = this.stepToOpen(this.pane.pinned);
    if (step >= 0) this.open(step);
    else this.player.controls.tell(this.whyNot());
  }

  // The step whose tile is opened now, -1 if there is none; of a picked row, one that holds it.
  stepToOpen(pinned) {
    return this.canOpen ? stepToOpen(this.pane.model, Math.max(0, this.timeline.cursor().step), pinned) : -1;
  }

  whyNot() {
    const { model, pinned } = this.pane;
    const isOfRow = pinned && this.stepToOpen(null) >= 0;
    return isOfRow ? `Row ${rowNumber(model, pinned)} sees no key: no tile holds it.` : NO_TILE;
  }

  // Open the tile under the pointer, told for the row there.
  openAt(hit) {
    const { model } = this.pane;
    const kernel = Math.max(0, this.pane.stateAt().kernel);
    const [step] = hit && this.canOpen ? stepsAbout(model, kernel, hit) : [];
    if (step === undefined) return;
    this.pane.pinned = rowOfHit(model, hit);
    this.open(step);
  }

  open(step) {
    const { timeline } = this;
    this.isOpen = true;
    this.goTo(step);
    const first = timeline.placeIn(step);
    if (timeline.position < first || timeline.cursor().complete) timeline.position = first;
    this.player.transport.changed();
  }

  // Go to a step that has a figure, in its first phase unless the playback stands in it; if none has, stay.
  goTo(step) {
    const { timeline } = this;
    timeline.order = "one";
    const isElsewhere = step >= 0 && step !== timeline.cursor().step;
    if (isElsewhere) timeline.position = this.pane.model.phaseStart[step] + 1;
    this.pickTold(step);
  }

  close() {
    this.shut();
    this.player.transport.changed();
  }

  // Closed, nothing stays of a row that the reader did not pick: the next tile to open would be one of its.
  shut() {
    const { pane } = this;
    this.isOpen = false;
    pane.pointed = null;
    if (this.chosen && pane.pinned && pane.pinnedText() === this.chosen) pane.pinned = null;
    this.chosen = "";
  }

  // Pick the row that is told, so that it is known which row of a large tile is wanted.
  pickTold(step) {
    const { model, pinned } = this.pane;
    const row = step < 0 ? -1 : toldRow(model, step, pinned);
    if (row < 0 || knowsRow(model, row)) return;
    this.pane.pinned = { head: model.head[step], q: model.q[step], row };
    this.chosen = this.pane.pinnedText();
  }

  pick(row) {
    const { model } = this.pane;
    const { step } = this.timeline.cursor();
    if (step < 0 || row < 0 || row >= rowCount(model, model.q[step])) return;
    this.pane.pinned = { head: model.head[step], q: model.q[step], row };
    this.chosen = "";
    this.player.transport.changed();
  }

  pickAt(cell) {
    const figure = cell && figureOf(this.pane.model, this.timeline.cursor().step);
    const slot = figure?.slots.find(({ name }) => name === cell.slot);
    if (this.isShown && slot?.rows === "q_tile") this.pick(this.pane.model.offsets.indexOf(cell.row));
  }

  pickNext(direction) {
    const { model, pinned } = this.pane;
    this.pick(toldRow(model, this.timeline.cursor().step, pinned) + direction);
  }
}
