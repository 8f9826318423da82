// A chart on a stage. Points and ticks of curves come as logarithms; each has a mark and a name of its own.

import { element, svg } from "../controls/dom.js";

const [WIDTH, HEIGHT] = [1200, 490]; // of the drawing, which is made as large as its room
const [LEFT, RIGHT, TOP, BOTTOM] = [114, 850, 62, 448]; // of the curves
const [LABEL_HEIGHT, NUMBER, DIGIT] = [76, 64, 36]; // of a curve's words, a bar's number; width of a digit
const DRAWS_MS = 3000; // a curve from left to right, and the largest bar: all grow at one speed
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
    const [across, up] = [chart.x, chart.y].map((ticks) => ticks.map(([at]) => at));
    const [x, y] = [scaled(across, LEFT, RIGHT), scaled([...ys, ...up], BOTTOM, TOP)];
    const ends = chart.series.map((each) => y(each.points.at(-1)[1]));
    const labels = spread(ends, LABEL_HEIGHT, TOP, BOTTOM);
    const curves = chart.series.slice(0, count).map(({ points, ...series }, i) => {
      const placed = points.map(([px, py]) => [x(px), y(py)]);
      return svg("g", {}, curve(placed, series, inked(series.color), labels[i]));
    });
    const title = svg("text", { "font-weight": 600, x: 0, y: 16 }, [chart.title]);
    const lines = chart.y.flatMap(([at, tick]) => [
      svg("line", { stroke: "var(--fa-line)", x1: LEFT, x2: RIGHT, y1: y(at), y2: y(at) }),
      svg("text", { x: LEFT - 20, y: y(at), "text-anchor": "end" }, [tick]),
    ]);
    const under = { y: BOTTOM + 26, "text-anchor": "middle" };
    const ticks = chart.x.map(([at, tick]) => svg("text", { x: x(at), ...under }, [tick]));
    this.show(`${chart.title}: ${words}`, [title, ...lines, ...ticks, ...curves]);
    const clips = ["100%", "-9%"].map((right) => ({ clipPath: `inset(-99% ${right} -99% -9%)` }));
    if (flows) curves.at(-1).animate(clips, DRAWS_MS);
  }

  // {title, number, size, parts} as bars of one scale, beside them the “4.9×” of their sentence.
  drawBars(bars, flows, sentence) {
    const [high, most] = [(HEIGHT - TOP) / bars.length, Math.max(...bars.map(({ size }) => size))];
    const factor = /[\d.]+×/.exec(sentence)?.[0];
    const widthOf = (size) => Math.max(3, (size / most) * (factor ? 0.55 : 0.75) * WIDTH);
    const drawn = bars.map(({ title, number, size, parts }, i) => {
      const [y, width] = [TOP + i * high, widthOf(size)];
      const isBest = i === bars.length - 1 && bars.every((each, k) => !k || each.size < bars[k - 1].size);
      const [box, middle] = [{ y: y + 0.35 * high, height: 0.5 * high }, y + 0.6 * high];
      const inside = { y: middle, "font-size": 28, "text-anchor": "middle", fill: inked("background") };
      const pieces = parts.flatMap(({ name, from, part, color = isBest ? "now" : "plain" }) => {
        const [x, w] = [from * width, Math.max(1, part * width - 1)];
        const named = svg("text", { ...inside, x: x + w / 2 }, [w > 8 + 14 * name.length ? name : ""]);
        return [svg("rect", { ...box, x, width: w, fill: inked(color) }), named];
      });
      const looks = { y: middle, x: width + 20, "font-size": NUMBER, "font-weight": 700 };
      const bar = svg("g", {}, pieces);
      const end = svg("text", { ...looks, fill: inked(isBest ? "now" : "text") }, [number]);
      const duration = (DRAWS_MS * size) / most;
      if (flows) bar.animate({ clipPath: ["inset(0 100% 0 0)", "inset(0)"] }, duration);
      if (flows) end.animate({ opacity: [0, 1], easing: "steps(1, end)" }, duration);
      const name = svg("text", { y: y + 0.16 * high, "font-size": 30 }, [title]);
      return svg("g", {}, [name, bar, end]);
    });
    const ends = [bars[0], bars.at(-1)].map((bar) => widthOf(bar.size) + 36 + DIGIT * bar.number.length);
    const ratios = factor ? ratio(ends, [TOP + 0.6 * high, HEIGHT - 0.4 * high], factor) : [];
    const after = { duration: DRAWS_MS / 4, delay: DRAWS_MS, fill: "backwards" };
    if (flows) ratios.forEach((each) => each.animate({ opacity: [0, 1] }, after));
    drawn.at(-1).append(...ratios);
    this.show(bars.map(({ title, number }) => `${title} ${number}`).join("; "), drawn);
  }

  show(label, nodes) {
    const about = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label };
    this.root.replaceChildren(svg("svg", about, nodes));
  }
}

// How many times as large the first bar is as the last, beside what ends at these places.
function ratio([left, begin], [from, to], words) {
  const x = Math.max(left, begin) + 24;
  const line = { points: [left, from, x, from, x, to, begin, to], stroke: inked("now"), "stroke-width": 3 };
  const looks = { fill: inked("now"), "font-size": NUMBER, "font-weight": 700 };
  const number = svg("text", { ...looks, x: x + 14, y: (from + to) / 2 }, [words]);
  return [svg("polyline", { ...line, fill: "none" }), number];
}

// A curve with its marks, and its words at the height `label`, to which a thin line leads from its end.
function curve(placed, { symbol, name, last, factor }, color, label) {
  const line = (points, w) => svg("polyline", { points, fill: "none", stroke: color, "stroke-width": w });
  const [x, y] = placed.at(-1);
  const leader = `${x + 12},${y} ${RIGHT + 18},${label} ${RIGHT + 26},${label}`;
  const beside = (words, away, size) =>
    svg("text", { x: RIGHT + 32, y: label + away, "font-weight": 650, "font-size": size }, words);
  const large = svg("tspan", { dx: 16, "font-size": 36, fill: inked("now") }, [factor]);
  const words = [beside([last, large], -12, 34), beside([name], 18, 24)];
  const looks = { fill: color, "font-size": 26, "text-anchor": "middle", dy: -2.5 };
  const marks = placed.map(([px, py]) => svg("text", { ...looks, x: px, y: py }, [MARKS[symbol] ?? "●"]));
  return [line(placed.join(" "), 4), ...marks, line(leader, 1.5), ...words];
}
