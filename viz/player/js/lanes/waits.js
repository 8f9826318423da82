// Which SMs wait, and for what: a stacked bar per SM of a run.

import { canvas, element } from "../controls/dom.js";
import { fitCanvas, hatch, outline, text } from "../grid/draw.js";
import { formatNumber } from "../run/formats.js";
import { sharesOf, waitWords } from "./lane_words.js";

const NO_WAITS = "This kernel marks no waits: the time of a product includes the wait for its tile.";
const LABELS = 40; // width of the scale
const FOOT = 14;

export class WaitChart {
  // `onPick` is called with the number of an SM that was clicked.
  constructor(run, colors, onPick) {
    Object.assign(this, { run, colors });
    const { names, sm } = run.waits;
    this.sums = sm.map((_, place) => sharesOf(run, place).reduce((sum, share) => sum + share, 0));
    this.largest = Math.max(...this.sums, 0.01);
    this.canvas = canvas("lane-waits", this.label());
    this.swatches = names.map(() => element("i", { class: "fa-swatch" }));
    const legend = names.map((name, i) => element("span", {}, [this.swatches[i], name]));
    this.node = element("div", { class: "fa-lane-chart" }, [
      element("div", { class: "fa-head" }, [run.title]),
      ...(names.length ? [this.canvas, element("div", { class: "fa-legend" }, legend)] : []),
      ...(names.length ? [] : [NO_WAITS]),
    ]);
    this.canvas.addEventListener("mousemove", (event) => {
      const place = this.placeAt(event);
      this.canvas.title = place < 0 ? "" : waitWords(run, place);
    });
    this.canvas.addEventListener("click", (event) => {
      const place = this.placeAt(event);
      if (place >= 0) onPick(sm[place]);
    });
  }

  label() {
    const { sm } = this.run.waits;
    const most = this.sums.indexOf(Math.max(...this.sums));
    return `waits of ${sm.length} SMs of ${this.run.title}. Longest: ${waitWords(this.run, most)}`;
  }

  placeAt(event) {
    const { left, width } = this.canvas.getBoundingClientRect();
    const count = this.run.waits.sm.length;
    const place = Math.floor(((event.clientX - left - LABELS) / (width - LABELS)) * count);
    return place >= 0 && place < count ? place : -1;
  }

  // `chosen` is the number of the SM that the lanes show.
  draw(palette, chosen) {
    if (!this.canvas.clientWidth) return;
    const { context, width, height } = fitCanvas(this.canvas);
    const { names, sm } = this.run.waits;
    const fills = names.map((_, i) => fillOf(context, palette, this.colors, i));
    this.swatches.forEach((node, i) => (node.style.background = swatchOf(palette, this.colors, i)));
    context.clearRect(0, 0, width, height);
    const [base, each] = [height - FOOT, (width - LABELS) / sm.length];
    text(context, `${formatNumber(100 * this.largest, 2)} %`, LABELS - 4, 6, palette.muted, {
      align: "right",
    });
    text(context, "0", LABELS - 4, base - 4, palette.muted, { align: "right" });
    context.fillStyle = palette.surface;
    context.fillRect(LABELS, 0, width - LABELS, base);
    sm.forEach((number, place) => {
      let y = base;
      const [x, w] = [LABELS + place * each, Math.max(0.8, each - (each > 3 ? 1 : 0))];
      sharesOf(this.run, place).forEach((share, i) => {
        const h = (share / this.largest) * (base - 2);
        y -= h;
        for (const fill of fills[i]) {
          context.fillStyle = fill;
          context.fillRect(x, y, w, h);
        }
      });
      if (number === chosen) outline(context, { x, y, w, h: base - y }, palette, 1.5);
    });
    text(context, `SM ${sm[0]}`, LABELS, height - 5, palette.muted);
    text(context, `SM ${sm.at(-1)}`, width, height - 5, palette.muted, { align: "right" });
  }
}

// Whether a wait is hatched: every second one, so that neighbours differ without colour too, and the other
// way round once the colours come again.
function isHatched(colors, i) {
  return (i + Math.floor(i / colors.length)) % 2 === 1;
}

// What a bar is filled with, one over the other.
function fillOf(context, palette, colors, i) {
  const color = palette[colors[i % colors.length]];
  return isHatched(colors, i) ? [color, hatch(context, palette.background, 3)] : [color];
}

// The same in the style sheet.
function swatchOf(palette, colors, i) {
  const color = palette[colors[i % colors.length]];
  const stripes = `${palette.background} 0 1px, ${color} 1px 4px`;
  return isHatched(colors, i) ? `repeating-linear-gradient(135deg, ${stripes})` : color;
}
