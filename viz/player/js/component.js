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
  // Where a reader left a run of this problem, which the server may not know; a cleaned-up call's plays on.
  const { title } = data.run;
  const left = mount.left?.title === title ? mount.left : null;
  const own = player.shown?.title === title ? player.state?.() : left?.state;
  mount.left = null;
  if (player.opened) player.opened.runsRows = Boolean(data.runs_rows);
  player.load(data.run, own ?? data.state);
  if (left?.plays && !player.transport.playing) player.transport.toggle();
  else if (left) player.transport.changed(); // it may have gone before it told where it stands
  player.onSettled = (state) => {
    const told = JSON.stringify({ title, state });
    if (told === mount.told) return; // `data` may be older than that: another theme comes with the same ones
    mount.told = told;
    setStateValue("where", { title, state });
  };
  // Streamlit also cleans up after a call that another one overtook: the player is by then the later call's.
  const call = ++mount.calls;
  return () => {
    if (call !== mount.calls) return;
    mount.left = player.state ? { title, state: player.state(), plays: player.transport.playing } : null;
    player.destroy();
    mount.player = null;
  };
}
