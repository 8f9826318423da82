// How far standard attention has come, of which no run is played: its three kernels, as the bars model them.

import { lerp, within } from "./easing.js";
import { range, sum } from "./model.js";

const KERNELS = ["QKS", "SP", "PVO"]; // what each reads, and then what it writes
const [FIRST, ALL] = [0.4, 0.8]; // of a kernel's time: its first tile, which is looked at; all of them

// Each tile of queries of each kernel if `stored` kernels are over: how far it was read, made and written.
export const storedTiles = (stored, tiles) =>
  KERNELS.flatMap((names, i) =>
    range(tiles).map((q) => {
      const begins = (each) => i + (each && lerp(FIRST, ALL, (each - 1) / (tiles - 1 || 1)));
      const part = within(stored, begins(q), tiles > 1 ? begins(q + 1) : i + ALL); // one after the other
      const [read, made, written] = [within(part, 0, 0.34), within(part, 0.46, 0.66), within(part, 0.72, 1)];
      const gone = q === tiles - 1 ? within(stored, i + ALL, i + 1) : Number(written === 1); // from the chip
      return { reads: [...names].slice(0, -1), writes: names.at(-1), q, read, made, written, gone };
    }),
  );

// What part of the bytes of a matrix was moved.
export function movedOf(name, all) {
  const parts = all.flatMap(({ reads, writes, read, written }) =>
    reads.includes(name) ? read : writes === name ? written : [],
  );
  return sum(parts) / parts.length;
}

// All scores of a longer text, once.
export function bytesOfScores({ data }, words) {
  const { bytes } = data.standard_parts.find(({ name }) => name === "S"); // written and read
  return (bytes / 2) * (words / data.problem.kv_len) ** 2;
}
