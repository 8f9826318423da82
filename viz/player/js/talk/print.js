// The talk on paper: a page per scene, each at its last stop with nothing hidden, made when the browser
// prints. What is drawn on canvases is drawn finer than on the stage, in the light colours.

import { drawElsewhere, handColors } from "../grid/draw.js";
import { element } from "../controls/dom.js";
import { beatsOf } from "./scenes.js";
import { Screen } from "./screen.js";

const FINER = 4; // pixels per CSS pixel

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
    Object.values(screen.owners).forEach((owner) => drawFiner(owner));
    screen.destroy(); // it stands still: nothing draws it anew
  }
}

// Put finer canvases in the place of those of a player or a duel. Lanes stay as they are.
function drawFiner(owner) {
  const all = [...owner.root.querySelectorAll("canvas:not(.fa-lanes)")];
  const papers = all
    .filter(({ clientWidth }) => clientWidth > 0)
    .map((canvas) => {
      const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((size) => size * FINER);
      return [canvas, element("canvas", { class: canvas.className, width, height })];
    });
  const places = papers.map(([canvas, paper]) => [
    canvas,
    { context: paper.getContext("2d"), x: 0, y: 0, scale: FINER },
  ]);
  drawElsewhere(new Map(places), () => owner.drawStill());
  for (const [canvas, paper] of papers) canvas.replaceWith(paper);
}
