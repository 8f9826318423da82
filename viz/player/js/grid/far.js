// What stands on the chip while it works too fast to be seen: the words of a text, as the rows in progress
// weigh them; and at the end what came of it.

import { fillBox, inkOn, shareColor, text } from "./draw.js";
import { formatNumber } from "../run/formats.js";
import { stepsOfTile } from "../run/model.js";
import { weightsOf } from "./map.js";

const SIZE = 19;
const LINE = 34;
const PAD = 28;

export function drawFar(context, chip, { model, palette, at }) {
  if (at.finished) drawEnd(context, chip, { model, palette });
  else if (at.scan > 0 && model.data.words && at.step >= 0) drawWords(context, chip, { model, palette, at });
}

// The text, each word on the colour of its weight for the last row of the query tile in progress.
function drawWords(context, chip, { model, palette, at }) {
  const [asking, asked] = model.data.words;
  const { block_m: rows, block_n: keys, rows: all } = model.data.problem;
  const q = Math.max(model.q[at.step], 0);
  const row = Math.min((q + 1) * rows, all) - 1;
  const weights = new Float64Array(asked.length).fill(NaN);
  const done = stepsOfTile(model, at.kernel, at.head, q).filter(
    (step) => step <= at.step && model.kv[step] >= 0,
  );
  for (const step of done) {
    const weight = weightsOf(model, step, { step: done.at(-1), before: -1, part: 1 });
    if (!weight) return;
    for (let c = 0; c < keys; c++) weights[model.kv[step] * keys + c] = weight(row - q * rows, c);
  }
  context.font = `${SIZE}px sans-serif`;
  let [x, y] = [chip.x + PAD, chip.y + 116];
  asked.forEach((word, i) => {
    const wide = context.measureText(word).width + 12;
    if (x + wide > chip.x + chip.w - PAD) [x, y] = [chip.x + PAD, y + LINE];
    if (y > chip.y + chip.h - PAD) return;
    const isKnown = weights[i] >= 0;
    const color = isKnown ? shareColor(palette, weights[i]) : palette.background;
    fillBox(context, color, { x, y: y - SIZE * 0.75, w: wide - 2, h: SIZE * 1.5 }, at.scan);
    const isAsking = i === row && asked[i] === asking[row];
    const style = { size: SIZE, alpha: at.scan, weight: isAsking ? "700" : "" };
    text(context, word, x + 5, y, isKnown ? inkOn(color, palette) : palette.muted, style);
    x += wide;
  });
}

function drawEnd(context, chip, { model, palette }) {
  const times = model.data.standard_bytes / model.bytes[model.count];
  if (!(times > 1.05) || chip.w < 300) return;
  const [x, y] = [chip.x + chip.w / 2, chip.y + chip.h / 2];
  const size = Math.min(38, chip.w / 13);
  fillBox(context, palette.background, { x: chip.x + 12, y: y - 70, w: chip.w - 24, h: 140 }, 0.86);
  const words = `${formatNumber(times, 2)} times fewer bytes`;
  text(context, words, x, y - 14, palette.text, { size, weight: "700", align: "center" });
  const than = "than standard attention, for the same answer";
  text(context, than, x, y + 26, palette.muted, { size: size / 2, align: "center" });
}
