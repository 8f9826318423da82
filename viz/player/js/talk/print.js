// The talk on paper: a page per scene, each at its last stop with nothing hidden, made when the browser
// prints. What is drawn on canvases is drawn finer than on the stage (--fa-pixels), in the light colours.

import { handColors } from "../grid/draw.js";
import { element } from "../controls/dom.js";
import { beatsOf } from "./scenes.js";
import { Screen } from "./screen.js";

export class Printing {
  // `notes` has one text per scene, which is printed below it; without notes it is empty.
  constructor(data, notes) {
    Object.assign(this, { data, notes });
    this.node = element("div", { class: `fa-print${notes.length ? " fa-print-notes" : ""}` });
  }

  build() {
    this.node.replaceChildren();
    const palette = this.data.palettes.light;
    handColors(this.node, palette);
    // a player takes its palette by this property of the page
    this.node.style.setProperty("--st-background-color", palette.background);
    document.body.append(this.node);
    this.data.scenes.forEach((scene, index) => this.page(scene, index));
  }

  page(scene, index) {
    const root = element("div");
    const page = element("section", { class: "fa-print-page" }, [root]);
    if (this.notes.length)
      page.append(element("div", { class: "fa-print-note" }, [this.notes[index].trim()]));
    this.node.append(page);
    const screen = new Screen(root, this.data);
    screen.show({ scene: index, beat: beatsOf(scene) - 1, open: "" });
    screen.destroy(); // it stands still: nothing draws it anew
  }
}
