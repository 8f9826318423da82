// Entry of the exported HTML page: its data lie in the page, and the place in the address after "#".

import { Duel } from "./duel.js";
import { Player } from "./player.js";

const { run, place } = JSON.parse(document.getElementById("run").textContent);
const root = document.querySelector(".fa-player");
const player = new (run.runs ? Duel : Player)(root, (where) => history.replaceState(null, "", `#${where}`));
player.load(run, location.hash.slice(1) || place);
