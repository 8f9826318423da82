// Entry of the Streamlit component that shows lanes without a player.

import { usePalette } from "./grid/draw.js";
import { LanesView } from "./lanes/lane_view.js";

const views = new WeakMap(); // of each parent element

export default function (component) {
  const { data, parentElement } = component;
  const root = parentElement.querySelector(".fa-player");
  if (!views.has(parentElement)) {
    const view = new LanesView((tile) => {
      if (tile.q >= 0) view.follow([tile]); // the other kernel shows what it did with the same tile
    });
    views.set(parentElement, view);
    root.classList.add("fa-shows-lanes");
    root.replaceChildren(view.node, view.more);
    new ResizeObserver(() => view.draw()).observe(view.canvas);
  }
  const view = views.get(parentElement);
  view.load(data.lanes, usePalette(root, data.palettes));
  view.draw();
}
