// Curves beside the grid: one row's state, or the state of the tile that is summed, step by step.

const SERIES = {
  m: { name: "m", title: "row max", color: "state" },
  l: { name: "l", title: "row sum", color: "state" },
  alpha: { name: "α", title: "rescale factor", color: "state", range: [0, 1] },
  distance: { name: "|O − O_final|", title: "distance of the output so far from the final one, largest column, log scale", color: "output", log: true },
  share: { name: "P", title: "what this tile holds of the row of P", color: "muted", range: [0, 1] },
  shares: { name: "Σ P", title: "what the tiles so far hold of the row of P: 1 when all were seen", color: "state", range: [0, 1], sumOf: "share" },
  weight: { name: "weight", title: "exp(lse of the part − lse): what this part of the keys counts for", color: "state", range: [0, 1] },
  weights: { name: "Σ weight", title: "weights of the parts so far: 1 when all were combined", color: "state", range: [0, 1], sumOf: "weight" },
  dQ: { name: "|dQ − final|", title: "largest distance of the tile of dQ so far from the final one, log scale", color: "query", log: true },
  dK: { name: "|dK − final|", title: "largest distance of the tile of dK so far from the final one, log scale", color: "key", log: true },
  dV: { name: "|dV − final|", title: "largest distance of the tile of dV so far from the final one, log scale", color: "value", log: true },
};

// The row that the panel shows, and the steps that changed it: those of its query tile in the kernel at hand.
function shownRow(model, at, pinned) {
  const step = at.step >= 0 ? at.step : at.started ? model.count - 1 : 0;
  const head = pinned?.head ?? model.head[step];
  const q = pinned?.q ?? Math.max(model.q[step], 0);
  const steps = model.tileSteps.get(tileKey(at.kernel, head, q)) ?? [];
  return { head, q, row: pinned ? pinned.row : 0, steps, step };
}

// Values of a series over `steps`.
function seriesValues(model, name, steps, row) {
  const series = SERIES[name];
  let sum = 0;
  return steps.map((step) => (series.sumOf ? (sum += valueAt(model, series.sumOf, step, row)) : valueAt(model, name, step, row)));
}

function stepsOfSeries(model, name, shown) {
  if (!OF_THE_TILE.has(name)) return shown.steps;
  const [first, last] = [model.turnFirst[shown.step], model.turnLast[shown.step]];
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

function drawRows(canvas, model, palette, at, pinned) {
  const { context, width, height } = fitCanvas(canvas);
  context.clearRect(0, 0, width, height);
  const shown = shownRow(model, at, pinned);
  const names = model.kernels[at.kernel].series.filter((name) => model.values[SERIES[name].sumOf ?? name]);
  if (!names.length) text(context, "nothing is summed over steps in this kernel", 0, 12, palette.muted, { size: 12.5 });
  const tall = Math.min(height / Math.max(names.length, 1), 64);
  names.forEach((name, index) => {
    const box = { x: 92, y: index * tall + 3, w: width - 98, h: tall - 6 };
    const steps = stepsOfSeries(model, name, shown);
    const begins = (i) => model.parts.includes(model.kv[steps[i]]) && model.kernel[steps[i]] === 0; // a part begins with an empty state
    drawSeries(context, box, palette, at, SERIES[name], steps, seriesValues(model, name, steps, shown.row), begins);
  });
}

function drawSeries(context, box, palette, at, series, steps, values, begins) {
  let current = -1; // the last of the steps that has been reached
  while (current + 1 < steps.length && (at.isDone(steps[current + 1]) || steps[current + 1] === at.step)) current++;
  const color = palette[series.color];
  text(context, series.name, 0, box.y + box.h / 2 - 7, color, { size: series.name.length > 8 ? 10.5 : 13, weight: "600" });
  text(context, current >= 0 ? formatNumber(values[current]) : "–", 0, box.y + box.h / 2 + 8, palette.text, { size: 12.5 });
  context.fillStyle = palette.surface;
  context.fillRect(box.x, box.y, box.w, box.h);
  const scaled = values.map((v) => (series.log ? Math.log10(Math.max(v, 1e-9)) : v));
  const finite = scaled.filter(Number.isFinite);
  if (!finite.length) return;
  let [low, high] = series.range ?? [Math.min(...finite), Math.max(...finite)];
  if (!(high > low)) [low, high] = [low - 0.5, low + 0.5];
  const x = (i) => box.x + (box.w * (i + 0.5)) / values.length;
  const y = (v) => box.y + box.h - 2 - ((box.h - 4) * (v - low)) / (high - low);
  const trail = (to, alpha) => {
    context.globalAlpha = alpha;
    context.strokeStyle = context.fillStyle = color;
    context.lineWidth = 2;
    context.beginPath();
    for (let i = 0; i <= to; i++) if (Number.isFinite(scaled[i])) context[begins(i) ? "moveTo" : "lineTo"](x(i), y(scaled[i]));
    context.stroke();
    if (values.length <= 40) {
      for (let i = 0; i <= to; i++) {
        if (Number.isFinite(scaled[i])) context.fillRect(x(i) - 2, y(scaled[i]) - 2, 4, 4);
      }
    }
    context.globalAlpha = 1;
  };
  trail(values.length - 1, 0.25);
  if (current < 0) return;
  trail(current, 1);
  if (Number.isFinite(scaled[current])) {
    context.fillStyle = palette.now;
    context.beginPath();
    context.arc(x(current), y(scaled[current]), 4, 0, 7);
    context.fill();
  }
}
