// The overview of the keys.

import { element } from "./dom.js";

const KEYS = [
  ["Space", "play or pause"],
  ["→ ←", "one step on, one back"],
  ["Home End", "to the start, to the end"],
  ["[ ]", "slower, faster"],
  ["f", "full screen"],
  ["d", "details: the code and the state of a row"],
  ["z", "a tile in its numbers, or back to the grid"],
  ["p", "predict m, α and l before they are shown (in the numbers)"],
  ["↑ ↓", "the row that is told (in the numbers)"],
  ["Shift → ←", "how a number of that row was made (in the numbers)"],
  ["l", "lanes of an SM, if the run has them"],
  ["s", "save a picture or an animation"],
  ["Esc", "close what is open, back to the grid"],
  ["?", "this list"],
];

// A list of keys: [[key, what it does], ...].
export function keyList(rows, attributes = {}) {
  const children = rows.flatMap(([key, words]) => [element("dt", {}, [key]), element("dd", {}, [words])]);
  return element("dl", attributes, children);
}

// The keys of a player, as a list that opens and closes.
export function keysPanel() {
  const node = keyList(KEYS, { class: "fa-panel fa-keys", hidden: "", "aria-label": "keys" });
  return {
    node,
    get isOpen() {
      return !node.hidden;
    },
    toggle() {
      node.hidden = !node.hidden;
      if (!node.hidden) node.scrollIntoView({ block: "nearest" });
    },
  };
}
