// A softmax over whole rows, on a stage: all tiles of its rows stay on the chip, and S turns to P in place.

import { roundBox, text } from "./draw.js";
import { hasNumbers, isSquare, movedPart, progressOfPhase } from "../run/bench.js";
import { meant } from "../run/formats.js";
import { range } from "../run/model.js";
import { paintTiles } from "./tensor.js";

const [PAD, WORDS, ABOVE, BELOW] = [14, 62, 58, 48]; // the room beside it, for the words of its rows

export const isOfRows = (model, { slots }) =>
  model.data.ticks && hasNumbers(model) && slots.length === 1 && isSquare(slots[0]);

// The room of the rows, and in it that of the tile of a step.
export function rowsLayout(chip, model, step) {
  const x = chip.x + PAD + WORDS;
  const whole = { x, y: chip.y + ABOVE, w: chip.x + chip.w - PAD - x, h: chip.h - ABOVE - BELOW };
  const w = whole.w / model.kvTiles;
  const slots = { S: { ...whole, x: x + Math.max(model.kv[step], 0) * w, w } };
  return { whole, slots, draw: drawRows, state: null };
}

function drawRows(context, { whole, slots }, { model, palette, at }) {
  const [first] = model.kernels[at.kernel].phases[1];
  const part = progressOfPhase(model, at, (phase) => phase === first, 0);
  const makes = !first.loads.length; // P, of the S that were read
  const come = (model.kv[at.step] + (makes ? part : Math.floor(movedPart(first, part)))) / model.kvTiles;
  const paint = (name, end) => {
    const [q, strip] = [model.q[at.step], { name, along: "q", edges: range(model.qTiles + 1) }];
    paintTiles(context, { model, palette, at }, strip, [q, q + 1], whole, { lies: "", part: end });
  };
  roundBox(context, whole, 3, { fill: palette.surface, line: palette.line });
  paint("S", makes ? 1 : come);
  if (makes) paint("P", come);
  const [name, color] = makes ? ["P", palette.now] : ["S", palette.text];
  text(context, meant(name), whole.x, whole.y - 12, color, { size: 15, weight: "650" });
  roundBox(context, slots.S, 2, { line: palette.text, width: 1.5 });
}
