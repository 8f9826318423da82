// The talk on paper: a page per scene, each at its last stop with nothing hidden, made when the browser
// prints. What is drawn on canvases on the stage is drawn as vectors here, in the light colours.

import { drawElsewhere, handColors } from "../grid/draw.js";
import { element } from "../controls/dom.js";
import { beatsOf } from "./scenes.js";
import { Screen } from "./screen.js";
import { SvgContext } from "../grid/svg.js";

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
    this.data.scenes.forEach((scene, index) => this.page(scene, index, palette.background));
  }

  page(scene, index, background) {
    const root = element("div");
    const page = element("section", { class: "fa-print-page" }, [root]);
    if (this.notes.length)
      page.append(element("div", { class: "fa-print-note" }, [this.notes[index].trim()]));
    this.node.append(page);
    const screen = new Screen(root, this.data);
    screen.show({ scene: index, beat: beatsOf(scene) - 1, open: "" });
    Object.values(screen.owners).forEach((owner) => drawAsVectors(owner, background));
    screen.destroy(); // it stands still: nothing draws it anew
  }
}

// Put vectors in the place of the canvases of a player or a duel. A chart has them on the stage too; lanes,
// which cut off what lies outside their time, stay pixels.
function drawAsVectors(owner, background) {
  const all = [...owner.root.querySelectorAll("canvas:not(.fa-lanes)")];
  const canvases = all.filter((canvas) => canvas.clientWidth > 0);
  const places = new Map(
    canvases.map((canvas) => [canvas, { context: new SvgContext(background), x: 0, y: 0, scale: 1 }]),
  );
  drawElsewhere(places, () => owner.drawStill());
  for (const [canvas, { context }] of places) {
    const drawn = element("div", { class: canvas.className });
    drawn.innerHTML = context.text(canvas.clientWidth, canvas.clientHeight);
    canvas.replaceWith(drawn);
  }
}
