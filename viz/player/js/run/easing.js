// Numbers between two others, for what moves.

export const clamp = (value, low = 0, high = 1) => Math.max(low, Math.min(high, value));
export const lerp = (from, to, part) => from + (to - from) * part;
export const boxBetween = (from, to, part) =>
  Object.fromEntries(["x", "y", "w", "h"].map((side) => [side, lerp(from[side], to[side], part)]));
// How far `value` has come from one number to another.
export const within = (value, from, to) => clamp((value - from) / (to - from));

// It starts and ends slowly.
export function smooth(part) {
  const t = clamp(part);
  return t * t * (3 - 2 * t);
}

// Whether so many tiles per second are too fast to see phases (`melt`), or tiles (`scan`): from 0 to 1.
export const meltOf = (rate) => smooth(within(Math.log2(rate), Math.log2(0.9), Math.log2(4)));
export const scanOf = (rate) => smooth(within(Math.log2(rate), Math.log2(6), Math.log2(14)));
