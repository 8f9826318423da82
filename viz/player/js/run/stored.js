// How far standard attention has come, of which no run is played: its three kernels, as the bars model them.

import { within } from "./easing.js";
import { range, sum } from "./model.js";

const KERNELS = ["QKS", "SP", "PVO"]; // what each reads, and then what it writes
const FIRST = 0.13; // of its time: how long each part of its first tile takes

// Each tile of queries of each kernel if `stored` kernels are over: how far it was read, made and written.
export const storedTiles = (stored, tiles) =>
  KERNELS.flatMap((names, i) =>
    range(tiles).map((q) => {
      const fast = (1 / 3 - FIRST) / (tiles - 1); // one after the other: none meets another on its way
      const [from, long] = q ? [i + 3 * (FIRST + (q - 1) * fast), fast] : [i, FIRST];
      const [read, made, written] = [0, 1, 2].map((k) => within((stored - from) / long, k, k + 1));
      return { program: i, reads: [...names].slice(0, -1), writes: names.at(-1), q, read, made, written };
    }),
  );

// What part of the bytes of a matrix was moved.
export function movedOf(name, all) {
  const parts = all.flatMap(({ reads, writes, read, written }) =>
    reads.includes(name) ? read : writes === name ? written : [],
  );
  return sum(parts) / parts.length;
}
