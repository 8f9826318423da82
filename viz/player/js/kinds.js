// What shows the data that are sent: of one run, two runs, runs on several ranks, or lanes alone.

import { Duel } from "./duel.js";
import { LanesAlone } from "./lanes/lanes_alone.js";
import { Player } from "./player.js";
import { RanksRace } from "./ranks_race.js";

export function kindOf({ kind, runs, problem }) {
  if (kind === "ranks") return RanksRace;
  return runs ? Duel : problem ? Player : LanesAlone;
}
