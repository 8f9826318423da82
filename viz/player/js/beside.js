// Runs beside each other under one transport, over the same bytes or the same time.

import { element, say, write } from "./controls/dom.js";
import { Playback } from "./playback.js";
import { Track } from "./run/timeline.js";

const TICKS = 1000; // until the longest is done

// Where all runs stand. `order` names what they race over, and `longest` is how much of it the longest takes.
export class Race extends Track {
  ticks = TICKS / 100;

  constructor(order, longest) {
    super();
    Object.assign(this, { order, longest });
  }

  last() {
    return TICKS;
  }

  now() {
    return (this.longest * this.position) / TICKS;
  }

  text() {
    return `${this.order}:${Math.round(this.position)}`;
  }

  placeOf(words) {
    const [, order, position] = /^(\w+):(\d+)$/.exec(words ?? "") ?? [];
    return order === this.order ? { order, position: Number(position) } : null;
  }
}

// A subclass has `race`, which its state keeps.
export class Beside extends Playback {
  // A column for each canvas with its title above, then the caption and `more`.
  constructor(root, onSettled, canvases, looks, more = []) {
    super(root, onSettled);
    this.titles = canvases.map(() => element("div", { class: "fa-head" }));
    this.columns = canvases.map((node, i) =>
      element("div", { class: "fa-column", role: "group" }, [this.titles[i], node]),
    );
    this.caption = element("p", { class: "fa-caption" });
    const all = element("div", { class: `fa-duel ${looks}` }, this.columns);
    const rows = this.controls.rows([this.save.button], [this.notes]);
    this.root.append(all, this.caption, ...more, ...rows, this.save.node);
    this.begin(canvases);
  }

  stand(state = {}) {
    this.race.goToText(state.place);
    this.transport.use(this.race);
  }

  state() {
    return { place: this.race.text() };
  }

  refresh() {
    const { controls, transport } = this;
    controls.showPlaying(transport.playing);
    controls.rate.textContent = `${transport.speed} %/s`;
    this.slider.max = TICKS;
    this.draw();
  }

  // What is said of the moment that is drawn, and how much the runs have done by then.
  tell(words, count, now) {
    this.slider.value = this.race.position;
    say(this.caption, words);
    write(this.controls.count, count);
    this.controls.tell(words, now);
  }
}
