// Lanes without a player, which stand where a player could.

import { usePalette } from "../grid/draw.js";
import { LanesView } from "./lane_view.js";

export class LanesAlone {
  constructor(root) {
    this.root = root;
    this.view = new LanesView((tile) => {
      if (tile.q >= 0) this.view.follow([tile]); // the other kernel shows what it did with the same tile
    });
    root.classList.add("fa-shows-lanes");
    root.replaceChildren(this.view.node, this.view.more);
    this.observer = new ResizeObserver(() => this.view.draw());
    this.observer.observe(this.view.canvas);
  }

  load(data) {
    this.shown = data;
    this.view.load(data.lanes, usePalette(this.root, data.palettes));
    this.view.draw();
  }

  destroy() {
    this.observer.disconnect();
  }
}
