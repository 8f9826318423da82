// A picture of what a player or a duel shows, on a canvas of any size. Canvases are drawn again; words and
// bars are painted where the page has them. Above is what was run, below where from.

import { FONT, drawElsewhere, fillBox, openFrame, text, wrapped } from "../grid/draw.js";
import { once } from "../run/model.js";

const MARGIN = 14;
const NARROWEST = 300; // so that the words around a small picture have room
const [TITLE, FOOT] = [{ size: 15, weight: "600" }, { size: 11 }];
const LEADING = 1.35;
const GAP = 6;
const LEFT_OUT = "button, input, select, canvas, .fa-hint";

export class Picture {
  // `parts` are the nodes of a player or duel that are seen; its `shownAs` has what stands above and below.
  // With a `ratio` of its sides it has room around it until it has that.
  constructor(owner, parts, palette, ratio = 0) {
    Object.assign(this, { owner, parts, palette });
    owner.drawStill(); // before anything is measured
    const box = this.place();
    const inside = Math.ceil(Math.max(box.width, NARROWEST));
    this.title = linesOfWords(owner.shownAs.title, inside, TITLE);
    this.foot = this.footLines(inside);
    const top = Math.round(MARGIN + linesHigh(this.title, TITLE) + GAP);
    const width = inside + 2 * MARGIN;
    const height = Math.ceil(top + box.height + GAP + linesHigh(this.foot, FOOT) + MARGIN);
    this.width = Math.max(width, height * ratio);
    this.height = Math.max(height, ratio && width / ratio);
    this.left = MARGIN + (this.width - width) / 2;
    this.top = top + (this.height - height) / 2;
  }

  footLines(inside) {
    const { where, foot } = this.owner.shownAs;
    return linesOfWords(`${where} · ${foot}`, inside, FOOT);
  }

  place() {
    const boxes = this.parts.map((part) => part.getBoundingClientRect()).filter(({ width }) => width > 0);
    if (!boxes.length) return { width: 0, height: 0 };
    const [left, top] = ["left", "top"].map((side) => Math.min(...boxes.map((box) => box[side])));
    const [right, bottom] = ["right", "bottom"].map((side) => Math.max(...boxes.map((box) => box[side])));
    this.page = { left, top };
    return { width: right - left, height: bottom - top };
  }

  // Paint it, `scale` units of the context to a CSS pixel, as it looks at so many tiles per second.
  paint(context, scale, rate = 0) {
    const { width, height, palette } = this;
    const whole = { x: 0, y: 0, scale, width, height };
    openFrame(context, whole);
    context.clearRect(0, 0, width, height);
    drawElsewhere(this.papers(context, scale), () => this.owner.drawStill(rate));
    openFrame(context, whole);
    const origin = { x: this.page.left - this.left, y: this.page.top - this.top };
    this.parts.forEach((part) => paintNode(context, part, origin));
    this.foot = this.footLines(width - 2 * MARGIN).slice(0, this.foot.length); // there is room for as many
    writeLines(context, this.title, MARGIN, palette.text, TITLE);
    writeLines(context, this.foot, height - MARGIN - linesHigh(this.foot, FOOT), palette.muted, FOOT);
    // what the canvases cleared is transparent until now
    context.globalCompositeOperation = "destination-over";
    fillBox(context, palette.background, { x: 0, y: 0, w: width, h: height });
    context.restore();
  }

  papers(context, scale) {
    this.place();
    const canvases = this.parts.flatMap((part) => [...part.querySelectorAll("canvas")]);
    const paperOf = (canvas) => {
      const { left, top } = canvas.getBoundingClientRect();
      const x = (left - this.page.left + this.left) * scale;
      const y = (top - this.page.top + this.top) * scale;
      return { context, x, y, scale };
    };
    return new Map(canvases.map((canvas) => [canvas, paperOf(canvas)]));
  }

  canvas(scale) {
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(this.width * scale);
    canvas.height = Math.round(this.height * scale);
    this.paint(canvas.getContext("2d"), scale);
    return canvas;
  }
}

function linesOfWords(words, width, { size, weight = "" }) {
  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = `${weight} ${size}px ${FONT}`;
  return wrapped(ruler, words, width);
}

const linesHigh = (lines, { size }) => lines.length * size * LEADING;

function writeLines(context, lines, top, color, style) {
  const high = style.size * LEADING;
  lines.forEach((line, i) => text(context, line, MARGIN, top + (i + 0.5) * high, color, style));
}

function paintNode(context, node, origin) {
  if (node.nodeType === Node.TEXT_NODE) return paintText(context, node, origin);
  if (node.nodeType !== Node.ELEMENT_NODE || node.matches(LEFT_OUT)) return;
  const style = getComputedStyle(node);
  if (style.display === "none" || style.visibility === "hidden") return;
  const rect = node.getBoundingClientRect();
  const box = { x: rect.left - origin.x, y: rect.top - origin.y, w: rect.width, h: rect.height };
  const { color, alpha } = plainColor(style.backgroundColor);
  fillBox(context, color, box, alpha);
  node.childNodes.forEach((child) => paintNode(context, child, origin));
}

function paintText(context, node, origin) {
  if (!node.textContent.trim()) return;
  const style = getComputedStyle(node.parentElement);
  const { color, alpha } = plainColor(style.color);
  const look = { size: parseFloat(style.fontSize), weight: style.fontWeight, alpha };
  const { bottom: end } = node.parentElement.getBoundingClientRect();
  for (const { words, left, top, bottom } of linesOf(node).filter((line) => line.top < end))
    text(context, words, left - origin.x, (top + bottom) / 2 - origin.y, color, look);
}

// The lines into which the page breaks a text, and where they are.
function linesOf(node) {
  const range = document.createRange();
  const lines = [];
  for (const { 0: word, index } of node.textContent.matchAll(/\s*\S+\s*/g)) {
    const start = index + word.length - word.trimStart().length;
    range.setStart(node, start);
    range.setEnd(node, start + word.trim().length);
    const [{ left, top, bottom }] = range.getClientRects();
    const last = lines.at(-1);
    if (last && Math.abs(last.top - top) < 2) last.words += word;
    else lines.push({ words: word.trimStart(), left, top, bottom });
  }
  return lines;
}

// A colour as every program knows it. Style sheets mix theirs.
function plainColor(given) {
  return once(plainColor, given, () => {
    const pen = document.createElement("canvas").getContext("2d");
    pen.fillStyle = given;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, alpha] = pen.getImageData(0, 0, 1, 1).data;
    return { color: `rgb(${r},${g},${b})`, alpha: alpha / 255 };
  });
}
