// The player of one run. It works in a Streamlit component and in a plain HTML page alike.

import { canvas, choice, controls, element, fillSource, legend, toggleFullScreen } from "./dom.js";
import { takeKeys } from "./keyboard.js";
import { Pane } from "./pane.js";
import { drawRows } from "./rows.js";
import { recordedSeries } from "./series.js";
import { UNITS } from "./timeline.js";
import { Transport, browserClock } from "./transport.js";
import { countWords, curveWords, rateWords, readoutWords, rowWords } from "./words.js";

const SAYS_EVERY_MS = 900; // while it plays, so that a screen reader can follow
const TWEEN_MS = 500;
const TWEENED_SPEED = 8; // faster playback has no time for transitions

export class Player {
  // `onSettled` is called with `state()` once the player has stood there for a moment.
  constructor(root, onSettled = () => {}) {
    this.root = root;
    this.onSettled = onSettled;
    this.reduced = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.pane = new Pane(() => this.transport.changed());
    this.transport = new Transport(this);
    this.build();
    this.dropKeys = takeKeys(this);
    this.observer = new ResizeObserver(() => this.draw());
    [this.pane.nodes.stage, this.pane.nodes.chip, this.rows].forEach((node) => this.observer.observe(node));
  }

  build() {
    const { nodes } = this.pane;
    this.source = element("div", { class: "fa-source", tabindex: "0", "aria-label": "kernel source" });
    this.rowTitle = element("div", { class: "fa-head" });
    this.rows = canvas("rows", "state of one row over the steps");
    this.legend = legend();
    this.notes = element("div", { class: "fa-notes" });
    this.controls = controls(this, "step");
    this.slider = this.controls.slider;
    this.slider.addEventListener("input", () => this.transport.goTo(this.sliderPosition()));
    this.units = choice("step by", UNITS.map((unit) => [unit, unit]), (unit) => this.setUnit(unit));
    const orders = [["one", "one by one"], ["gpu", "all at once"]];
    this.orders = choice("programs", orders, (order) => this.setOrder(order));
    const { bar, speed, readout } = this.controls;
    this.root.append(
      element("div", { class: "fa-main" }, [
        element("div", { class: "fa-left" }, [nodes.stage, this.legend.node, nodes.chip]),
        element("div", { class: "fa-right" }, [this.source, this.rowTitle, this.rows]),
      ]),
      nodes.bytes,
      element("div", { class: "fa-controls" }, [
        bar,
        speed,
        this.units.node,
        this.orders.node,
        element("div", { class: "fa-foot" }, [readout, this.notes]),
      ]),
    );
  }

  destroy() {
    this.dropKeys();
    this.observer.disconnect();
    this.transport.stop();
    cancelAnimationFrame(this.transition);
  }

  // Show a run in a state. The same run again (a rerun, another theme, another GPU's SRAM) keeps its own.
  load(data, state) {
    const isNew = this.pane.load(data);
    this.pane.usePalette(this.root);
    if (isNew) {
      this.timeline.unit = UNITS.includes(state.unit) ? state.unit : UNITS[0];
      this.timeline.goToText(state.step);
      this.pane.pinText(state.row);
      this.transport.use(this.timeline);
      this.shownKernel = null;
      this.root.setAttribute("aria-label", `Playback of ${data.title}. ${data.provenance}`);
      this.legend.says([this.pane.model]);
      this.notes.textContent = [data.provenance, ...data.notes].join(" · ");
    }
    this.pane.scaleBytes();
    this.refresh();
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

  sliderPosition() {
    const value = Number(this.slider.value);
    return this.timeline.order === "one" ? this.pane.model.phaseStart[value] : value;
  }

  fullScreen() {
    toggleFullScreen(this.root);
  }

  settled() {
    this.onSettled(this.state());
  }

  // What is worth remembering, in words: the step, and the unit and the picked row if they were chosen.
  state() {
    const { timeline, pane } = this;
    const state = { step: timeline.text() };
    if (timeline.unit !== UNITS[0]) state.unit = timeline.unit;
    if (pane.pinned) state.row = pane.pinnedText();
    return state;
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
    this.slider.max = atOnce ? timeline.last() : this.pane.model.count;
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

  tweenAt(now) {
    const { playing, speed, movedAt } = this.transport;
    if (this.reduced || speed > TWEENED_SPEED) return 1;
    return Math.min(1, Math.max(0, now - movedAt) / (playing ? TWEEN_MS / speed : TWEEN_MS));
  }

  draw(now = browserClock.now()) {
    const { pane, timeline, controls: shown } = this;
    if (!timeline || !pane.visible) return;
    const at = pane.stateAt(this.tweenAt(now));
    const { active, bytes } = pane.draw(at);
    drawRows(this.rows, pane.model, pane.palette, at, pane.pinned);
    this.slider.value = timeline.order === "one" ? at.done : timeline.position;
    shown.count.textContent = countWords(timeline, at);
    const row = rowWords(pane.model, at, pane.pinned);
    if (this.rowTitle.textContent !== row) this.rowTitle.textContent = row;
    this.showSource(at);
    if (this.transport.playing && now - (this.said ?? 0) < SAYS_EVERY_MS) return;
    this.said = now;
    shown.readout.textContent = readoutWords(timeline, at, bytes, active, pane.pinned);
  }

  // The kernel's source, with the lines of the phase lit.
  showSource(at) {
    const { model } = this.pane;
    if (at.kernel !== this.shownKernel) {
      this.lines = fillSource(this.source, model, at.kernel);
      this.shownKernel = at.kernel; // once it is shown
      this.litPhase = undefined;
      this.rows.title = curveWords(recordedSeries(model, at.kernel));
    }
    if (at.phase === this.litPhase) return;
    this.litPhase = at.phase;
    let first = null;
    for (const { line, phase } of this.lines) {
      const lit = phase === at.phase?.name;
      line.classList.toggle("fa-lit", lit);
      if (lit) first ??= line;
    }
    if (first) this.source.scrollTop = Math.max(0, first.offsetTop - this.source.clientHeight / 3);
  }
}
