// A chart of measured curves on a stage. Its points and ticks come as logarithms. Each curve has a mark of its own and
// its name at its end, so that nobody has to tell colours apart.

import { element, isDark } from "./dom.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
// in pixels of the design
const ROOM = { left: 110, top: 44, bottom: 36, right: 330 };
const LABEL_HEIGHT = 27;
const MARK = 8;

// Corners of the marks around 0, for a size of 1; a circle has none.
const CORNERS = {
  square: [[-1, -1], [1, -1], [1, 1], [-1, 1]],
  diamond: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
  "triangle-up": [[0, -1.2], [1.2, 1], [-1.2, 1]],
  "triangle-down": [[0, 1.2], [1.2, -1], [-1.2, -1]],
  star: [[-1.3, 0], [-0.3, -0.3], [0, -1.3], [0.3, -0.3], [1.3, 0], [0.3, 0.3], [0, 1.3], [-0.3, 0.3]],
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
    const palette = palettes[isDark(this.root) ? "dark" : "light"];
    const words = chart.series.map(({ name, last }) => `${name}, ${last} at the end`).join("; ");
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${chart.title}: ${words}` });
    const room = Object.fromEntries(Object.entries(ROOM).map(([side, size]) => [side, size * unit]));
    const [right, bottom] = [width - room.right, height - room.bottom];
    const points = chart.series.flatMap((each) => each.points);
    const ys = points.map(([, y]) => y);
    const inside = chart.y.filter(([y]) => y >= Math.min(...ys) - 0.7 && y <= Math.max(...ys) + 0.7);
    const x = scaled(chart.x.map(([at]) => at), room.left, right);
    const y = scaled([...ys, ...inside.map(([at]) => at)], bottom, room.top);
    picture.append(svg("text", { class: "fa-chart-title", x: 0, y: 14 * unit }, chart.title));
    for (const [at, tick] of inside) {
      picture.append(svg("line", { class: "fa-chart-grid", x1: room.left, x2: right, y1: y(at), y2: y(at), "stroke-width": unit }));
      picture.append(svg("text", { x: room.left - 12 * unit, y: y(at), "text-anchor": "end" }, tick));
    }
    for (const [at, tick] of chart.x) picture.append(svg("text", { x: x(at), y: bottom + 22 * unit, "text-anchor": "middle" }, tick));
    const ends = chart.series.map((each) => y(each.points.at(-1)[1]));
    const labels = spread(ends, LABEL_HEIGHT * unit, room.top, bottom);
    chart.series.slice(0, count).forEach((each, i) => {
      const color = palette[each.color];
      const placed = each.points.map(([px, py]) => [x(px), y(py)]);
      const path = placed.map((point) => point.join(",")).join(" ");
      picture.append(svg("polyline", { points: path, fill: "none", stroke: color, "stroke-width": 4 * unit }));
      placed.forEach((point) => picture.append(mark(each.symbol, point, MARK * unit, color)));
      const end = placed.at(-1);
      const leader = `${end[0] + 12 * unit},${end[1]} ${right + 26 * unit},${labels[i]} ${right + 34 * unit},${labels[i]}`;
      picture.append(svg("polyline", { points: leader, fill: "none", stroke: color, "stroke-width": 1.5 * unit }));
      picture.append(svg("text", { x: right + 40 * unit, y: labels[i], "font-weight": 600 }, `${each.last}  ${each.name}`));
    });
    this.root.replaceChildren(picture);
  }
}

function mark(symbol, [x, y], size, color) {
  const corners = CORNERS[symbol];
  if (!corners) return svg("circle", { cx: x, cy: y, r: size, fill: color });
  const points = corners.map(([dx, dy]) => `${x + dx * size},${y + dy * size}`).join(" ");
  return svg("polygon", { points, fill: color });
}
