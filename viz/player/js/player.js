// The player of one run. It works in a Streamlit component and in a plain HTML page alike.

import { Aside } from "./grid/aside.js";
import { button, byteBars, choice, countedRow, element, modelledRow, say, write } from "./controls/dom.js";
import { toldRow } from "./run/figure.js";
import { formatBytes } from "./run/formats.js";
import { KEYS, Panel, keyList } from "./controls/help.js";
import { LanesView } from "./lanes/lane_view.js";
import { sum } from "./run/model.js";
import { clamp, lerp, within } from "./run/easing.js";
import { overtureOf } from "./overture.js";
import { positionOf, tilesAt } from "./lanes/lane_model.js";
import { OpenTile } from "./tile/opentile.js";
import { Pane } from "./grid/pane.js";
import { Playback } from "./playback.js";
import { movedOf, storedTiles } from "./run/stored.js";
import { UNITS } from "./run/timeline.js";
import { captionOf, countWords, saidWords } from "./run/words.js";

const SLOW = 0.125; // tiles per second, about a second per phase: its numbers and its sentence can be read
const WHOLE_S = 40; // in which a run plays at the speed at which it starts, about
const PHASE_MS = 650; // in which a phase is seen that an arrow steps through
const STEP_MS = 1400; // in which a whole tile is
const moved = (bytes) => `${formatBytes(bytes)} loaded and stored`;
const MOMENT = "A moment is when one or more steps begin. The slider counts moments, not time.";

export class Player extends Playback {
  constructor(root, onSettled) {
    super(root, onSettled, "step");
    this.pane = new Pane((tile) => this.goToPicked(tile));
    this.opened = new OpenTile(this);
    this.lanes = new LanesView((tile, activity) => this.goToTile(tile, activity));
    this.aside = new Aside();
    const orders = Object.entries({ one: "one by one", gpu: "all at once" });
    const units = UNITS.map((unit) => [unit, unit]);
    this.units = choice("step by", units, (unit) => {
      this.timeline.unit = unit;
      this.transport.changed();
    });
    this.orders = choice("programs", orders, (order) => this.setOrder(order));
    this.numbers = button("Numbers", "show the tile in its numbers (z)", () => this.opened.toggle());
    const byClock = "when its warps did what, by the SM's clock (l)";
    this.lanesButton = button("Lanes of an SM", byClock, () => this.toggleLanes());
    const keys = { class: "fa-panel", role: "group", "aria-label": "keys" };
    this.keys = new Panel(element("div", keys, [keyList(KEYS)]));
    this.caption = element("p", { class: "fa-caption" });
    const ask = button("?", "the keys (?)", () => this.keys.toggle(), { "aria-label": "keys" });
    const tools = [this.units.node, this.orders.node, this.numbers, this.lanesButton, this.save.button, ask];
    this.bytes = element("div", { class: "fa-bytes" });
    const details = "the code, the state of a row, more ways to play (d)";
    this.more = button("Details", details, () => this.toggleDetails());
    const left = element("div", { class: "fa-left" }, [this.pane.stage, this.opened.node]);
    this.root.append(
      element("div", { class: "fa-main" }, [left, this.aside.node]),
      this.caption,
      this.lanes.node,
      this.bytes,
      ...this.controls.rows(tools, [this.notes], [this.more]),
      this.lanes.more,
      this.save.node,
      this.keys.node,
    );
    this.begin([this.pane.stage, this.aside.rows, this.lanes.canvas]);
  }

  destroy() {
    super.destroy();
    cancelAnimationFrame(this.transition);
  }

  // Show a run in a state. The same run again (a rerun, another theme, another GPU's SRAM) keeps its own.
  load(data, state) {
    // nothing reads it in the film; a talk may go on while its picture still glides
    const hides = !data.ticks && (state?.plays || this.transport.acts) && "lse";
    const strips = data.strips.filter(({ name }) => name !== hides);
    const isNew = this.pane.load({ ...data, hides, strips });
    this.shown = data;
    this.timeline = this.pane.timeline;
    this.palette = this.pane.usePalette(this.root);
    this.lanes.load(data.lanes, this.palette);
    const { playing } = this.transport;
    if (isNew) {
      this.stand(state);
      this.root.setAttribute("aria-label", `Playback of ${data.title}. ${data.provenance}`);
      this.notes.textContent = [data.provenance, ...data.notes].join(" · ");
      this.transport.speed = this.opened.isOpen
        ? SLOW
        : 2 ** clamp(Math.round(Math.log2(this.pane.model.count / WHOLE_S)), -1, 6);
    }
    const { model } = this.pane;
    const compared = model.data.standard_parts.length ? [modelledRow(model)] : [];
    const rows = [countedRow(model, model.data.label), ...compared];
    this.showBytes = byteBars(this.bytes, rows, this.palette, model.data.standard_bytes);
    const moves = isNew && !this.pane.reduced;
    const begins = this.isPlain && !this.showsLanes && this.timeline.position === 0;
    if (moves && state.plays) this.transport.direct(overtureOf(model));
    else if (moves && (playing || begins)) this.transport.toggle();
    this.refresh();
  }

  stand(state) {
    this.timeline.unit = UNITS.includes(state.unit) ? state.unit : UNITS[0];
    this.timeline.goToText(state.step);
    this.pane.pinText(state.row);
    this.opened.stand(state.open === "tile");
    this.showsLanes = state.lanes === "open";
    this.isPlain = Boolean(state.plays ?? state.plain ?? this.isPlain ?? true); // else as the reader left it
    this.transport.use(this.timeline);
  }

  positionOf(value, isLookedAt = false) {
    const { order, model } = this.timeline;
    if (order === "gpu") return value;
    const isTile = isLookedAt && value > 0 && value < model.count;
    return isTile ? this.timeline.placeIn(value - 1) : model.phaseStart[value];
  }

  toggleDetails() {
    this.isPlain = !this.isPlain;
    this.transport.changed();
  }

  toggleLanes() {
    this.showsLanes = !this.showsLanes;
    this.transport.changed();
    if (this.showsLanes) this.lanes.node.scrollIntoView({ block: "nearest" });
  }

  // Go to the step about a tile, in the phase of an activity of the lanes; returns why not, if there is none.
  goToTile(tile, { phase, kernel }) {
    const position = positionOf(this.timeline, tile, phase, kernel);
    if (position < 0) return tile.q < 0 ? "" : "The trace has no step about this tile.";
    this.timeline.order = "one";
    this.transport.goTo(position);
    return "";
  }

  // A tile of the map is seen with its weights, if the kernel that is played comes to it.
  goToPicked(tile) {
    const { pane, transport } = this;
    const { name } = pane.model.kernels[pane.stateAt().kernel];
    if (!tile || this.goToTile(tile, { kernel: name })) transport.changed();
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

  get panels() {
    return { ...super.panels, "?": this.keys };
  }

  action(key, event) {
    if (key === "l" && this.lanes.model) return () => this.toggleLanes();
    if (key === "d") return () => this.toggleDetails();
    return super.action(key) ?? this.opened.action(key, event);
  }

  // Show everything anew after a change that is not a frame of playback.
  refresh() {
    const { timeline, transport, controls: shown, opened } = this;
    if (!timeline) return;
    const atOnce = timeline.order === "gpu";
    if (atOnce) opened.shut();
    shown.showPlaying(transport.playing);
    this.units.show(timeline.unit);
    this.orders.show(timeline.order);
    this.units.node.hidden = atOnce;
    shown.rate.textContent = `${transport.speed} ${atOnce ? "moments" : "tiles"}/s`;
    for (const node of [shown.rate, shown.count, this.slider]) node.title = atOnce ? MOMENT : "";
    this.slider.max = atOnce ? timeline.last() : this.pane.model.count;
    this.numbers.hidden = atOnce || !opened.canOpen;
    this.numbers.ariaPressed = opened.isOpen;
    this.more.ariaPressed = !this.isPlain;
    this.root.classList.toggle("fa-plain", this.isPlain);
    this.lanesButton.hidden = !this.lanes.model;
    const showsLanes = this.showsLanes && !this.lanesButton.hidden;
    this.lanesButton.ariaPressed = showsLanes;
    this.root.classList.toggle("fa-shows-lanes", showsLanes);
    this.draw();
    this.animate();
  }

  // What an arrow steps to is seen to happen, in a short time.
  animate(drawnAt = performance.now()) {
    cancelAnimationFrame(this.transition);
    if (this.transport.playing || this.seenAt(drawnAt) === this.timeline.position) return;
    this.transition = requestAnimationFrame((now) => {
      this.draw(now);
      this.animate(now); // the last frame is drawn too
    });
  }

  // The position that is seen: behind that of the track while a step is under way.
  seenAt(now) {
    const { timeline, pane, still } = this;
    const { playing, acts, movedAt, from } = this.transport;
    const { position, order } = timeline;
    if (playing || acts || still || pane.reduced || order === "gpu" || !(from < position)) return position;
    const steps = timeline.timeOf(position) - timeline.timeOf(from);
    if (steps > 1.5) return position; // it is further than from the weights of a tile to those of the next
    const ms = lerp(PHASE_MS, STEP_MS, steps);
    const part = within(now, movedAt, movedAt + ms);
    return part === 1 ? position : timeline.between(from, position, part);
  }

  draw(now = performance.now()) {
    const { pane, timeline, controls: shown } = this;
    if (!timeline || this.root.clientWidth === 0) return;
    const rate = this.still?.rate ?? this.transport.rate;
    const { directed, acts, acted } = this.transport;
    const at = pane.stateAt(timeline.position, rate);
    const { model } = pane;
    const shows = this.opened.isOpen && this.opened.shows(at.step);
    this.root.classList.toggle("fa-shows-tile", shows);
    const seen = this.seenAt(now);
    Object.assign(at, directed?.scene?.(this.transport.part));
    if (at.about >= 0) at.marks = model.q[at.about] === model.q[at.step]; // a film follows one row
    this.bytes.style.visibility = at.seen || at.stored === 0 || at.took ? "hidden" : ""; // not about them
    [0, 1, 2].forEach((i) => (this.bytes.children[i].style.visibility = at.stored >= 0 ? "hidden" : ""));
    const { active, bytes } = pane.draw(seen === timeline.position ? at : pane.stateAt(seen), shows);
    const { standard_parts: parts, ticks, tensors } = model.data;
    const lifts = ticks && at.finished && tensors.some(({ name }) => name === "S") ? "SP" : null;
    this.showBytes(0, bytes.perTensor, moved(bytes.total), lifts);
    const stored = at.stored >= 0 && storedTiles(at.stored, model.qTiles);
    const share = directed ? 1 : bytes.total / model.bytes[model.count]; // else both bars race
    const standard = parts.map(({ name, bytes: own }) => own * (stored ? movedOf(name, stored) : share));
    if (standard.length) this.showBytes(1, standard, moved(sum(standard)), at.lifts);
    if (shows) this.opened.draw(at);
    const row = at.step < 0 ? 0 : toldRow(model, at.step, pane.pinned);
    const says = directed?.says ?? captionOf(timeline, at, { row, rate, bytes, active });
    const caption = says || model.data.idea;
    say(this.caption, caption);
    this.caption.classList.toggle("fa-titled", Boolean(directed?.says));
    const picked = shows ? { head: model.head[at.step], q: model.q[at.step], row } : pane.pinned;
    const film = directed?.says && acted / sum(acts.map(({ ms }) => ms));
    const stands = timeline.order === "one" ? at.step + 1 : timeline.position;
    this.slider.value = film ? film * this.slider.max : stands;
    write(shown.count, film ? `${Math.round(acted / 1000)} s` : countWords(timeline, at));
    this.aside.draw(pane, at, picked);
    if (this.lanes.canvas.clientWidth) {
      this.lanes.follow(tilesAt(timeline, at));
      this.lanes.draw();
    }
    this.onDrawn?.(at);
    shown.tell(saidWords(timeline, at, caption), now);
  }
}
