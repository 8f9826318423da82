// Two runs side by side under one transport: a race over the same bytes.

import { byteBars, countedRow, element } from "./controls/dom.js";
import { Beside, Race } from "./beside.js";
import { formatBytes } from "./run/formats.js";
import { Pane } from "./grid/pane.js";
import { duelWords } from "./run/words.js";

export class ByteRace extends Race {
  // `ends` holds, for each run, the bytes at which each of its steps ends.
  constructor(ends) {
    super("bytes", Math.max(...ends.map((each) => each.at(-1))));
    this.ends = ends;
    const rates = ends.map((each) => each.length / each.at(-1)); // steps per byte
    this.most = Math.max(...rates);
    this.paces = rates.map((rate) => rate / this.most); // steps for one of the run with the most
  }

  moved(direction) {
    return this.clamp(Math.round(this.position) + direction * this.ticks);
  }

  done(i) {
    const now = this.now() * (1 + 1e-9);
    return this.ends[i].findLastIndex((end) => end <= now) + 1;
  }

  // How many steps of run i are done, with the part of the one in progress.
  reached(i) {
    const ends = this.ends[i];
    const done = this.done(i);
    if (done === ends.length) return done;
    const from = done ? ends[done - 1] : 0;
    return Math.min(done + (this.now() - from) / (ends[done] - from), done + 1);
  }

  tileRate(speed) {
    return this.tilesBetween(0, speed * this.ticks);
  }

  tilesBetween(from, to) {
    return (this.most * this.longest * Math.abs(to - from)) / this.last();
  }
}

// Of two lists of words, what stands in one alone.
const ownWords = (both) =>
  both.map((words, i) => words.filter((each) => !both[1 - i].includes(each)).join(", "));

export class Duel extends Beside {
  constructor(root, onSettled) {
    const panes = [0, 1].map(() => new Pane()); // nothing here would follow a row
    const bytes = element("div", { class: "fa-bytes" });
    const stages = panes.map(({ stage }) => stage);
    super(root, onSettled, stages, "", [bytes]);
    Object.assign(this, { panes, bytes });
  }

  load(data, state) {
    const isNew = this.shown?.id !== data.id;
    this.shown = data;
    const words = data.runs.map(({ label, title }) => [label, ...title.slice(label.length + 2).split(", ")]);
    const names = ownWords(words).map((own, i) => `${"AB"[i]}  ${data.names?.[i] ?? own}`);
    data.runs.forEach((run, i) => {
      this.panes[i].load(run);
      this.titles[i].textContent = names[i];
      this.columns[i].setAttribute("aria-label", `${"AB"[i]}: ${run.title}`);
    });
    this.root.setAttribute("aria-label", `Playback of ${data.title}`);
    const notes = data.runs.map((run, i) => `${"AB"[i]}: ${[run.provenance, ...run.notes].join(" · ")}`);
    this.notes.textContent = notes.join(" · ");
    const models = this.panes.map((pane) => pane.model);
    const share = Math.max(...models.map((model) => model.largestShare));
    models.forEach((model) => (model.scaleShare = share)); // one scale of colours for both
    [this.palette] = this.panes.map((pane) => pane.usePalette(this.root));
    const rows = models.map((model, i) => countedRow(model, names[i]));
    this.showBytes = byteBars(this.bytes, rows, this.palette);
    if (isNew) {
      this.race = new ByteRace(models.map(({ bytes }) => bytes.subarray(1)));
      this.stand(state);
    }
    this.refresh();
  }

  draw(now = performance.now()) {
    const { race, panes } = this;
    if (!race || this.root.clientWidth === 0) return;
    panes.forEach((pane, i) => {
      const rate = race.done(i) < pane.model.count ? this.transport.rate * race.paces[i] : 0;
      pane.timeline.position = pane.timeline.positionOf(race.reached(i));
      const { bytes } = pane.draw(pane.stateAt(pane.timeline.position, rate));
      this.showBytes(i, bytes.perTensor, `${formatBytes(bytes.total)} loaded and stored`);
    });
    this.tell(duelWords(race), formatBytes(race.now()), now);
  }
}
