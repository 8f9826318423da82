// Entry of the Streamlit component. It runs again at every rerun and theme change; the player lives on.

import { kindOf } from "./kinds.js";

const mounts = new WeakMap(); // {player, calls} of each parent element

export default function (component) {
  const { data, parentElement, setStateValue } = component;
  const mount = mounts.get(parentElement) ?? { player: null, calls: 0 };
  mounts.set(parentElement, mount);
  const Kind = kindOf(data.run);
  if (!(mount.player instanceof Kind)) {
    mount.player?.destroy();
    const root = parentElement.querySelector(".fa-player");
    root.replaceChildren();
    mount.player = new Kind(root);
  }
  const { player } = mount;
  // A call that was cleaned up leaves its state, which the server may not know yet, and goes on playing.
  const left = mount.left?.run === data.run.id ? mount.left : null;
  mount.left = null;
  if (player.opened) player.opened.runsRows = Boolean(data.runs_rows);
  player.load(data.run, left?.state ?? data.state);
  if (left?.plays && !player.transport.playing) player.transport.toggle();
  let last = JSON.stringify(data.state);
  player.onSettled = (settled) => {
    if (JSON.stringify(settled) === last) return;
    last = JSON.stringify(settled);
    setStateValue("where", { run: data.run.id, state: settled });
  };
  // Streamlit also cleans up after a call that another one overtook while the script was still being loaded.
  // The player is by then the later call's, and lives on.
  const call = ++mount.calls;
  return () => {
    if (call !== mount.calls) return;
    const plays = player.transport?.playing;
    mount.left = player.state ? { run: data.run.id, state: player.state(), plays } : null;
    player.destroy();
    mount.player = null;
  };
}
