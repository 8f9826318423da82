// What a player and runs beside each other have in common: the transport, its controls, the keys, saving.

import { controls, element, fitScreen, toggleFullScreen } from "./controls/dom.js";
import { takeKeys } from "./controls/keyboard.js";
import { Transport } from "./run/transport.js";
import { SavePanel } from "./save/save.js";

// A subclass has `shown` (the data), `palette`, `state()`, and what transport.js calls of its owner.
export class Playback {
  // `onSettled(state())` is called once it has stood for a moment.
  constructor(root, onSettled = () => {}, slides = "position of all runs") {
    Object.assign(this, { root, onSettled });
    this.transport = new Transport(this);
    this.notes = element("div", { class: "fa-notes" });
    this.save = new SavePanel(this);
    this.controls = controls(this, slides);
    this.slider = this.controls.slider;
    this.slider.addEventListener("input", ({ target: { value, max } }) => {
      if (this.transport.directed?.says) this.transport.wind(value / max);
      else this.transport.goTo(this.positionOf(Math.round(value), true));
    });
  }

  // Take the keys of the page, and draw again whenever a canvas changes its size.
  begin(canvases) {
    this.dropKeys = takeKeys(this);
    this.observer = new ResizeObserver(() => {
      fitScreen(this.root);
      this.draw();
    });
    canvases.forEach((node) => this.observer.observe(node));
    this.fontsCame = () => this.draw(); // they come after a canvas has asked for them
    document.fonts.addEventListener("loadingdone", this.fontsCame);
  }

  destroy() {
    this.dropKeys();
    this.save.ending?.abort();
    this.observer.disconnect();
    document.fonts.removeEventListener("loadingdone", this.fontsCame);
    this.transport.stop();
  }

  // The panels that open and close, by their keys; Escape closes one too.
  get panels() {
    return { s: this.save };
  }

  // What a key does that the transport does not know; undefined for the others.
  action(key) {
    if (key === "f") return () => toggleFullScreen(this.root);
    const all = Object.values(this.panels);
    const panel = this.panels[key] ?? (key === "Escape" && all.find(({ isOpen }) => isOpen));
    return panel ? () => panel.toggle() : undefined;
  }

  get shownAs() {
    return { title: this.shown.title, where: this.controls.count.textContent, foot: this.notes.textContent };
  }

  positionOf(value) {
    return value;
  }

  // Draw it as it stands, without anything under way; as it looks at so many tiles per second.
  drawStill(rate = 0) {
    this.still = { rate };
    this.draw();
    this.still = null;
  }

  // Another order of the track, from its start, or from its end if it has come there.
  setOrder(order) {
    const { track } = this.transport;
    if (order === track.order) return;
    const finished = track.position >= track.last();
    track.order = order;
    this.transport.goTo(finished ? track.last() : 0);
  }

  settled() {
    this.onSettled(this.state());
  }
}
