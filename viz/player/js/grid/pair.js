// How a score is made, in a film: the numbers of a query times those of a key, added up from the left.

import { fillBox, text } from "./draw.js";
import { smooth, within } from "../run/easing.js";
import { matrixNamed, rowOf, scoresOf } from "../run/figure.js";
import { formatSteady } from "../run/formats.js";
import { sum } from "../run/model.js";
import { rowCalled } from "../run/sentences.js";

const [PAD, HEAD] = [16, 26];

// The key that a row of a step scores highest, the numbers of both, and what they add to the score.
export function pairOf(model, step, row) {
  const scores = scoresOf(model, step, row);
  const key = scores.indexOf(Math.max(...scores));
  const [query, other] = Object.entries({ Q: model.offsets[row], K: key }).map(([name, line]) =>
    rowOf(matrixNamed(model, name, step), line),
  );
  const products = query.map((value, i) => value * other[i] * model.data.problem.scale);
  return { key: model.kv[step] * scores.length + key, score: scores[key], query, other, products };
}

// As far as `part`: the told row and that key, number by number.
export function drawPair(context, { x, y, w, h }, { model, palette, step, row, part }) {
  const { key, score, query, other, products } = pairOf(model, step, row);
  const reached = within(part, 0.3, 0.9) * products.length;
  const bands = [
    [`${rowCalled(model, step, row)}: Q`, query, "query", smooth(part * 5)],
    [`“${model.data.words[1][key]}”: K`, other, "key", smooth(part * 5 - 0.5)],
    [`Q × K / √${Math.round(model.data.problem.scale ** -2)}`, products, "text", 1],
  ];
  const size = Math.min(20, w / 26);
  const [named, high] = [7 * size, (h - HEAD) / bands.length];
  const wide = (w - 2 * named - PAD) / products.length;
  bands.forEach(([name, values, color, come], i) => {
    const middle = y + HEAD + (i + 0.5) * high;
    const most = Math.max(...values.map(Math.abs));
    const style = { size, weight: "650", alpha: come };
    text(context, name, x + PAD, middle, palette[color], style);
    values.forEach((value, c) => {
      const shown = i === 2 ? within(reached - c, 0, 1) : come;
      const tall = (shown * value * 0.42 * high) / most;
      const left = x + PAD + named + c * wide;
      const bar = { x: left, y: middle - Math.max(tall, 0), w: 0.85 * wide, h: Math.abs(tall) };
      fillBox(context, palette[color], bar);
    });
  });
  const now = sum(products.map((each, c) => each * within(reached - c, 0, 1)));
  const [left, middle] = [x + w - named + size / 2, y + HEAD + 2.5 * high];
  const style = { size: 1.5 * size, weight: "700" };
  text(context, `= ${formatSteady(part < 0.9 ? now : score)}`, left, middle, palette.text, style);
}
