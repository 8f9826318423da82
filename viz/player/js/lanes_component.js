// Entry of the Streamlit component that shows lanes without a player.

import { LanesAlone } from "./lanes/lanes_alone.js";

const views = new WeakMap(); // of each parent element

export default function (component) {
  const { data, parentElement } = component;
  const root = parentElement.querySelector(".fa-player");
  if (!views.has(parentElement)) views.set(parentElement, new LanesAlone(root));
  views.get(parentElement).load(data);
}
