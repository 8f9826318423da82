// What may lie over a scene: the list of keys, the question for a number, the curtain, the overview, the
// laser's dot.

import { element } from "../controls/dom.js";
import { Screen } from "./screen.js";
import { HELP } from "./talk_keys.js";

function panel(name, label, children = []) {
  return element(
    "div",
    { class: `fa-over fa-over-${name}`, role: "dialog", "aria-label": label, hidden: "" },
    children,
  );
}

export function helpPanel() {
  const rows = HELP.flatMap(([keys, words]) => [element("dt", {}, [keys]), element("dd", {}, [words])]);
  return panel("help", "keys", [element("dl", {}, rows)]);
}

// Asks for the number of a scene. `goTo(number)` is called with it.
export class NumberPrompt {
  constructor(count, goTo) {
    const label = "number of the scene";
    this.input = element("input", { type: "text", inputmode: "numeric", size: "3", "aria-label": label });
    const form = element("form", {}, [element("label", {}, ["Scene ", this.input, ` of ${count}`])]);
    this.node = panel("prompt", label, [form]);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const number = Number(this.input.value);
      this.close();
      if (Number.isInteger(number) && number > 0) goTo(number);
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
    this.input.addEventListener("blur", () => this.close());
  }

  open(digits = "") {
    this.node.hidden = false;
    this.input.value = digits;
    this.input.focus();
  }

  close() {
    if (this.node.hidden) return;
    this.node.hidden = true;
    this.input.blur();
  }
}

// All scenes as a grid of small screens, which are made when it is first opened.
export class Overview {
  // `sceneOf(index)` is a scene as the stage shows it now.
  constructor(data, goTo, sceneOf) {
    Object.assign(this, { data, goTo, sceneOf });
    this.node = panel("overview", "all scenes");
    this.tiles = [];
  }

  get isOpen() {
    return !this.node.hidden;
  }

  open(scene) {
    this.node.hidden = false;
    if (!this.tiles.length) this.build();
    this.screens.forEach((screen, index) => {
      const shown = this.sceneOf(index);
      if (screen.scene !== shown) screen.show({ scene: index, beat: 0, open: "" }, false, shown);
    });
    this.select(scene);
  }

  close() {
    this.node.hidden = true;
  }

  // Scenes in a row.
  get columns() {
    const [{ offsetTop: first }] = this.tiles;
    return this.tiles.filter(({ offsetTop }) => offsetTop === first).length;
  }

  build() {
    this.screens = this.data.scenes.map((scene, index) => {
      const root = element("div", { inert: "" });
      const label = `scene ${index + 1}: ${scene.title}`;
      const tile = element(
        "button",
        { type: "button", "aria-label": label, onclick: () => this.choose(index) },
        [root],
      );
      this.node.append(tile);
      this.tiles.push(tile);
      return new Screen(root, this.data);
    });
  }

  destroy() {
    this.screens?.forEach((screen) => screen.destroy());
  }

  select(index) {
    this.selected = Math.max(0, Math.min(this.tiles.length - 1, index));
    this.tiles.forEach((tile, i) => tile.setAttribute("aria-pressed", String(i === this.selected)));
    this.tiles[this.selected].scrollIntoView({ block: "nearest" });
  }

  choose(index = this.selected) {
    this.close();
    this.goTo(index + 1);
  }
}

// A dot where the pointer is. Its place is a part of the screen's width and height.
export class Laser {
  constructor() {
    this.node = element("div", { class: "fa-laser", hidden: "", "aria-hidden": "true" });
  }

  show(place) {
    this.node.hidden = !place;
    if (!place) return;
    this.node.style.left = `${100 * place[0]}%`;
    this.node.style.top = `${100 * place[1]}%`;
  }
}
