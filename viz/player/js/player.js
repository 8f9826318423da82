// The player of one run. It works in a Streamlit component and in a plain HTML page alike.

import { Aside } from "./grid/aside.js";
import { choice, element, write } from "./controls/dom.js";
import { toldRow } from "./run/figure.js";
import { keysPanel } from "./controls/help.js";
import { LanesView } from "./lanes/lane_view.js";
import { positionOf, tilesAt } from "./lanes/playhead.js";
import { Microscope } from "./tile/microscope.js";
import { OpenTile } from "./tile/opentile.js";
import { Pane } from "./grid/pane.js";
import { Playback } from "./playback.js";
import { sentenceOf } from "./run/sentences.js";
import { UNITS } from "./run/timeline.js";
import { browserClock } from "./run/transport.js";
import { countWords, momentTitle, noteWords, rateWords, readoutWords } from "./run/words.js";

const SLOW = 0.5; // phases per second
const TWEEN_MS = 500;
const NO_NUMBERS = "The code that ran here does not record the numbers of its tiles. FlashAttention-2 does.";
const NO_STEP = "The trace has no step about this tile.";
const TWEENED_SPEED = 8; // faster playback has no time for transitions

export class Player extends Playback {
  constructor(root, onSettled = () => {}) {
    super("player", root, onSettled);
    this.reduced = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.pane = new Pane(() => this.transport.changed());
    this.opened = new OpenTile(this);
    this.microscope = this.opened.microscope;
    this.lanes = new LanesView((tile, activity) => this.goToTile(tile, activity));
    this.build();
    this.begin([this.pane.nodes.stage, this.pane.nodes.chip, this.aside.rows, this.lanes.canvas]);
    this.pane.nodes.stage.addEventListener("dblclick", (event) => this.opened.openAt(this.pane.hit(event)));
  }

  build() {
    const { nodes } = this.pane;
    this.aside = new Aside();
    this.units = choice(
      "step by",
      UNITS.map((unit) => [unit, unit]),
      (unit) => this.setUnit(unit),
    );
    const orders = [
      ["one", "one by one"],
      ["gpu", "all at once"],
    ];
    this.orders = choice("programs", orders, (order) => this.setOrder(order));
    this.numbers = element("button", { type: "button", onclick: () => this.opened.toggle() }, ["Numbers"]);
    const onclick = () => this.toggleLanes();
    const title = "when its warps did what, by the SM's clock (l)";
    this.lanesButton = element("button", { type: "button", title, onclick }, ["Lanes of an SM"]);
    this.keys = keysPanel();
    this.told = element("div", { class: "fa-sentence fa-told-here" });
    this.layOut(nodes);
  }

  layOut(nodes) {
    const onclick = () => this.keys.toggle();
    const ask = { type: "button", title: "the keys (?)", "aria-label": "keys", onclick };
    const choices = [this.units.node, this.orders.node];
    const tools = [
      ...choices,
      this.numbers,
      this.lanesButton,
      this.save.button,
      element("button", ask, ["?"]),
    ];
    this.root.append(
      element("div", { class: "fa-main" }, [
        element("div", { class: "fa-left" }, [
          element("div", { class: "fa-grid-view" }, [nodes.stage, this.legend.node, nodes.chip]),
          this.microscope.node,
        ]),
        this.aside.node,
      ]),
      this.told,
      this.lanes.node,
      nodes.bytes,
      this.controls.panel(tools, [this.notes]),
      this.lanes.more,
      this.save.node,
      this.keys.node,
    );
  }

  destroy() {
    super.destroy();
    cancelAnimationFrame(this.transition);
  }

  // Show a run in a state. The same run again (a rerun, another theme, another GPU's SRAM) keeps its own.
  load(data, state) {
    const isNew = this.pane.load(data);
    this.pane.usePalette(this.root);
    this.lanes.load(data.lanes, this.palette);
    if (isNew) {
      this.stand(state);
      this.aside.forget();
      this.root.setAttribute("aria-label", `Playback of ${data.title}. ${data.provenance}`);
      this.legend.says([this.pane.model]);
      this.notes.textContent = noteWords(data);
    }
    this.pane.scaleBytes();
    if (isNew && state.plays && !this.reduced) this.playByItself();
    this.refresh();
  }

  // Stand in a state, without drawing it.
  stand(state) {
    this.timeline.unit = UNITS.includes(state.unit) ? state.unit : UNITS[0];
    this.timeline.goToText(state.step);
    this.pane.pinText(state.row);
    this.opened.stand(state.open === "tile");
    this.showsLanes = state.lanes === "open";
    this.transport.use(this.timeline);
  }

  // Play slowly, phase by phase, until the reader does something.
  playByItself() {
    this.timeline.unit = "phase";
    this.transport.speed = SLOW;
    this.transport.toggle();
  }

  get palette() {
    return this.pane.palette;
  }

  // The data of the run.
  get shown() {
    return this.pane.model.data;
  }

  get timeline() {
    return this.pane.timeline;
  }

  setUnit(unit) {
    this.timeline.unit = unit;
    this.transport.changed();
  }

  setOrder(order) {
    const { timeline } = this;
    if (order === timeline.order) return;
    const { finished } = timeline.cursor();
    timeline.order = order;
    this.transport.goTo(finished ? timeline.last() : 0);
  }

  // The position that a value of the slider stands for.
  positionOf(value) {
    return this.timeline.order === "one" ? this.pane.model.phaseStart[value] : value;
  }

  toggleLanes() {
    this.showsLanes = !this.showsLanes;
    this.transport.changed();
    if (this.showsLanes) this.lanes.node.scrollIntoView({ block: "nearest" });
  }

  // Go to the step about a tile of the lanes, in the phase of an activity; returns why not, if there is none.
  goToTile(tile, { phase, kernel }) {
    const position = positionOf(this.pane.model, tile, phase, kernel);
    if (position < 0) return tile.q < 0 ? "" : NO_STEP;
    this.timeline.order = "one";
    this.transport.goTo(position);
    return "";
  }

  settled() {
    if (this.opened.isOpen) this.opened.pickTold(this.timeline.cursor().step);
    super.settled();
  }

  // What is worth remembering, in words: the step, and the unit and the picked row if they were chosen.
  state() {
    const { timeline, pane } = this;
    const state = { step: timeline.text() };
    if (timeline.unit !== UNITS[0]) state.unit = timeline.unit;
    if (pane.pinned) state.row = pane.pinnedText();
    if (this.opened.isOpen) state.open = "tile";
    if (this.showsLanes) state.lanes = "open";
    return state;
  }

  // What a key of the player alone does; undefined for the others.
  action(key) {
    const panels = { "?": this.keys, s: this.save };
    const panel = panels[key] ?? (key === "Escape" && Object.values(panels).find(({ isOpen }) => isOpen));
    if (panel) return () => panel.toggle();
    if (key === "l" && this.lanes.isThere) return () => this.toggleLanes();
    return this.opened.action(key);
  }

  // Words for the reader, until the next change.
  say(words) {
    this.controls.tell(words);
  }

  // Whether the next phase has to wait for an answer of the reader.
  holds() {
    return this.opened.holds();
  }

  // Show everything anew after a change that is not a frame of playback.
  refresh() {
    const { timeline, transport } = this;
    if (!timeline) return;
    const atOnce = timeline.order === "gpu";
    this.controls.showPlaying(transport.playing);
    this.units.show(timeline.unit);
    this.orders.show(timeline.order);
    this.units.node.classList.toggle("fa-off", atOnce);
    this.controls.rate.textContent = rateWords(timeline, transport.speed);
    const title = momentTitle(timeline);
    [this.controls.rate, this.controls.count, this.slider].forEach((node) => (node.title = title));
    this.slider.max = atOnce ? timeline.last() : this.pane.model.count;
    if (atOnce) this.opened.shut();
    const { isOpen, canOpen } = this.opened;
    this.numbers.disabled = !canOpen || atOnce;
    this.numbers.title = canOpen ? "show the tile in its numbers (z)" : NO_NUMBERS;
    this.numbers.setAttribute("aria-pressed", String(isOpen));
    this.lanesButton.hidden = !this.lanes.isThere;
    const showsLanes = this.showsLanes && this.lanes.isThere;
    this.lanesButton.setAttribute("aria-pressed", String(showsLanes));
    this.root.classList.toggle("fa-shows-lanes", showsLanes);
    this.draw();
    this.animate();
  }

  // Where a step rescales, the sums shrink over a short time.
  animate() {
    const { transport } = this;
    cancelAnimationFrame(this.transition);
    const old = performance.now() - transport.movedAt > TWEEN_MS;
    if (transport.playing || this.reduced || old || !this.timeline.cursor().phase?.rescales) return;
    this.transition = requestAnimationFrame((now) => {
      this.draw(now);
      this.animate();
    });
  }

  // Draw what is shown as it stands, with so much of a transition over.
  drawStill(tween = 1) {
    this.stillTween = tween;
    this.draw();
    this.stillTween = undefined;
  }

  // How long the present step takes to change, at the present speed.
  get transitionMs() {
    const { speed } = this.transport;
    const changes = !this.reduced && speed <= TWEENED_SPEED && this.timeline.cursor().phase?.rescales;
    return changes ? TWEEN_MS / speed : 0;
  }

  tweenAt(now) {
    if (this.stillTween !== undefined) return this.stillTween;
    const { playing, speed, movedAt } = this.transport;
    if (this.reduced || speed > TWEENED_SPEED) return 1;
    return Math.min(1, Math.max(0, now - movedAt) / (playing ? TWEEN_MS / speed : TWEEN_MS));
  }

  draw(now = browserClock.now()) {
    const { pane, timeline, controls: shown } = this;
    if (!timeline || this.root.clientWidth === 0) return;
    const at = pane.stateAt(this.tweenAt(now));
    const shows = this.opened.isOpen && Microscope.shows(pane.model, at);
    this.root.classList.toggle("fa-shows-tile", shows);
    const { active, bytes } = pane.draw(at, shows);
    if (!shows) this.legend.tellsLetters(pane.hasLetters);
    if (shows) this.microscope.draw(pane.model, pane.palette, at, pane.pinned, this.opened.isAsking(at));
    const tells = !shows && timeline.unit === "phase" && timeline.order === "one";
    const told =
      tells && at.phase ? sentenceOf(pane.model, at, toldRow(pane.model, at.step, pane.pinned)) : "";
    this.hasTold ||= tells; // from then on the line keeps its height, so that no button moves
    this.told.hidden = shows || !this.hasTold;
    write(this.told, told);
    const row = shows ? toldRow(pane.model, at.step, pane.pinned) : 0;
    const picked = shows ? { head: pane.model.head[at.step], q: pane.model.q[at.step], row } : pane.pinned;
    this.slider.value = timeline.order === "one" ? at.done : timeline.position;
    write(shown.count, countWords(timeline, at));
    this.aside.draw(pane, at, picked, shows);
    if (this.lanes.canvas.clientWidth) this.drawLanes(at);
    this.onDrawn?.(at);
    shown.tell(readoutWords(timeline, at, bytes, active, picked), now);
  }

  drawLanes(at) {
    this.lanes.follow(tilesAt(this.timeline, at));
    this.lanes.draw();
  }
}
