// A tensor as it is, a pixel for each of its numbers: as it lies in HBM, on its way, and on the chip.

import { colorsOf, fillBox, shareColor } from "./draw.js";
import { hasNumbers, slotOf } from "../run/bench.js";
import { figureOf, largestOf, matrixNamed, nameOfScores, rowOf, softmaxState } from "../run/figure.js";
import { stripBox } from "./layout.js";
import { holds, keysOfRow, once, range, stepsOfTile, tileNumber, tilesOf } from "../run/model.js";

const slotNamed = (model, name) => model.kernels.flatMap(({ slots }) => slots).find((s) => s.name === name);

// How a strip lies in HBM: "" if its rows go down, "flat" if they lie as on the chip, "turned" if they turn.
export function liesIn(layout, model, strip) {
  if (stripBox(strip, layout).vertical) return "";
  return slotNamed(model, strip.name)?.transposed ? "flat" : "turned";
}

// The matrix of a step in which its numbers are, as the last phase leaves it; undefined if there is none.
function namedIn(model, name, step) {
  const figure = figureOf(model, step);
  const isThere = (each) => figure?.matrices.some((matrix) => matrix.name === each);
  if (name === "S") return [nameOfScores(model, step), name].find(isThere);
  const isIts = (each) => (name === "P" ? each.name : each.slot) === name && model.matrices[each.name];
  return figure?.matrices.findLast(isIts)?.name;
}

// The weight of each row and key of a step's tile: e^(score - m), or with the sums of a later step `end`
// e^(score - m) / l; or as the kernel has it. null if the numbers were not recorded.
export function weightsOf(model, step, end) {
  const scores = model.matrices["QK^T"];
  const last = model.phases[step].findLast(({ name, makes }) => name === "mask" || makes.includes("P"));
  const known = (last?.name === "mask" && model.matrices.masked) || model.matrices.P;
  const hasSums = model.kernels[model.kernel[step]].bars === "l"; // else it has the weights themselves
  const sent = hasSums ? scores : known;
  if (!sent) return null;
  const { problem } = model.data;
  const firstKey = model.kv[step] * problem.block_n;
  const firstRow = tileNumber(model, model.q[step]) * problem.block_m;
  const states = model.offsets.map((_, row) => hasSums && softmaxState(model, end ?? step, row));
  return (r, c) => {
    if (!holds(keysOfRow(problem, firstRow + r, model.head[step]), firstKey + c)) return NaN;
    const value = sent.values[(step * sent.rows + r) * sent.columns + c];
    const { m, l } = states[r] ?? {};
    return hasSums ? Math.exp(value * problem.scale - m) / (end === undefined ? 1 : l) : value;
  };
}

// null if no number is known. Of a sum each row has a scale of its own, and weights are as at the end.
function pictureOf({ model, palette, at }, { name, along, edges, isFilled }, lies) {
  return once(model, [name, at.head, lies, palette.background].join("|"), () => {
    const { block_m, block_n, kv_len: keys } = model.data.problem;
    const isSquare = slotOf(name) === "S";
    const steps = range(model.count).filter((i) => model.head[i] === at.head && namedIn(model, name, i));
    if (!steps.length || !hasNumbers(model)) return null;
    const size = along === "kv" ? block_n : block_m;
    const { columns } = model.matrices[namedIn(model, name, steps[0])]; // of lse and D one
    const [long, deep] = [size * edges.at(-1), isSquare ? keys : columns];
    const sides = lies ? { width: long, height: deep } : { width: deep, height: long };
    const picture = Object.assign(document.createElement("canvas"), sides);
    const context = picture.getContext("2d");
    const colorOf = colorsOf(slotNamed(model, slotOf(name)), { model, palette });
    fillBox(context, palette.hidden, { x: 0, y: 0, w: isSquare ? deep : 0, h: long });
    for (const step of steps) {
      const matrix = matrixNamed(model, namedIn(model, name, step), step);
      const ofTile = stepsOfTile(model, model.kernel[step], at.head, model.q[step]);
      const weight = name === "P" && weightsOf(model, step, ofTile.at(-1));
      for (const r of range(matrix.rows)) {
        const row = rowOf(matrix, r);
        const by = isFilled && deep > 1 ? largestOf(model, matrix) / Math.max(1e-9, ...row.map(Math.abs)) : 1;
        row.forEach((value, c) => {
          const from = tilesOf(model, along, step)[0] * size + r;
          const to = isSquare ? model.kv[step] * block_n + c : lies === "turned" ? deep - 1 - c : c;
          const share = weight ? weight(r, c) : 0;
          if (Number.isNaN(share)) return;
          context.fillStyle = weight ? shareColor(palette, share) : colorOf(matrix, value * by);
          context.fillRect(...(lies ? [from, to] : [to, from]), 1, 1);
        });
      }
    }
    return picture;
  });
}

// Tiles [from, end) of a strip in a box; in one colour if their numbers are not known. `part`: from the left.
export function paintTiles(context, how, strip, [from, end], { x, y, w, h }, { lies, alpha = 1, part = 1 }) {
  const picture = alpha > 0 && part > 0 && pictureOf(how, strip, lies);
  const box = { x, y, w: w * part, h };
  if (!picture) return fillBox(context, how.palette[strip.color], box, alpha);
  const unit = picture[lies ? "width" : "height"] / strip.edges.at(-1);
  const { left = 0, wide = 1 } = strip; // of a tile of the map: its number, and its part of a row
  const [long, deep] = [(end - from) * unit, wide * picture[lies ? "height" : "width"]];
  const source = lies ? [from * unit, 0, long * part, deep] : [left * deep, from * unit, deep * part, long];
  Object.assign(context, { globalAlpha: alpha, imageSmoothingEnabled: box.w < source[2] });
  context.drawImage(picture, ...source, box.x, box.y, box.w, box.h);
  context.globalAlpha = 1;
}

// A tile of the map, as a strip that has all of its row; null if its numbers are not known.
export function tileOfMap(model, step, name) {
  if (!hasNumbers(model) || !namedIn(model, name, step)) return null;
  const [left, wide] = [model.kv[step], 1 / model.kvTiles];
  return { name, along: "q", edges: range(model.qTiles + 1), left, wide };
}
