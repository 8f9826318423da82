// A chart of measured curves on a stage. Its points and ticks come as logarithms. Each curve has a mark of
// its own and its name at its end, so that nobody has to tell colours apart.

import { element, isDark } from "../controls/dom.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
// in pixels of the design
const ROOM = { left: 110, top: 44, bottom: 36, right: 330 };
const LABEL_HEIGHT = 27;
const MARK = 8;

// Corners of the marks around 0 for a size of 1, x and y in turns; a circle has none.
const CORNERS = {
  square: [-1, -1, 1, -1, 1, 1, -1, 1],
  diamond: [0, -1.3, 1.3, 0, 0, 1.3, -1.3, 0],
  "triangle-up": [0, -1.2, 1.2, 1, -1.2, 1],
  "triangle-down": [0, 1.2, 1.2, -1, -1.2, -1],
  star: [-1.3, 0, -0.3, -0.3, 0, -1.3, 0.3, -0.3, 1.3, 0, 0.3, 0.3, 0, 1.3, -0.3, 0.3],
};

function svg(tag, attributes, words) {
  const node = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (words !== undefined) node.textContent = words;
  return node;
}

// Numbers from [low, high] to [from, to].
function scaled(values, from, to) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return (value) => (high > low ? from + ((value - low) / (high - low)) * (to - from) : (from + to) / 2);
}

// Labels at heights as close to the wanted ones as they can be without touching each other.
export function spread(wanted, gap, low, high) {
  const order = wanted.map((_, i) => i).toSorted((a, b) => wanted[a] - wanted[b]);
  const placed = [...wanted];
  order.forEach((each, i) => {
    const least = i ? placed[order[i - 1]] + gap : low;
    placed[each] = Math.max(placed[each], least);
  });
  order.toReversed().forEach((each, i, reversed) => {
    const most = i ? placed[reversed[i - 1]] - gap : high;
    placed[each] = Math.min(placed[each], most);
  });
  return placed;
}

export class ChartView {
  constructor() {
    this.root = element("div", { class: "fa-chart", hidden: "" });
  }

  // Draw the first `count` curves; `unit` is a pixel of the design.
  draw(chart, count, palettes, unit) {
    const [width, height] = [this.root.clientWidth, this.root.clientHeight];
    if (!width || !height) return;
    const words = chart.series.map(({ name, last }) => `${name}, ${last} at the end`).join("; ");
    const picture = svg("svg", {
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `${chart.title}: ${words}`,
    });
    const plot = plotOf(chart, width, height, unit);
    picture.append(svg("text", { class: "fa-chart-title", x: 0, y: 14 * unit }, chart.title));
    picture.append(...axes(chart, plot, unit));
    const palette = palettes[isDark(this.root) ? "dark" : "light"];
    const ends = chart.series.map((each) => plot.y(each.points.at(-1)[1]));
    const labels = spread(ends, LABEL_HEIGHT * unit, plot.top, plot.bottom);
    chart.series
      .slice(0, count)
      .forEach((each, i) => picture.append(...curve(each, palette[each.color], labels[i], plot, unit)));
    this.root.replaceChildren(picture);
  }
}

// Where the curves lie in a picture, the places of its numbers, and the ticks of y that are near a point.
function plotOf(chart, width, height, unit) {
  const [left, top, bottom, right] = [
    ROOM.left * unit,
    ROOM.top * unit,
    height - ROOM.bottom * unit,
    width - ROOM.right * unit,
  ];
  const ys = chart.series.flatMap((each) => each.points.map(([, y]) => y));
  const [least, most] = [Math.min(...ys) - 0.7, Math.max(...ys) + 0.7];
  const ticks = chart.y.filter(([y]) => y >= least && y <= most);
  const xs = chart.x.map(([at]) => at);
  const y = scaled([...ys, ...ticks.map(([at]) => at)], bottom, top);
  return { left, top, bottom, right, ticks, x: scaled(xs, left, right), y };
}

function axes(chart, { left, right, bottom, ticks, x, y }, unit) {
  const lines = ticks.flatMap(([at, tick]) => [
    svg("line", { class: "fa-chart-grid", x1: left, x2: right, y1: y(at), y2: y(at), "stroke-width": unit }),
    svg("text", { x: left - 12 * unit, y: y(at), "text-anchor": "end" }, tick),
  ]);
  const under = { y: bottom + 22 * unit, "text-anchor": "middle" };
  return [...lines, ...chart.x.map(([at, tick]) => svg("text", { x: x(at), ...under }, tick))];
}

// A curve with its marks, and its name at the height `label`, to which a thin line leads from its end.
function curve(series, color, label, { right, x, y }, unit) {
  const placed = series.points.map(([px, py]) => [x(px), y(py)]);
  const line = (points, wide) =>
    svg("polyline", { points: points.join(" "), fill: "none", stroke: color, "stroke-width": wide * unit });
  const [endX, endY] = placed.at(-1);
  const leader = [
    [endX + 12 * unit, endY],
    [right + 26 * unit, label],
    [right + 34 * unit, label],
  ];
  const words = `${series.last}  ${series.name}`;
  return [
    line(placed, 4),
    ...placed.map((point) => mark(series.symbol, point, MARK * unit, color)),
    line(leader, 1.5),
    svg("text", { x: right + 40 * unit, y: label, "font-weight": 600 }, words),
  ];
}

function mark(symbol, [x, y], size, color) {
  const corners = CORNERS[symbol];
  if (!corners) return svg("circle", { cx: x, cy: y, r: size, fill: color });
  const points = corners.map((corner, i) => (i % 2 ? y : x) + corner * size).join(" ");
  return svg("polygon", { points, fill: color });
}
