// The talk on paper: a page per scene, each at its last stop with nothing hidden, made when the browser
// prints. What is drawn on canvases is drawn finer than on the stage (--fa-pixels), in the light colours.

import { usePalette } from "../grid/draw.js";
import { element } from "../controls/dom.js";
import { beatsOf } from "./scenes.js";
import { Screen } from "./screen.js";

// The pages, which lie in the document. `notes` has one text per scene, printed below it, or none.
export function paperOf(data, notes) {
  const paper = element("div", { class: `fa-print${notes.length ? " fa-print-notes" : ""}` });
  // a palette is taken by this property of the page
  paper.style.setProperty("--st-background-color", data.palettes.light.background);
  document.body.append(paper);
  usePalette(paper, data.palettes);
  for (const [index, scene] of data.scenes.entries()) {
    const root = element("div");
    const page = element("section", { class: "fa-print-page" }, [root]);
    if (notes.length) page.append(element("div", { class: "fa-print-note" }, [notes[index].trim()]));
    paper.append(page);
    const screen = new Screen(root, data);
    screen.show({ scene: index, beat: beatsOf(scene) - 1, open: "" });
    screen.destroy(); // it stands still: nothing draws it anew
  }
  return paper;
}
