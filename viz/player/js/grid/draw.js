// Drawing on a canvas: sizes, text, boxes, colours.

import { isDark } from "../controls/dom.js";
import { isSquare } from "../run/bench.js";
import { EDGE } from "./layout.js";
import { clamp } from "../run/easing.js";
import { largestOf } from "../run/figure.js";
import { once, sum } from "../run/model.js";

export const FONT = '"Source Sans", "Source Sans Pro", "Stage Sans", system-ui, sans-serif';
const BEND = 0.6; // small weights are told apart better than large ones
const HALO = 2; // of a frame: both of its lines of the background together

// How many times larger than on a page text and lines are drawn: the style property --fa-zoom, or 1.
export const zoomOf = (node) => numberOf(node, "--fa-zoom") || 1;

const numberOf = (node, name) => Number(getComputedStyle(node).getPropertyValue(name));

let papers = null; // of the canvases whose drawing goes elsewhere right now

// While `draw` runs, what is drawn on a canvas goes to its paper in `places`: {context, x, y, scale}, the
// place of the canvas' corner and the size of a CSS pixel, in units of that context.
export function drawElsewhere(places, draw) {
  papers = places;
  try {
    draw();
  } finally {
    papers = null;
  }
}

// From now on draw in a box of a context, which cuts off what lies outside. `scale` is the size of a unit.
export function openFrame(context, { x, y, scale, width, height }) {
  context.restore(); // without a frame it does nothing
  context.save();
  context.setTransform(scale, 0, 0, scale, x, y);
  context.beginPath();
  context.rect(0, 0, width, height);
  context.clip();
}

// The canvas at the resolution of the screen, or with as many pixels per CSS pixel as its style says. Returns
// its context, its size in units of drawing (CSS pixels if the zoom is 1), and the zoom.
export function fitCanvas(canvas) {
  const zoom = zoomOf(canvas);
  const ratio = (numberOf(canvas, "--fa-pixels") || window.devicePixelRatio || 1) * zoom;
  const [width, height] = [canvas.clientWidth / zoom, canvas.clientHeight / zoom];
  const paper = papers?.get(canvas);
  if (paper) {
    openFrame(paper.context, { ...paper, scale: paper.scale * zoom, width, height });
    return { context: paper.context, width, height, zoom };
  }
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.textRendering = "geometricPrecision"; // else small letters of a large stage stand unevenly
  return { context, width, height, zoom };
}

// `halo` is a colour around the letters, for words on a ground that changes. Turned words go upwards.
export function text(context, words, x, y, color, style = {}) {
  const { size = 11, align = "left", weight = "", halo = "", alpha = 1, turned = false, widest } = style;
  if (alpha <= 0) return;
  if (turned) {
    context.save();
    context.translate(x, y);
    context.rotate(-Math.PI / 2);
    text(context, words, 0, 0, color, { ...style, turned: false });
    context.restore();
    return;
  }
  context.globalAlpha = alpha;
  context.font = `${weight} ${size}px ${FONT}`;
  context.textAlign = align;
  context.textBaseline = "middle";
  if (halo) {
    Object.assign(context, { strokeStyle: halo, lineWidth: 3, lineJoin: "round" });
    context.strokeText(words, x, y);
  }
  context.fillStyle = color;
  context.fillText(words, x, y, widest);
  context.globalAlpha = 1;
}

export function fillBox(context, color, { x, y, w, h }, alpha = 1) {
  if (!(alpha > 0 && w > 0 && h > 0)) return;
  context.globalAlpha = Math.min(1, alpha);
  context.fillStyle = color;
  context.fillRect(x, y, w, h);
  context.globalAlpha = 1;
}

export function roundBox(context, { x, y, w, h }, radius, { fill, line, width = 1, alpha = 1 }) {
  if (!(w > 0 && h > 0)) return;
  context.globalAlpha = alpha;
  context.beginPath();
  context.roundRect(x, y, w, h, radius);
  if (fill) {
    context.fillStyle = fill;
    context.fill();
  }
  if (line) {
    context.strokeStyle = line;
    context.lineWidth = width;
    context.stroke();
  }
  context.globalAlpha = 1;
}

export const drawChipBox = (context, chip, { text: line, background: fill }) =>
  roundBox(context, chip, 6, { fill, line, width: 2 * EDGE });

export function namePlace(context, name, words, { x, y, w }, palette) {
  const left = x + 14;
  text(context, name, left, y + 16, palette.text, { size: 15, weight: "650" });
  const beside = left + context.measureText(name).width + 8;
  if (beside + 6.2 * words.length < x + w)
    text(context, words, beside, y + 16, palette.muted, { size: 13.5 });
}

// A line along points, [x, y, x, y, ...].
export function drawLine(context, color, width, points, dash = []) {
  context.strokeStyle = color;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.beginPath();
  for (let i = 0; i < points.length; i += 2) context.lineTo(points[i], points[i + 1]);
  context.stroke();
  context.setLineDash([]);
}

// Words as lines that fit a width in the font that the context has; a wider word has a line of its own.
export function wrapped(context, words, width) {
  const [first, ...others] = words.split(" ");
  const lines = [first];
  for (const word of others) {
    const longer = `${lines.at(-1)} ${word}`;
    if (context.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

// A frame between two lines of the background, which stands out from every tile, also without its colour.
export function outline(context, { x, y, w, h }, palette, width) {
  const frame = { x: x - 0.5, y: y - 0.5, w: Math.max(w, 3), h: Math.max(h, 3) };
  roundBox(context, frame, 0, { line: palette.background, width: width + HALO });
  roundBox(context, frame, 0, { line: palette.text, width });
}

// The colour of a share of the row's attention; `part` is the share over the largest share that is drawn.
export function shareColor(palette, part) {
  const at = Math.min(1, Math.max(0, part)) ** BEND * (palette.scale.length - 1);
  return mixed(palette.scale[Math.floor(at)], palette.scale[Math.ceil(at)], at % 1);
}

// The colour of a number: weights from the scale, scores and gradients by sign, tensors in their own colour.
export function colorsOf(slot, { palette, model }) {
  const { [slot.color]: color, surface, cold, warm, hidden } = palette;
  return (matrix, value) => {
    if (value === -Infinity) return hidden;
    if (slot.name === "S" && !matrix.scaled) return shareColor(palette, value);
    const part = value / largestOf(model, matrix);
    if (slot.name === "S") return mixed(surface, warm, clamp(0.5 + part / 2) ** 2);
    if (isSquare(slot)) return mixed(surface, part < 0 ? cold : warm, clamp(Math.abs(part)) ** 0.35);
    return mixed(mixed(surface, color, 0.14), color, clamp(0.5 + 0.8 * part) ** 1.4);
  };
}

export function mixed(from, to, part) {
  const [a, b] = [channels(from), channels(to)];
  return `rgb(${a.map((channel, i) => Math.round(channel + (b[i] - channel) * part)).join()})`;
}

export function usePalette(root, palettes) {
  const palette = palettes[isDark(root) ? "dark" : "light"];
  for (const [name, color] of Object.entries(palette)) root.style.setProperty(`--fa-${name}`, String(color));
  return palette;
}

function channels(color) {
  if (!color.startsWith("#")) return color.match(/\d+/g).map(Number);
  return once(channels, color, () => [1, 3, 5].map((from) => parseInt(color.slice(from, from + 2), 16)));
}

// Of the colours of words and of their ground, the one that stands out from a colour.
export function inkOn(color, palette) {
  const [r, g, b] = channels(color);
  const lightness = (each) => sum(channels(each));
  const [dark, light] = [palette.text, palette.background].toSorted((x, y) => lightness(x) - lightness(y));
  return 0.3 * r + 0.59 * g + 0.11 * b > 108 ? dark : light;
}
