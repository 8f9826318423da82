// Play, pause, step, speed and keys, for a player as for a duel. It moves a track, and tells its owner.
//
// A track has `position`, `last()`, `clamp(position)`, `moved(direction)` for an arrow, `played()` for a tick
// of playback, and `ticksPerStep`. The owner has `draw(now)` for a frame of playback, `refresh()` for
// everything else that changed, `settled()` once the position has stayed for a while, and `fullScreen()`. It
// may have `holds()`, which says whether the track may not go on now.

const [SLOWEST, FASTEST] = [0.5, 256]; // steps per second
const SETTLES_AFTER_MS = 400;

export class Transport {
  constructor(owner) {
    this.owner = owner;
    this.track = null;
    this.speed = 8; // steps per second
    this.playing = false;
    this.movedAt = 0; // when the position last changed, for transitions
  }

  use(track) {
    this.stop();
    this.track = track;
  }

  stop() {
    this.playing = false;
    cancelAnimationFrame(this.frame);
    clearTimeout(this.settling);
  }

  toggle() {
    const { track } = this;
    if (this.playing) {
      this.goTo(track.position);
      return;
    }
    if (this.owner.holds?.()) return;
    if (track.position >= track.last()) track.position = 0;
    this.playing = true;
    this.due = 0; // ticks that are due, a part of one included
    this.ticked = performance.now();
    this.frame = requestAnimationFrame((now) => this.tick(now));
    this.changed();
  }

  tick(now) {
    if (!this.playing) return;
    const { track } = this;
    const before = track.position;
    this.due += ((now - this.ticked) / 1000) * this.speed * track.ticksPerStep;
    this.ticked = now;
    for (; this.due >= 1 && track.position < track.last(); this.due--) track.position = track.played();
    if (track.position !== before) this.movedAt = now;
    if (track.position >= track.last()) {
      this.goTo(track.position);
      return;
    }
    this.owner.draw(now);
    this.frame = requestAnimationFrame((time) => this.tick(time));
  }

  step(direction) {
    if (direction > 0 && this.owner.holds?.()) return;
    this.goTo(this.track.moved(direction));
  }

  // Stop at a position. Returns whether it is another one.
  goTo(position) {
    const { track } = this;
    this.stop();
    const before = track.position;
    track.position = track.clamp(position);
    const moved = track.position !== before;
    if (moved) this.movedAt = performance.now();
    this.changed();
    return moved;
  }

  // Play to a position in so many milliseconds, whatever the speed.
  glide(position, ms) {
    const { track } = this;
    this.stop();
    const [from, to, began] = [track.position, track.clamp(position), performance.now()];
    const frame = (now) => {
      const part = Math.max(0, now - began) / ms;
      if (part >= 1) {
        this.goTo(to);
        return;
      }
      track.position = Math.round(from + (to - from) * part);
      this.owner.draw(now);
      this.frame = requestAnimationFrame(frame);
    };
    this.frame = requestAnimationFrame(frame);
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
      End: () => this.owner.holds?.() || this.goTo(this.track.last()),
      "[": () => this.changeSpeed(-1),
      "]": () => this.changeSpeed(1),
      f: () => this.owner.fullScreen(),
    }[key];
  }
}
