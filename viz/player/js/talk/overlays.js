// What may lie over a scene: the list of keys, the number of a scene, all scenes.

import { button, element, press } from "../controls/dom.js";
import { Panel } from "../controls/help.js";
import { clamp } from "../run/easing.js";

export class Overlay extends Panel {
  constructor(name, label, children = []) {
    super(
      element("div", { class: `fa-over fa-over-${name}`, role: "dialog", "aria-label": label }, children),
    );
  }
}

// Asks for the number of a scene, digit by digit. `goTo(number)` is called with it.
export class NumberPrompt extends Overlay {
  constructor(count, goTo) {
    super("prompt", "number of the scene");
    Object.assign(this, { count, goTo });
    this.node.setAttribute("aria-live", "polite");
  }

  open(digits = "") {
    super.open();
    this.digits = digits;
    this.node.textContent = `Scene ${digits || "_"} of ${this.count}`;
  }

  // While it is open it takes every key, so that a letter does nothing else.
  press(key) {
    if (/^\d$/.test(key)) this.open(this.digits + key);
    else if (key === "Backspace") this.open(this.digits.slice(0, -1));
    else if (key === "Esc" || key === "Enter") this.close();
    if (key === "Enter" && Number(this.digits) > 0) this.goTo(Number(this.digits));
  }
}

// All scenes as a grid of small screens, which are made when it is first opened.
export class Overview extends Overlay {
  // `stage` is the window that it lies over.
  constructor(stage) {
    super("overview", "all scenes");
    Object.assign(this, { stage, tiles: [] });
  }

  open() {
    super.open();
    const { data, presenter } = this.stage;
    if (!this.tiles.length) data.scenes.forEach((each, index) => this.add(each, index));
    this.select(presenter.state.scene);
  }

  add({ title }, index) {
    const root = element("div", { inert: "" });
    const label = { "aria-label": `scene ${index + 1}: ${title}` };
    this.tiles.push(button(root, "", () => this.stage.goTo(index + 1), label));
    this.node.append(this.tiles.at(-1));
    this.stage.makeScreen(root).show({ scene: index, beat: 0, open: "" });
  }

  select(index) {
    this.selected = clamp(index, 0, this.tiles.length - 1);
    this.tiles.forEach((tile, i) => press(tile, i === this.selected));
    this.tiles[this.selected].scrollIntoView({ block: "nearest" });
  }

  // The keys that move choose a scene. Returns whether the key was one of them.
  press(action, key) {
    const [{ offsetTop: first }] = this.tiles;
    const columns = this.tiles.filter(({ offsetTop }) => offsetTop === first).length;
    const by = { "↓": columns, "↑": -columns }[key] ?? { next: 1, back: -1 }[action];
    const to = { first: 0, last: Infinity }[action] ?? this.selected + by;
    if (key === "Enter") this.stage.goTo(this.selected + 1);
    else if (Number.isNaN(to)) return false;
    else this.select(to);
    return true;
  }
}
