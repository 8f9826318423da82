// A chart on a stage. Points and ticks of curves come as logarithms; each has a mark and a name of its own.

import { element, svg } from "../controls/dom.js";

const [WIDTH, HEIGHT] = [1200, 490]; // of the drawing, which is made as large as its room
const [LEFT, RIGHT, TOP, BOTTOM] = [114, 690, 62, 448]; // of the curves
const LABEL_HEIGHT = 62;
const RACES_MS = 3000; // the largest bar: all begin together, and grow at one speed
const DRAWS_MS = 3000; // from left to right: each point, then the value at the end, then how it compares
const inked = (color) => `var(--fa-${color})`;

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
    this.root = element("div", { class: "fa-chart" });
  }

  // Draw the first `count` curves; if it `flows`, the last of them draws itself.
  draw(chart, count, flows = false) {
    const words = chart.series.map(({ name, last }) => `${name}, ${last} at the end`).join("; ");
    const ys = chart.series.flatMap((each) => each.points.map(([, y]) => y));
    const x = scaled(
      chart.x.map(([at]) => at),
      LEFT,
      RIGHT,
    );
    const y = scaled([...ys, ...chart.y.map(([at]) => at)], BOTTOM, TOP);
    const ends = chart.series.map((each) => y(each.points.at(-1)[1]));
    const labels = spread(ends, LABEL_HEIGHT, TOP, BOTTOM);
    const curves = chart.series.slice(0, count).map(({ points, ...series }, i) => {
      const placed = points.map(([px, py]) => [x(px), y(py)]);
      return svg("g", {}, curve(placed, series, inked(series.color), labels[i]));
    });
    const [last, own] = [ends[count - 1], chart.series[count - 1].ratios]; // the newest curve
    const compared = [...new Set([0, count - 2])]; // with the first, and with its neighbour
    const ratios = compared.flatMap((i, k) => ratio(ends[i], last, own[i], k));
    const viewBox = `0 0 ${WIDTH} ${HEIGHT}`;
    const about = { viewBox, role: "img", "aria-label": `${chart.title}: ${words}` };
    const title = svg("text", { "font-weight": 600, x: 0, y: 16 }, [chart.title]);
    const under = { y: BOTTOM + 26, "text-anchor": "middle" };
    const lines = chart.y.flatMap(([at, tick]) => [
      svg("line", { stroke: "var(--fa-line)", x1: LEFT, x2: RIGHT, y1: y(at), y2: y(at) }),
      svg("text", { x: LEFT - 20, y: y(at), "text-anchor": "end" }, [tick]),
    ]);
    const ticks = chart.x.map(([at, tick]) => svg("text", { x: x(at), ...under }, [tick]));
    curves.at(-1).append(...ratios);
    this.root.replaceChildren(svg("svg", about, [title, ...lines, ...ticks, ...curves]));
    const clips = ["100%", "-9%"].map((right) => ({ clipPath: `inset(-99% ${right} -99% -9%)` }));
    if (flows) curves.at(-1).animate(clips, DRAWS_MS);
  }

  // {title, number, size, parts} as bars of one scale, beside them the “4.9×” of their sentence.
  drawBars(bars, flows, sentence) {
    const [high, most] = [(HEIGHT - TOP) / bars.length, Math.max(...bars.map(({ size }) => size))];
    const drawn = bars.map(({ title, number, size, parts }, i) => {
      const [y, width] = [TOP + i * high, Math.max(3, (size / most) * 0.66 * WIDTH)];
      const isBest = i === bars.length - 1 && bars.every((each, k) => !k || each.size < bars[k - 1].size);
      const [box, middle] = [{ y: y + 0.35 * high, height: 0.5 * high }, y + 0.6 * high];
      const inside = { y: middle, "font-size": 28, "text-anchor": "middle", fill: inked("background") };
      const pieces = parts.flatMap(({ name, from, part, color = isBest ? "now" : "plain" }) => {
        const [x, w] = [from * width, Math.max(1, part * width - 1)];
        const named = svg("text", { ...inside, x: x + w / 2 }, [w > 8 + 15 * name.length ? name : ""]);
        return [svg("rect", { ...box, x, width: w, fill: inked(color) }), named];
      });
      const looks = { y: middle, x: width + 20, "font-size": Math.min(64, high / 2), "font-weight": 700 };
      const bar = svg("g", {}, pieces);
      const end = svg("text", { ...looks, fill: inked(isBest ? "now" : "text") }, [number]);
      const duration = (RACES_MS * size) / most;
      if (flows) bar.animate({ clipPath: ["inset(0 100% 0 0)", "inset(0)"] }, duration);
      if (flows) end.animate({ opacity: [0, 1], easing: "steps(1, end)" }, duration);
      const name = svg("text", { y: y + 0.16 * high, "font-size": 30 }, [title]);
      return svg("g", {}, [name, bar, end]);
    });
    const label = bars.map(({ title, number }) => `${title} ${number}`).join("; ");
    const about = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label };
    const ends = [0, bars.length - 1].map((i) => TOP + (i + 0.6) * high);
    const ratios = ratio(...ends, /[\d.]+×/.exec(sentence)?.[0], 0);
    const after = { duration: RACES_MS / 4, delay: RACES_MS, fill: "backwards" };
    if (flows) ratios.forEach((each) => each.animate({ opacity: [0, 1] }, after));
    drawn.at(-1).append(...ratios);
    this.root.replaceChildren(svg("svg", about, drawn));
  }
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
  const line = (points, w) => svg("polyline", { points, fill: "none", stroke: color, "stroke-width": w });
  const [x, y] = placed.at(-1);
  const leader = `${x + 12},${y} ${RIGHT + 26},${label} ${RIGHT + 34},${label}`;
  const beside = (words, away, size) =>
    svg("text", { x: RIGHT + 40, y: label + away, "font-weight": 650, "font-size": size }, [words]);
  const words = [beside(last, -12, 34), beside(name, 18, 24)];
  const looks = { fill: color, "font-size": 26, "text-anchor": "middle" };
  const marks = placed.map(([px, py]) => svg("text", { ...looks, x: px, y: py }, [MARKS[symbol] ?? "●"]));
  return [line(placed.join(" "), 4), ...marks, line(leader, 1.5), ...words];
}
