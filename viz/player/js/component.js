// Entry of the Streamlit component. It runs again at every rerun and theme change; the player lives on.

import { Duel } from "./duel.js";
import { Player } from "./player.js";

const mounts = new WeakMap(); // {player, calls} of each parent element

export default function (component) {
  const { data, parentElement, setStateValue } = component;
  const mount = mounts.get(parentElement) ?? { player: null, calls: 0 };
  mounts.set(parentElement, mount);
  const Kind = data.run.runs ? Duel : Player;
  if (!(mount.player instanceof Kind)) {
    mount.player?.destroy();
    const root = parentElement.querySelector(".fa-player");
    root.replaceChildren();
    mount.player = new Kind(root);
  }
  const { player } = mount;
  player.load(data.run, data.state);
  let last = JSON.stringify(data.state);
  player.onSettled = (state) => {
    if (JSON.stringify(state) === last) return;
    last = JSON.stringify(state);
    setStateValue("where", { run: data.run.id, state });
  };
  // Streamlit also cleans up after a call that another one overtook while the script was still being loaded. The
  // player is by then the later call's, and lives on.
  const call = ++mount.calls;
  return () => {
    if (call !== mount.calls) return;
    player.destroy();
    mount.player = null;
  };
}
