// Entry of the exported HTML page: its data lie in the page, and the player's state in the address after "#".

import { onAppearance } from "./controls/dom.js";
import { kindOf } from "./kinds.js";

const { run, state } = JSON.parse(document.getElementById("run").textContent);
const root = document.querySelector(".fa-player");
// A frame without an address of its own, as in a notebook, remembers nothing.
const hasAddress = location.protocol !== "about:";
const remember = (now) => hasAddress && history.replaceState(null, "", `#${new URLSearchParams(now)}`);
const player = new (kindOf(run))(root, remember);
const hash = location.hash.slice(1);
player.load(run, hash ? Object.fromEntries(new URLSearchParams(hash)) : state);
onAppearance(() => player.load(run)); // the same run again keeps its state
