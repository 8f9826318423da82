// One row, step by step: m, l, alpha, and how far the output so far is from the final one.

const SERIES = [
  { name: "m", title: "row max", color: "key", of: (state) => state.m },
  { name: "l", title: "row sum", color: "state", of: (state) => state.l },
  { name: "α", title: "rescale factor", color: "value", of: (state) => state.alpha, range: [0, 1] },
  { name: "|O − O_final|", title: "distance of acc / l from the final output, largest column, log scale", color: "output", of: (state) => state.distance, log: true },
];

// The program and the sampled row that the panel shows.
function shownRow(model, at, pinned) {
  const step = pinned ? pinned.programFirst : at.step >= 0 ? at.step : at.started ? model.count - 1 : 0;
  return { first: model.programFirst[step], last: model.programLast[step], row: pinned ? pinned.row : 0 };
}

function drawRows(canvas, model, palette, at, pinned) {
  const { context, width, height } = fitCanvas(canvas);
  context.clearRect(0, 0, width, height);
  const { first, last, row } = shownRow(model, at, pinned);
  const tall = height / SERIES.length;
  SERIES.forEach((series, index) => {
    const box = { x: 92, y: index * tall + 3, w: width - 98, h: tall - 6 };
    drawSeries(context, box, model, palette, at, series, first, last, row);
  });
}

function drawSeries(context, box, model, palette, at, series, first, last, row) {
  const values = [];
  for (let step = first; step <= last; step++) values.push(series.of(rowState(model, step, row)));
  let current = first - 1; // the last step of this program that has been reached
  while (current < last && (at.isDone(current + 1) || current + 1 === at.step)) current++;
  const value = current >= first ? values[current - first] : null;
  const color = palette[series.color];
  text(context, series.name, 0, box.y + box.h / 2 - 7, color, { size: series.log ? 10.5 : 13, weight: "600" });
  const words = value === null ? (values[0] === null ? "not recorded" : "–") : formatNumber(value);
  text(context, words, 0, box.y + box.h / 2 + 8, palette.text, { size: 12.5 });
  if (values[0] === null) return;
  const scaled = values.map((v) => (series.log ? Math.log10(Math.max(v, 1e-9)) : v));
  const finite = scaled.filter(Number.isFinite);
  let [low, high] = series.range ?? [Math.min(...finite), Math.max(...finite)];
  if (!(high > low)) [low, high] = [low - 0.5, low + 0.5];
  const x = (i) => box.x + (box.w * (i + 0.5)) / values.length;
  const y = (v) => box.y + box.h - 2 - ((box.h - 4) * (v - low)) / (high - low);
  context.fillStyle = palette.surface;
  context.fillRect(box.x, box.y, box.w, box.h);
  const trail = (from, to, alpha) => {
    context.globalAlpha = alpha;
    context.strokeStyle = context.fillStyle = color;
    context.lineWidth = 2;
    context.beginPath();
    for (let i = from; i <= to; i++) if (Number.isFinite(scaled[i])) context.lineTo(x(i), y(scaled[i]));
    context.stroke();
    if (values.length <= 40) {
      for (let i = from; i <= to; i++) {
        if (Number.isFinite(scaled[i])) context.fillRect(x(i) - 2, y(scaled[i]) - 2, 4, 4);
      }
    }
    context.globalAlpha = 1;
  };
  trail(0, values.length - 1, 0.25);
  if (current >= first) {
    trail(0, current - first, 1);
    if (current <= last && Number.isFinite(scaled[current - first])) {
      context.fillStyle = palette.now;
      context.beginPath();
      context.arc(x(current - first), y(scaled[current - first]), 4, 0, 7);
      context.fill();
    }
  }
}
