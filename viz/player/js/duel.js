// Two runs side by side under one transport: step for step, or as a race on one modelled clock.

import { choice, element, write } from "./controls/dom.js";
import { formatMs } from "./run/formats.js";
import { decode } from "./run/model.js";
import { Pane } from "./grid/pane.js";
import { Playback } from "./playback.js";
import { Track } from "./run/timeline.js";
import { duelWords, noteWords } from "./run/words.js";

const RACE_TICKS = 1000;
const TICKS_PER_PERCENT = RACE_TICKS / 100;

// Where both runs stand: after as many steps each, or at the same modelled time. A track for transport.js.
export class Race extends Track {
  order = "race"; // steps of two algorithms are seldom alike

  // `costs` holds, for each run, the modelled time in ns at which each of its steps ends.
  constructor(costs) {
    super();
    this.costs = costs;
    this.longest = Math.max(...costs.map((ends) => ends.at(-1)));
  }

  get ticks() {
    return this.order === "race" ? TICKS_PER_PERCENT : 1;
  }

  last() {
    return this.order === "race" ? RACE_TICKS : Math.max(...this.costs.map((ends) => ends.length));
  }

  moved(direction) {
    return this.clamp(Math.round(this.position) + direction * this.ticks);
  }

  // The position after so many steps or percent.
  played(units) {
    return Math.min(this.position + units * this.ticks, this.last());
  }

  // Modelled time in ns.
  now() {
    return (this.longest * this.position) / RACE_TICKS;
  }

  // Steps of run i that are done.
  done(i) {
    const ends = this.costs[i];
    if (this.order === "steps") return Math.min(Math.floor(this.position), ends.length);
    const now = this.now() * (1 + 1e-9);
    return ends.findLastIndex((end) => end <= now) + 1;
  }

  // How many steps of run i are done, with the part of the one in progress.
  reached(i) {
    const ends = this.costs[i];
    const done = this.done(i);
    if (done === ends.length) return done;
    if (this.order === "steps") return this.position;
    const from = done ? ends[done - 1] : 0;
    return Math.min(done + (this.now() - from) / (ends[done] - from), done + 1);
  }

  text() {
    return `${this.order}:${Math.round(this.position)}`;
  }

  placeOf(words) {
    const [, order, position] = /^(steps|race):(\d+)$/.exec(words ?? "") ?? [];
    return order ? { order, position: Number(position) } : null;
  }
}

export class Duel extends Playback {
  constructor(root, onSettled = () => {}) {
    super("duel", root, onSettled);
    this.panes = [0, 1].map(() => new Pane(null, true)); // nothing here would follow a row
    this.build();
    this.begin(this.panes.map(({ nodes }) => nodes.stage));
  }

  build() {
    this.titles = this.panes.map(() => element("div", { class: "fa-head" }));
    this.columns = this.panes.map(({ nodes }, i) => {
      const parts = [this.titles[i], nodes.stage, nodes.bytes];
      return element("div", { class: "fa-column", role: "group" }, parts);
    });
    const orders = { race: "race", steps: "step for step" };
    this.orders = choice("clock", orders, (order) => this.setOrder(order));
    this.root.append(
      element("div", { class: "fa-duel" }, this.columns),
      this.controls.panel([this.orders.node, this.save.button], [this.notes]),
      this.save.node,
    );
  }

  load(data, state) {
    const isNew = this.data?.id !== data.id;
    this.data = data;
    const differ = data.runs[0].grid_words !== data.runs[1].grid_words;
    data.runs.forEach((run, i) => {
      this.panes[i].load(run);
      const claim = differ ? `. ${run.grid_words}` : "";
      this.titles[i].textContent = `${"AB"[i]}  ${run.title}${claim}`;
      this.columns[i].setAttribute("aria-label", `${"AB"[i]}: ${run.title}`);
    });
    this.root.setAttribute("aria-label", `Playback of ${data.title}`);
    this.notes.textContent = data.runs.map((run, i) => `${"AB"[i]}: ${noteWords(run)}`).join(" · ");
    const models = this.panes.map((pane) => pane.model);
    const share = Math.max(...models.map((model) => model.largestShare));
    models.forEach((model) => (model.scaleShare = share)); // one scale of colours for both
    this.panes.forEach((pane) => pane.usePalette(this.root));
    const totals = models.flatMap((model) => [model.bytes[model.count], model.data.standard_bytes]);
    this.panes.forEach((pane) => pane.scaleBytes(Math.max(...totals)));
    if (isNew) {
      this.race = new Race(data.costs.map((text) => decode(text, Float64Array)));
      this.stand(state);
    }
    this.refresh();
  }

  stand(state) {
    this.race.goToText(state.place);
    this.transport.use(this.race);
  }

  get palette() {
    return this.panes[0].palette;
  }

  get shown() {
    return this.data;
  }

  state() {
    return { place: this.race.text() };
  }

  refresh() {
    const { race, transport } = this;
    this.controls.showPlaying(transport.playing);
    this.orders.show(race.order);
    this.controls.rate.textContent = `${transport.speed} ${race.order === "race" ? "%/s" : "steps/s"}`;
    this.slider.max = race.last();
    this.draw();
  }

  draw(now = performance.now()) {
    const { race, panes, controls: shown } = this;
    if (!race || this.root.clientWidth === 0) return;
    const done = panes.map((pane, i) => {
      pane.timeline.position = pane.timeline.positionOf(race.reached(i));
      pane.draw(pane.stateAt());
      return race.done(i);
    });
    const isRace = race.order === "race";
    this.slider.value = race.position;
    const steps = `step ${Math.floor(race.position)} / ${race.last()}`;
    write(shown.count, isRace ? `${formatMs(race.now() / 1e6)} modelled` : steps);
    shown.tell(duelWords(panes, done, race.costs, isRace, this.data.clock_words), now);
  }
}
