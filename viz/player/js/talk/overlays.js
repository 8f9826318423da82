// What may lie over a scene: the list of keys, and all scenes with their numbers.

import { element, write } from "../controls/dom.js";
import { Panel } from "../controls/help.js";

export const overlay = (name, label, children) =>
  element("div", { class: `fa-over fa-over-${name}`, role: "dialog", "aria-label": label }, children);

// Lists the scenes and asks for the number of one, digit by digit. `goTo(number)` is called with it.
export class NumberPrompt extends Panel {
  constructor(titles, goTo) {
    const asked = element("div", { "aria-live": "polite" });
    const items = titles.map((title) => element("li", {}, [title]));
    super(overlay("prompt", "all scenes", [asked, element("ol", {}, items)]));
    Object.assign(this, { count: titles.length, goTo, asked });
  }

  open(digits = "") {
    super.open();
    this.digits = digits;
    write(this.asked, `Scene ${digits || "_"} of ${this.count}`);
  }

  // While it is open it takes every key, so that a letter does nothing else.
  press(key) {
    if (/^\d$/.test(key)) this.open(this.digits + key);
    else if (key === "Backspace") this.open(this.digits.slice(0, -1));
    else if (key === "Esc" || key === "Enter") this.close();
    if (key === "Enter" && Number(this.digits) > 0) this.goTo(Number(this.digits));
  }
}
