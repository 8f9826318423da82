// The overview of the keys, and what opens and closes.

import { element } from "./dom.js";

export const KEYS = [
  ["Space", "play or pause"],
  ["→ ←", "one step on, one back; in a film, one sentence"],
  ["Home End", "to the start, to the end"],
  ["[ ]", "slower, faster"],
  ["f", "full screen"],
  ["d", "details: the code and the state of a row"],
  ["z", "a tile in its numbers, or back to the grid"],
  ["↑ ↓", "the row that is told (in the numbers)"],
  ["Shift → ←", "how a number of that row was made (in the numbers)"],
  ["l", "lanes of an SM, if the run has them"],
  ["s", "save a picture or an animation"],
  ["Esc", "close what is open, back to the grid"],
  ["?", "this list"],
];

export class Panel {
  constructor(node) {
    this.node = node;
    node.hidden = true;
  }

  get isOpen() {
    return !this.node.hidden;
  }

  open() {
    this.node.hidden = false;
    this.node.scrollIntoView({ block: "nearest" });
  }

  close() {
    this.node.hidden = true;
  }

  toggle() {
    if (this.isOpen) this.close();
    else this.open();
  }
}

export function keyList(rows) {
  const children = rows.flatMap(([key, words]) => [element("dt", {}, [key]), element("dd", {}, [words])]);
  return element("dl", { class: "fa-keys" }, children);
}
