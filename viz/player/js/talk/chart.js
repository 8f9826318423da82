// A chart on a stage. Points and ticks of curves come as logarithms; each has a mark and a name of its own.

import { element, isDark, svg } from "../controls/dom.js";
import { BYTES, TIMES } from "../run/formats.js";

const [WIDTH, HEIGHT] = [1200, 490]; // of the drawing, which is made as large as its room
const [LEFT, RIGHT, TOP, BOTTOM] = [114, 690, 62, 448]; // of the curves
const LABEL_HEIGHT = 62;
const RACES_MS = 3000; // the largest bar: all begin together, and grow at one speed
const DRAWS_MS = 3000; // from left to right: each point, then the value at the end, then how it compares

const MARKS = { square: "■", diamond: "◆", "triangle-up": "▲", "triangle-down": "▼", star: "★" };

function scaled(values, from, to) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return (value) => (high > low ? from + ((value - low) / (high - low)) * (to - from) : (from + to) / 2);
}

// Labels at heights as close to the wanted ones as they can be without touching each other.
export function spread(wanted, gap, low, high) {
  const order = wanted.map((_, i) => i).toSorted((a, b) => wanted[a] - wanted[b]);
  const placed = [...wanted];
  order.forEach((each, i) => (placed[each] = Math.max(placed[each], i ? placed[order[i - 1]] + gap : low)));
  const above = (i) => (i ? placed[order.at(-i)] - gap : high);
  order.toReversed().forEach((each, i) => (placed[each] = Math.min(placed[each], above(i))));
  return placed;
}

export class ChartView {
  constructor() {
    this.root = element("div", { class: "fa-chart", hidden: "" });
  }

  // Draw the first `count` curves; if it `flows`, the last of them draws itself.
  draw(chart, count, palettes, flows = false) {
    const palette = palettes[isDark(this.root) ? "dark" : "light"];
    const words = chart.series.map(({ name, last }) => `${name}, ${last} at the end`).join("; ");
    const ys = chart.series.flatMap((each) => each.points.map(([, y]) => y));
    const near = chart.y.filter(([y]) => y >= Math.min(...ys) - 0.7 && y <= Math.max(...ys) + 0.7);
    const xs = chart.x.map(([at]) => at);
    const x = scaled(xs, LEFT, RIGHT);
    const y = scaled([...ys, ...near.map(([at]) => at)], BOTTOM, TOP);
    const ends = chart.series.map((each) => y(each.points.at(-1)[1]));
    const labels = spread(ends, LABEL_HEIGHT, TOP, BOTTOM);
    const curves = chart.series.slice(0, count).map(({ points, ...series }, i) => {
      const placed = points.map(([px, py]) => [x(px), y(py)]);
      return svg("g", {}, curve(placed, series, palette[series.color], labels[i]));
    });
    const newest = count - 1; // it is compared with the first, and with its neighbour
    const ratios = [...new Set([0, newest - 1])].flatMap((i, k) =>
      ratio(ends[i], ends[newest], chart.series[newest].ratios[i], k),
    );
    const viewBox = `0 0 ${WIDTH} ${HEIGHT}`;
    const about = { viewBox, role: "img", "aria-label": `${chart.title}: ${words}` };
    const title = svg("text", { "font-weight": 600, x: 0, y: 16 }, [chart.title]);
    const under = { y: BOTTOM + 26, "text-anchor": "middle" };
    const lines = near.flatMap(([at, tick]) => [
      svg("line", { stroke: "var(--fa-line)", x1: LEFT, x2: RIGHT, y1: y(at), y2: y(at) }),
      svg("text", { x: LEFT - 20, y: y(at), "text-anchor": "end" }, [tick]),
    ]);
    const ticks = chart.x.map(([at, tick]) => svg("text", { x: x(at), ...under }, [tick]));
    curves.at(-1).append(...ratios);
    this.root.replaceChildren(svg("svg", about, [title, ...lines, ...ticks, ...curves]));
    const clips = ["100%", "-9%"].map((right) => ({ clipPath: `inset(-99% ${right} -99% -9%)` }));
    if (flows) curves.at(-1).animate(clips, DRAWS_MS);
  }

  // Names with numbers, "ours 23.4 µs", as bars of one scale, beside them the “4.9×” of their sentence.
  drawBars(bars, palettes, flows, sentence) {
    const { now, plain, text } = palettes[isDark(this.root) ? "dark" : "light"];
    const named = bars.map((words) => [words.replace(/ [^ ]+$/, ""), inFull(words.split(" ").at(-1))]);
    const sizes = named.map(([, number]) => sizeOf(number));
    const high = (HEIGHT - TOP) / bars.length;
    const drawn = named.map(([title, words], i) => {
      const [y, width] = [TOP + i * high, Math.max(3, (sizes[i] / Math.max(...sizes)) * 0.66 * WIDTH)];
      const isBest = i === bars.length - 1 && sizes.every((size, k) => !k || size < sizes[k - 1]);
      const looks = { y: y + 0.6 * high, "font-size": Math.min(64, high / 2), "font-weight": 700 };
      const bar = svg("rect", { y: y + 0.35 * high, width, height: 0.5 * high, fill: isBest ? now : plain });
      const number = svg("text", { ...looks, x: width + 20, fill: isBest ? now : text }, [words]);
      const duration = (RACES_MS * sizes[i]) / Math.max(...sizes);
      if (flows) bar.animate({ transform: ["scaleX(0)", "none"] }, duration);
      if (flows) number.animate({ opacity: [0, 1], easing: "steps(1, end)" }, duration);
      const name = svg("text", { y: y + 0.16 * high, "font-size": 30 }, [title]);
      return svg("g", {}, [name, bar, number]);
    });
    const about = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": bars.join("; ") };
    const ends = [0, bars.length - 1].map((i) => TOP + (i + 0.6) * high);
    const ratios = ratio(...ends, /[\d.]+×/.exec(sentence)?.[0], 0);
    const after = { duration: RACES_MS / 4, delay: RACES_MS, fill: "backwards" };
    if (flows) ratios.forEach((each) => each.animate({ opacity: [0, 1] }, after));
    drawn.at(-1).append(...ratios);
    this.root.replaceChildren(svg("svg", about, drawn));
  }
}

// "41 kB" with all of its digits, "41.0 kB"; and as a number of one scale.
const inFull = (words) => words.replace(/^[\d.]+(?=\u00a0)/, (number) => Number(number).toPrecision(3));
function sizeOf(words) {
  const [number, unit] = words.replace(",", "").split("\u00a0");
  return Number(number) * ({ ...BYTES, ...TIMES }[unit] ?? 1);
}

// How many times as large one end is as the other, at their heights.
function ratio(from, to, words, k) {
  if (!words) return [];
  const [x, size] = [1098 - 86 * k, 40 - 12 * k];
  const points = [x - 8, from, x, from, x, to, x - 8, to];
  const looks = { fill: "var(--fa-now)", "font-size": size, "font-weight": 700 };
  return [
    svg("polyline", { points, fill: "none", stroke: "var(--fa-now)", "stroke-width": 2 }),
    svg("text", { x: x + 8, y: (from + to) / 2, ...looks }, [words]),
  ];
}

// A curve with its marks, and its name at the height `label`, to which a thin line leads from its end.
function curve(placed, { symbol, name, last }, color, label) {
  const line = (points, width) =>
    svg("polyline", { points, fill: "none", stroke: color, "stroke-width": width });
  const [x, y] = placed.at(-1);
  const leader = `${x + 12},${y} ${RIGHT + 26},${label} ${RIGHT + 34},${label}`;
  const beside = (words, away, size) =>
    svg("text", { x: RIGHT + 40, y: label + away, "font-weight": 650, "font-size": size }, [words]);
  const words = [beside(last, -12, 34), beside(name, 18, 24)];
  const looks = { fill: color, "font-size": 26, "text-anchor": "middle" };
  const marks = placed.map(([at, height]) =>
    svg("text", { x: at, y: height, ...looks }, [MARKS[symbol] ?? "●"]),
  );
  return [line(placed.join(" "), 4), ...marks, line(leader, 1.5), ...words];
}
