// What a speaker does, in one window or the other: moves, black, end, an opened tile. Both windows hold the
// same state.

import { Link } from "./link.js";
import { moved, placeOfText } from "./scenes.js";

export class Presenter {
  // `show(state, glides)` is called with every new state.
  constructor(data, place, show) {
    this.scenes = data.scenes;
    this.show = show;
    const standing = placeOfText(this.scenes, place);
    this.state = { ...standing, open: "", isBlack: false, isEnded: false, startedAt: 0, picks: {} };
    this.link = new Link(data.id, (state) => this.take(state), place ? this.state : null);
  }

  destroy() {
    this.link.destroy();
  }

  take(state) {
    const before = this.state;
    this.state = state;
    this.show(state, state.scene === before.scene && state.beat === before.beat + 1);
  }

  set(changes) {
    const state = { ...this.state, ...changes };
    if (JSON.stringify(state) === JSON.stringify(this.state)) return;
    this.link.send(state);
    this.take(state);
  }

  // Go to a place; whatever lies over the scene goes away.
  go(place) {
    const startedAt = this.state.startedAt || Date.now();
    this.set({ ...place, open: "", isBlack: false, isEnded: false, startedAt });
  }

  move(direction) {
    this.go(this.state.isEnded ? this.state : moved(this.scenes, this.state, direction));
  }

  next() {
    this.move(1);
  }

  back() {
    this.move(-1);
  }

  first() {
    this.goTo(1);
  }

  last() {
    this.goTo(this.scenes.length);
  }

  // A scene by its number, which counts from 1; too large a one is the last.
  goTo(number) {
    this.go(placeOfText(this.scenes, String(number)));
  }

  // From the first scene, with a new clock.
  begin() {
    this.set({
      scene: 0,
      beat: 0,
      open: "",
      isBlack: false,
      isEnded: false,
      startedAt: Date.now(),
      picks: {},
    });
  }

  // From where it was ended.
  resume() {
    this.go({ scene: this.state.scene, beat: this.state.beat });
  }

  black() {
    this.set({ isBlack: !this.state.isBlack });
  }

  open(step) {
    this.set({ open: step });
  }

  // Open a tile of what a screen shows, or close it; `refuse` is called with why there is none.
  toggleNumbers(screen, refuse) {
    const why = screen.open ? "" : screen.whyNoTile();
    if (why) refuse(why);
    else this.open(screen.open ? "" : screen.tileBeside(0));
  }

  // What the speaker has picked of a scene's choices: {length: 2}, or {} for the scene as it is.
  pick(scene, picks) {
    this.set({ open: "", picks: { ...this.state.picks, [scene]: picks } });
  }

  // One thing less: the opened tile, the black screen, then the talk itself.
  escape() {
    if (this.state.open) this.set({ open: "" });
    else if (this.state.isBlack) this.set({ isBlack: false });
    else this.set({ isEnded: true });
  }
}
