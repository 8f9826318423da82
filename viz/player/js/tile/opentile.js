// Whether a tile is open in its numbers, which row of it is told, and whether the reader predicts it.

import { isBeforeMax, knowsRow, placeOfMax, positionToPredict, stepToOpen, toldRow } from "../run/figure.js";
import { rowOfHit } from "../grid/pane.js";
import { Microscope } from "./microscope.js";
import { rowCount, rowNumber, stepsAbout } from "../run/model.js";

const NO_TILE = "This run has no tile with numbers.";

export class OpenTile {
  // `player` has pane, timeline and transport.
  constructor(player) {
    this.player = player;
    this.pane = player.pane;
    this.microscope = new Microscope(this);
    this.isOpen = false; // whether a tile is shown in its numbers
    this.predicts = false; // whether the reader is asked for m, l and alpha before they are shown
    this.chosen = ""; // the row that was picked here and not by the reader, in words
    this.runsRows = false; // whether whoever shows the player runs the kernel again for the numbers of a row
  }

  get timeline() {
    return this.player.timeline;
  }

  // What a key does; undefined for the others.
  action(key) {
    if (key === "z") return () => this.toggle();
    const open = {
      Escape: () => this.close(),
      p: () => this.togglePredict(),
      ArrowUp: () => this.pickNext(-1),
      ArrowDown: () => this.pickNext(1),
    };
    return this.isOpen ? open[key] : undefined;
  }

  // Whether the tiles of the run can be shown in their numbers, if these are recorded.
  get canOpen() {
    return this.pane.model.kernels.some(({ figure }) => figure);
  }

  // A run is shown anew, with a tile open or not.
  stand(isOpen) {
    this.predicts = false;
    this.isOpen = isOpen && this.canOpen;
    if (this.isOpen) this.goTo(this.stepToOpen(null));
    else this.chosen = "";
  }

  toggle() {
    if (this.isOpen) {
      this.close();
    } else if (this.canOpen) {
      const step = this.stepToOpen(this.pane.pinned);
      if (step >= 0) this.open(step);
      else this.player.controls.tell(this.whyNot());
    }
  }

  // The step whose tile is opened now, -1 if there is none; of a picked row, one that holds it.
  stepToOpen(pinned) {
    return stepToOpen(this.pane.model, Math.max(0, this.timeline.cursor().step), pinned);
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
    this.isOpen = true;
    this.timeline.unit = "phase";
    this.goTo(step);
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
    this.isOpen = this.predicts = false;
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

  // Pick a drawn row of the tile in progress.
  pick(row) {
    const { model } = this.pane;
    const { step } = this.timeline.cursor();
    if (step < 0 || row < 0 || row >= rowCount(model, model.q[step])) return;
    this.pane.pinned = { head: model.head[step], q: model.q[step], row };
    this.chosen = "";
    this.player.transport.changed();
  }

  pickNext(direction) {
    const { model, pinned } = this.pane;
    this.pick(toldRow(model, this.timeline.cursor().step, pinned) + direction);
  }

  togglePredict() {
    this.predicts = !this.predicts;
    if (this.predicts) this.predictStep(this.timeline.cursor().step);
    else this.player.transport.changed();
  }

  next() {
    this.predictStep(this.timeline.cursor().step + 1);
  }

  // Stand where the scores of a step are known, and m, l and alpha are not.
  predictStep(from) {
    const position = positionToPredict(this.pane.model, from, this.pane.pinned);
    if (position >= 0) this.player.transport.goTo(position);
  }

  // Whether m, l and alpha of the step in progress are still to be predicted.
  isAsking(at) {
    const { model, pinned } = this.pane;
    return this.predicts && isBeforeMax(model, at) && knowsRow(model, toldRow(model, at.step, pinned));
  }

  // Whether the next phase has to wait for an answer: it would show what the reader is asked for.
  holds() {
    const at = this.timeline.cursor();
    if (!this.isOpen || !this.isAsking(at) || this.microscope.predict.isAnswered) return false;
    const { model } = this.pane;
    const next = model.phases[at.step].indexOf(at.phase) + 1;
    if (this.timeline.unit === "phase" && next < placeOfMax(model, at.step)) return false;
    this.microscope.predict.remind();
    return true;
  }
}
