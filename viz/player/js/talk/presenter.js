// What a speaker does in any window: moves, black, end, an opened tile. All windows hold the same state.

import { isLast, moved, placeOfText } from "./scenes.js";

const NOTHING_OVER_IT = { open: "", isBlack: false, isEnded: false, stands: false };

// Keeps windows in step. There is one message: the newest state that a window knows of. A state is newer if
// its version is higher, and of two with one version that of the larger window id. Who hears an older one
// answers with its own. It speaks over a BroadcastChannel, and also to the window that opened it or that it
// opened, since some browsers have no channel between files on disk.
export class Link {
  // `receive` gets a state that another window made. `standing`, that of the address or null, gives way to
  // any other. It listens until the signal.
  constructor(name, receive, standing, signal) {
    Object.assign(this, { name, receive, id: Math.random().toString(36).slice(2) });
    this.known = { version: standing ? 0 : -1, from: "", state: standing };
    this.windows = new Set(window.opener ? [window.opener] : []);
    this.channel = window.BroadcastChannel && new BroadcastChannel(`talk ${name}`);
    this.channel?.addEventListener("message", ({ data }) => this.hear(data));
    signal.addEventListener("abort", () => this.channel?.close());
    const hear = ({ source, data }) => this.windows.has(source) && this.hear(data);
    window.addEventListener("message", hear, { signal });
    // a hidden tab may have missed something
    document.addEventListener("visibilitychange", () => document.hidden || this.tell(), { signal });
    this.tell();
  }

  send(state) {
    this.known = { version: this.known.version + 1, from: this.id, state };
    this.tell();
  }

  tell() {
    const told = { talk: this.name, known: this.known };
    this.channel?.postMessage(told);
    const origin = location.protocol === "file:" || location.origin === "null" ? "*" : location.origin;
    for (const other of this.windows) if (!other.closed) other.postMessage(told, origin);
  }

  hear(told) {
    if (told?.talk !== this.name) return;
    const { version, from, state } = told.known;
    const newer = version - this.known.version || (from > this.known.from) - (from < this.known.from);
    if (newer < 0) this.tell();
    if (newer <= 0) return;
    this.known = told.known;
    this.receive(state);
  }
}

export class Presenter {
  constructor({ id, scenes }, place, show, signal) {
    Object.assign(this, { scenes, show });
    this.state = { ...placeOfText(scenes, place), ...NOTHING_OVER_IT, startedAt: 0 };
    this.state.isEnded = !place; // without a place, its title is shown first
    this.link = new Link(id, (state) => this.take(state), place ? this.state : null, signal);
  }

  take(state) {
    const { state: was } = this;
    const next = moved(this.scenes, was, 1);
    const isNext = state.scene === next.scene && state.beat === next.beat;
    const isEntered = state.beat === 0 && (state.scene !== was.scene || was.isEnded);
    this.state = state;
    this.show(state, !state.stands && (isNext || isEntered || (was.open && state.open)));
  }

  set(changes) {
    const state = { ...this.state, ...changes };
    if (JSON.stringify(state) === JSON.stringify(this.state)) return;
    this.link.send(state);
    this.take(state);
  }

  go({ scene, beat }) {
    this.set({ scene, beat, ...NOTHING_OVER_IT, startedAt: this.state.startedAt || Date.now() });
  }

  // One beat on (1) or back (-1), once the picture stands. Behind the last one is the title, then only back.
  move(direction, isUnderWay = false) {
    const { state, scenes } = this;
    const isBegun = !state.isEnded || state.startedAt;
    if (isUnderWay && !state.isEnded) this.set({ stands: true });
    else if (direction > 0 && isBegun && isLast(scenes, state)) this.set({ isEnded: true });
    else this.go(state.isEnded ? state : moved(scenes, state, direction));
  }

  // A scene by its number, which counts from 1; too large a one is the last.
  goTo(number) {
    this.go(placeOfText(this.scenes, String(number)));
  }

  begin() {
    this.set({ scene: 0, beat: 0, ...NOTHING_OVER_IT, startedAt: Date.now() });
  }

  // One thing less: the opened tile, the black screen, then the talk itself.
  escape() {
    const { open, isBlack } = this.state;
    this.set(open ? { open: "" } : isBlack ? { isBlack: false } : { isEnded: true });
  }
}
