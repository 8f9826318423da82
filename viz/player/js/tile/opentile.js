// Whether a tile is open in its numbers, which row of it is told, and whether the reader predicts it.

import { isBeforeMax, knowsRow, placeOfMax, positionToPredict, stepToOpen, toldRow } from "../run/figure.js";
import { Microscope } from "./microscope.js";
import { rowCount, rowNumber, stepsAbout } from "../run/model.js";

const NO_TILE = "This run has no tile with numbers.";

export class OpenTile {
  // `player` has pane, timeline and transport.
  constructor(player) {
    this.player = player;
    this.microscope = new Microscope(this);
    this.isOpen = false; // whether a tile is shown in its numbers
    this.predicts = false; // whether the reader is asked for m, l and alpha before they are shown
    this.chosen = ""; // the row that was picked here and not by the reader, in words
    this.runsRows = false; // whether whoever shows the player runs the kernel again for the numbers of a row
  }

  get pane() {
    return this.player.pane;
  }

  get timeline() {
    return this.player.timeline;
  }

  changed() {
    this.player.transport.changed();
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
    if (this.isOpen) this.standOnTile();
    else this.chosen = "";
  }

  toggle() {
    if (this.isOpen) this.close();
    else if (this.canOpen) {
      const step = this.stepToOpen(this.pane.pinned);
      if (step < 0) {
        this.player.say(this.whyNot());
        return;
      }
      this.isOpen = true;
      this.timeline.unit = "phase";
      this.standOnTile(step);
      this.changed();
    }
  }

  // The step whose tile is opened now, -1 if there is none; of a picked row, one that holds it.
  stepToOpen(pinned) {
    return stepToOpen(this.pane.model, Math.max(0, this.timeline.cursor().step), pinned);
  }

  // Why there is no tile to open.
  whyNot() {
    const { model, pinned } = this.pane;
    const isOfRow = pinned && this.stepToOpen(null) >= 0;
    return isOfRow ? `Row ${rowNumber(model, pinned)} sees no key: no tile holds it.` : NO_TILE;
  }

  close() {
    this.shut();
    this.changed();
  }

  // Closed, nothing stays of a row that the reader did not pick: the next tile to open would be one of its.
  shut() {
    this.isOpen = this.predicts = false;
    if (this.chosen && this.pane.pinned && this.pane.pinnedText() === this.chosen) this.pane.pinned = null;
    this.chosen = "";
  }

  // Open the tile under the pointer, at its first phase, told for the row there.
  openAt(hit) {
    const { model } = this.pane;
    if (!hit || !this.canOpen) return;
    const kernel = Math.max(0, this.pane.stateAt(1).kernel);
    const [step] = stepsAbout(model, kernel, hit);
    if (step === undefined) return;
    this.isOpen = true;
    this.timeline.unit = "phase";
    const row = model.offsets.findLastIndex((offset) => offset <= hit.offset);
    this.pane.pinned = { head: hit.head, q: hit.q, row: Math.min(row, rowCount(model, hit.q) - 1) };
    this.player.transport.goTo(model.phaseStart[step] + 1);
  }

  // Go to a step that has a figure, this one or the next; if there is none, stay.
  standOnTile(next = this.stepToOpen(null)) {
    const { timeline } = this;
    timeline.order = "one";
    if (next >= 0 && next !== timeline.cursor().step) {
      timeline.position = this.pane.model.phaseStart[next] + 1;
    }
    this.pickTold(next);
  }

  // Pick the row that is told, so that it is known which row of a large tile is wanted.
  pickTold(step) {
    const { model, pinned } = this.pane;
    if (step < 0 || knowsRow(model, toldRow(model, step, pinned))) return;
    this.pane.pinned = { head: model.head[step], q: model.q[step], row: toldRow(model, step, pinned) };
    this.chosen = this.pane.pinnedText();
  }

  // Pick a drawn row of the tile in progress.
  pick(row) {
    const { model } = this.pane;
    const { step } = this.timeline.cursor();
    if (step < 0 || row < 0 || row >= rowCount(model, model.q[step])) return;
    this.pane.pinned = { head: model.head[step], q: model.q[step], row };
    this.chosen = "";
    this.changed();
  }

  pickNext(direction) {
    const { model, pinned } = this.pane;
    this.pick(toldRow(model, this.timeline.cursor().step, pinned) + direction);
  }

  togglePredict() {
    this.predicts = !this.predicts;
    const { step } = this.timeline.cursor();
    if (this.predicts) this.predictStep(step);
    else this.changed();
  }

  // The next tile whose m, l and alpha can be predicted.
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
    return this.predicts && isBeforeMax(this.pane.model, at);
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
