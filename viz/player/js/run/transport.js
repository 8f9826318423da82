// Play, pause, step, speed and keys, for a player as for a duel. It moves a Track (timeline.js), and tells
// its owner: `draw(now)` for a frame of playback, `refresh()` for everything else that changed, `settled()`
// once the position has stayed.

import { clamp, smooth } from "./easing.js";
import { sum } from "./model.js";

const [SLOWEST, FASTEST] = [0.125, 1024]; // units per second
const SETTLES_AFTER_MS = 400;
const LONGEST_FRAME_MS = 250; // more passes only while nobody sees it, as in a tab behind another

export class Transport {
  constructor(owner) {
    this.owner = owner;
    this.track = null;
    this.speed = 8; // units per second
    this.playing = false;
    this.movedAt = 0; // when the position last changed, and from where it did: for transitions
    this.from = 0;
  }

  use(track) {
    this.stop();
    this.track = track;
  }

  stop() {
    this.playing = false;
    this.acts = this.directed = null;
    cancelAnimationFrame(this.frame);
    clearTimeout(this.settling);
  }

  toggle() {
    const { track } = this;
    if (this.playing && !this.acts) return this.goTo(track.position);
    if (track.position >= track.last() && !this.acts) track.position = 0;
    if (this.acts && this.part === 1) this.acted = 0; // once more
    this.playing = !this.playing; // what is directed stands meanwhile
    this.ticked = performance.now();
    cancelAnimationFrame(this.frame);
    if (this.playing) this.frame = requestAnimationFrame((now) => this.tick(now));
    this.changed();
  }

  tick(now) {
    if (!this.playing && !this.acts) return;
    const { track } = this;
    const ms = clamp(now - this.ticked, 0, LONGEST_FRAME_MS);
    this.ticked = now;
    if (this.acts) this.act((this.acted += ms));
    else track.position = track.played((ms / 1000) * this.speed);
    if (this.acts ? this.part === 1 : !this.playing || track.position >= track.last()) {
      if (this.playing) this.goTo(track.position);
      return;
    }
    this.owner.draw(now);
    this.frame = requestAnimationFrame((time) => this.tick(time));
  }

  // Play what is directed: acts {from, to, ms, rate, shape}, each from one position to another in so many
  // milliseconds, seen as at so many tiles per second. After the last one it plays on, stays or ends.
  direct(acts, stays = false) {
    this.stop();
    Object.assign(this, { acts, stays, playing: !stays, acted: 0, ticked: performance.now() });
    this.frame = requestAnimationFrame((now) => this.tick(now));
    if (!stays) this.changed();
  }

  // Go to a part of all that is directed.
  wind(part) {
    this.act((this.acted = part * sum(this.acts.map(({ ms }) => ms))));
    this.owner.refresh();
  }

  act(ms) {
    let since = ms;
    const now = this.acts.find((each) => (since -= each.ms) < 0);
    this.directed = now ?? this.acts.at(-1);
    const { from, to, ms: all, shape = smooth } = this.directed;
    this.part = now ? (since + all) / all : 1;
    this.track.position = this.track.between(from, to, shape(this.part));
    if (now) return;
    if (this.stays) return this.goTo(to);
    this.playing &&= this.track.position < this.track.last();
    if (this.playing) this.acts = this.directed = null;
    this.owner.refresh();
  }

  // Tiles per second, as they are seen.
  get rate() {
    if (this.directed) return this.directed.rate(this.part);
    return this.playing ? this.track.tileRate(this.speed) : 0;
  }

  // Stop at a position.
  goTo(position) {
    const { track } = this;
    this.stop();
    const before = track.position;
    track.position = track.clamp(position);
    if (track.position !== before) Object.assign(this, { movedAt: performance.now(), from: before });
    this.changed();
  }

  // Play to a position in so many milliseconds, whatever the speed: over many steps the first ones slowly.
  glide(position, ms) {
    const { track } = this;
    const [from, to] = [track.position, track.clamp(position)];
    const shape = track.shapeOf(from, to);
    const steps = track.tilesBetween(from, to);
    const rate = (part) => (steps * (shape(part + 0.01) - shape(part))) / (0.01 * (ms / 1000));
    this.direct([{ from, to, ms, rate, shape }], true);
  }

  // To the next place of the track, or the start of the next act of a film; or to the one before.
  step(direction) {
    if (!this.acts || this.stays) return this.goTo(this.track.moved(direction));
    const before = this.acts.slice(0, Math.max(0, this.acts.indexOf(this.directed) + direction));
    this.act((this.acted = sum(before.map(({ ms }) => ms))));
    this.owner.refresh();
  }

  changeSpeed(direction) {
    this.speed = Math.max(SLOWEST, Math.min(FASTEST, this.speed * 2 ** direction));
    this.changed();
  }

  changed() {
    this.owner.refresh();
    clearTimeout(this.settling);
    if (!this.playing) this.settling = setTimeout(() => this.owner.settled(), SETTLES_AFTER_MS);
  }

  // What a key does; undefined for a key that the transport does not know.
  action(key) {
    return {
      " ": () => this.toggle(),
      ArrowRight: () => this.step(1),
      ArrowLeft: () => this.step(-1),
      Home: () => this.goTo(0),
      End: () => this.goTo(this.track.last()),
      "[": () => this.changeSpeed(-1),
      "]": () => this.changeSpeed(1),
    }[key];
  }
}
