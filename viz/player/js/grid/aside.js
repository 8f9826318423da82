// What stands right of the grid: the kernel's source with the lines of the phase lit, and one row's curves.

import { canvas, element, write } from "../controls/dom.js";
import { fillBox, fitCanvas, roundBox, text } from "./draw.js";
import { formatNumber } from "../run/formats.js";
import { curveOf, recordedSeries, shownRow } from "../run/series.js";
import { isInPart } from "../run/model.js";
import { rowWords } from "../run/words.js";

const NAMES = 64; // width of the names and values
const TALLEST = 64;
const DOT = 4; // radius of the dot at the present value

const heading = (words) => element("div", { class: "fa-part" }, [words]);

export class Aside {
  constructor() {
    this.source = element("div", { class: "fa-source", tabindex: "0", "aria-label": "kernel source" });
    this.title = element("div", { class: "fa-head" });
    this.rows = canvas("rows", "state of one row over the steps");
    this.node = element("div", { class: "fa-right" }, [this.source, this.title, this.rows]);
  }

  draw({ model, palette, pinned }, at, picked) {
    if (!this.node.clientWidth) return; // it has no place, and costs nothing
    drawRows(this.rows, model, palette, at, picked);
    const kept = pinned ? " (picked; click it again to let go)" : "";
    write(this.title, rowWords(model, at, picked) + kept);
    this.light(model, at);
  }

  light(model, { kernel: index, phase }) {
    const kernel = model.kernels[index];
    if (kernel !== this.kernel) this.fill(model, kernel, index);
    const tall = this.source.clientHeight;
    if (phase === this.phase && tall === this.tall) return;
    Object.assign(this, { phase, tall });
    const isLit = (each) => each.phase === phase?.name;
    for (const each of this.lines) each.line.classList.toggle("fa-lit", isLit(each));
    const first = this.lines.find(isLit);
    if (!first) return;
    // of a kernel in several files, the one at the top is that of the lit lines
    this.nameFile(kernel.source.further_files.length ? first.file : kernel.source.file);
    this.source.scrollTop = first.line.offsetTop - tall / 3; // in the upper third
  }

  nameFile(file) {
    this.file.title = `${this.whose}${file}`;
    write(this.file, this.file.title);
  }

  fill(model, kernel, index) {
    const { source, each, name } = kernel;
    Object.assign(this, { kernel, phase: undefined, lines: [] }); // lines: {line, phase, file}
    this.whose = model.kernels.length > 1 ? `${name} · ` : "";
    this.file = element("div", { class: "fa-file" }); // it stays in view
    this.nameFile(source.file);
    this.source.replaceChildren(this.file);
    this.source.scrollTop = 0;
    const first = source.lines[1].length ? "before the loop" : "once per query tile";
    let from = source.file;
    for (const [i, lines] of source.lines.entries()) {
      if (lines.length) this.source.append(heading([first, each, "after the loop"][i]));
      for (const [number, code, phase, file] of lines) {
        if (file !== from) {
          this.source.append(heading(file.split("/").pop()));
          from = file;
        }
        const numbered = element("span", { class: "fa-number", title: file }, [String(number)]);
        const line = element("div", { class: "fa-line" }, [numbered, element("code", {}, [code])]);
        this.lines.push({ line, phase, file });
        this.source.append(line);
      }
    }
    const curves = recordedSeries(model, index);
    this.rows.hidden = this.title.hidden = !curves.length;
    this.rows.title = curves.map((curve) => `${curve.name}: ${curve.title}`).join("\n");
  }
}

function drawRows(node, model, palette, at, pinned) {
  if (!node.clientWidth) return; // the code alone is shown
  const { context, width, height } = fitCanvas(node);
  context.clearRect(0, 0, width, height);
  const shown = shownRow(model, at, pinned);
  const curves = recordedSeries(model, at.kernel);
  const tall = Math.min(height / Math.max(curves.length, 1), TALLEST);
  curves.forEach((series, index) => {
    const box = { x: NAMES, y: index * tall + 3, w: width - NAMES - 6, h: tall - 6 };
    drawSeries(context, box, { model, palette, at, series, shown });
  });
}

function drawSeries(context, box, { model, palette, at, series, shown }) {
  const { values, current } = curveOf(model, series, at, shown);
  const isFirst = (step) => isInPart(model, step) && model.keyParts.includes(model.kv[step]);
  const fresh = shown.steps.map(isFirst); // each part of the keys begins with an empty state
  const color = palette.state;
  const middle = box.y + box.h / 2;
  text(context, series.name, 0, middle - 7, color, { size: 13, weight: "600" });
  const value = current >= 0 ? formatNumber(values[current]) : "–";
  text(context, value, 0, middle + 8, palette.text, { size: 12.5 });
  fillBox(context, palette.surface, box);
  const points = placePoints(box, series, values);
  if (!points || current < 0) return; // what is still to come is never drawn
  drawTrail(context, points, fresh, current, color);
  if (!points[current]) return;
  const [x, y] = points[current];
  roundBox(context, { x: x - DOT, y: y - DOT, w: 2 * DOT, h: 2 * DOT }, DOT, { fill: palette.now });
}

// [x, y] of each value, null for one that is not finite; null if none is finite.
function placePoints(box, series, values) {
  const finite = values.filter(Number.isFinite);
  if (!finite.length) return null;
  let [low, high] = series.range ?? [Math.min(...finite), Math.max(...finite)];
  if (!(high > low)) [low, high] = [low - 0.5, low + 0.5];
  const margin = Math.min(DOT + 1, box.h / 4); // so that the dot stays inside of the strip
  const bottom = box.y + box.h - margin;
  return values.map((value, i) => {
    if (!Number.isFinite(value)) return null;
    const x = box.x + (box.w * (i + 0.5)) / values.length;
    return [x, bottom - ((box.h - 2 * margin) * (value - low)) / (high - low)];
  });
}

function drawTrail(context, points, fresh, last, color) {
  context.strokeStyle = color;
  context.lineWidth = 2;
  context.beginPath();
  const reached = points.slice(0, last + 1);
  reached.forEach((point, i) => point && context[fresh[i] ? "moveTo" : "lineTo"](...point));
  context.stroke();
}
