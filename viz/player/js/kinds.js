// Which playback shows what is sent: one run, two runs, or runs on several ranks.

import { Duel } from "./duel.js";
import { Player } from "./player.js";
import { RanksRace } from "./ranks_race.js";

export function kindOf({ kind, runs }) {
  if (kind === "ranks") return RanksRace;
  return runs ? Duel : Player;
}
