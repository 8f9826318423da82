// Entry of the Streamlit component. It runs again at every rerun and theme change; the player lives on.

import { Duel } from "./duel.js";
import { Player } from "./player.js";

const players = new WeakMap();

export default function (component) {
  const { data, parentElement, setStateValue } = component;
  let player = players.get(parentElement);
  if (!player) {
    const root = parentElement.querySelector(".fa-player");
    player = new (data.run.runs ? Duel : Player)(root);
    players.set(parentElement, player);
  }
  player.load(data.run, data.state);
  let last = JSON.stringify(data.state);
  player.onSettled = (state) => {
    if (JSON.stringify(state) === last) return;
    last = JSON.stringify(state);
    setStateValue("where", { run: data.run.id, state });
  };
  return () => {
    players.delete(parentElement);
    player.destroy();
  };
}
