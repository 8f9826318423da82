// What lies in SRAM, to scale against its capacity, and what the rows of the tile in progress have summed up.

// The phase of the loop that makes a part that no phase loads, and the last one that needs a part that is loaded in the loop.
const MADE_BY = { "S, P": "QK^T", S: "QK^T", P: "exponentials", dS: "dP" };
const NEEDED_UNTIL = { _attn_fwd: { K: "QK^T" }, _attn_split_kv: { K: "QK^T" }, _attn_bwd_dq: { V: "dP" }, _attn_bwd_dk_dv: { dO: "dP" } };
// Parts that a phase works on, where its name does not say so.
const WORKS_ON = {
  "QK^T": ["S, P", "S", "rows of S"], mask: ["S, P", "S"], "row max": ["m, l", "m"], exponentials: ["S, P", "rows of P"], rescale: ["O"], PV: ["O"],
  "P from lse": ["S, P"], dP: ["dS"], dS: ["dS"], dV: ["dV"], dK: ["dK"], dQ: ["dQ"], D: ["D"], softmax: ["rows of P"], "row sum": ["m, l"],
  weigh: ["O"], "log-sum-exp": ["lse"], "load S": ["rows of S"], "store P": ["rows of P"],
};

function partColor(name) {
  if (/^(S|P|dS|rows)/.test(name)) return "muted";
  return tensorColor(name.split(", ")[0]);
}

function formatKib(bytes) {
  return `${formatNumber(bytes / 1024)} KiB`;
}

// Whether a part holds data of the step in progress.
function isLive(kernel, part, phase) {
  const [, loop, epilogue] = kernel.source.phases;
  const loads = (name) => movedTensors(name, "load").some((tensor) => part.name.split(", ").includes(tensor));
  const start = loop.findIndex((name) => loads(name) || name === MADE_BY[part.name]);
  if (start < 0) return true;
  if (epilogue.includes(phase) || !loop.includes(phase)) return false;
  const end = NEEDED_UNTIL[kernel.name]?.[part.name];
  const now = loop.indexOf(phase);
  return now >= start && (!end || now <= loop.indexOf(end));
}

function isWorkedOn(part, phase) {
  const moved = [...movedTensors(phase, "load"), ...movedTensors(phase, "store")];
  return (WORKS_ON[phase] ?? []).includes(part.name) || moved.some((tensor) => part.name.split(", ").includes(tensor));
}

function drawChip(canvas, model, palette, at) {
  const { context, width, height } = fitCanvas(canvas);
  context.clearRect(0, 0, width, height);
  const kernel = model.kernels[at.kernel];
  const parts = kernel.sram;
  const { capacity, name: gpu } = model.data.gpu;
  const used = parts.reduce((sum, part) => sum + part.bytes, 0);
  const narrow = width < 440; // the row sums go below the bar
  const rowsWidth = narrow ? width : Math.min(190, width * 0.32);
  const barWidth = narrow || !kernel.bars ? width : width - rowsWidth - 18;
  const enlarged = used < capacity / 12 ? (0.75 * capacity) / used : 1; // tiles too small to be seen to scale
  text(context, barWidth < 340 || enlarged > 1 ? "SRAM" : `SRAM of one SM (${gpu})`, 0, 8, palette.text, { size: 12, weight: "600" });
  const fits = used <= capacity;
  const words = `${formatKib(used)} of ${formatKib(capacity)}${fits ? "" : ": does not fit"}${enlarged > 1 ? `, drawn ${formatNumber(enlarged, 2)}× larger` : ""}`;
  text(context, words, barWidth, 8, fits ? palette.text : palette.bad, { size: 12, align: "right", weight: fits ? "" : "600" });
  const top = 18;
  const thick = narrow ? 22 : Math.max(18, Math.min(30, height - 38));
  const scale = (enlarged * barWidth) / Math.max(used, capacity);
  context.fillStyle = palette.surface;
  context.fillRect(0, top, barWidth, thick);
  let x = 0;
  for (const part of parts) {
    const w = part.bytes * scale;
    const live = at.step >= 0 ? isLive(kernel, part, at.phase) : at.started && !at.finished;
    const fade = part.name === "O" && at.phase === "rescale" ? at.meanAlpha : 1;
    context.globalAlpha = live ? 0.25 + 0.75 * fade : 0.18;
    context.fillStyle = palette[partColor(part.name)];
    context.fillRect(x, top, Math.max(w - 1, 0.8), thick);
    context.globalAlpha = 1;
    if (live && isWorkedOn(part, at.phase)) outline(context, { x: x + 1, y: top + 1, w: w - 1, h: thick - 1 }, palette.now, 2);
    x += w;
  }
  context.strokeStyle = fits ? palette.muted : palette.bad;
  context.lineWidth = fits ? 1 : 2;
  const end = enlarged > 1 ? barWidth + 4 : capacity * scale; // an enlarged bar is open on the right
  context.strokeRect(0.5, top + 0.5, end - 1, thick - 1);
  drawPartLabels(context, parts, scale, top + thick + 10, barWidth, palette);
  const box = narrow ? { x: 0, y: 66, w: width, h: height - 66 } : { x: barWidth + 18, y: 0, w: rowsWidth, h: height };
  if (enlarged > 1) context.clearRect(barWidth, top - 1, 8, thick + 2);
  if (kernel.bars === "l") drawRowSums(context, box, model, palette, at);
  else if (kernel.bars) drawShares(context, box, model, palette, at, kernel.bars);
}

// Names under their parts; small parts share the room to their right.
function drawPartLabels(context, parts, scale, y, barWidth, palette) {
  let x = 0;
  let free = 0;
  for (const part of parts) {
    const words = `${part.name} ${formatNumber(part.bytes / 1024)}`;
    context.font = '600 11px "Source Sans", "Source Sans Pro", system-ui, sans-serif';
    const needed = context.measureText(words).width + 8;
    const at = Math.max(x, free);
    if (at + needed <= barWidth + 8) {
      text(context, words, at, y, palette[partColor(part.name)], { size: 11, weight: "600" });
      free = at + needed;
    }
    x += part.bytes * scale;
  }
}

// One bar a row of the query tile: its sum l. In the rescale phase the old sum shrinks by alpha, and the new part grows on it.
function drawRowSums(context, box, model, palette, at) {
  text(context, "row sum l of the tile's rows", box.x, box.y + 8, palette.text, { size: 12, weight: "600" });
  if ("time" in at) text(context, "shown when played one by one", box.x, box.y + 26, palette.muted, { size: 11 });
  if (at.step < 0 || model.q[at.step] < 0) return;
  const q = model.q[at.step];
  const count = rowCount(model, q);
  const steps = model.tileSteps.get(tileKey(at.kernel, at.head, q)).filter((step) => model.kernels[at.kernel].stays === "kv_tile" || model.turn[step] === model.turn[at.step]);
  const index = steps.indexOf(at.step);
  const l = (step, row) => valueAt(model, "l", step, row) || 0;
  let largest = 1e-30;
  for (const step of steps) for (let row = 0; row < count; row++) largest = Math.max(largest, l(step, row));
  const loop = model.kernels[at.kernel].source.phases[1];
  const rescaled = at.complete || loop.indexOf(at.phase) >= loop.indexOf("rescale") || at.phase.startsWith("store");
  const tall = box.h - 36;
  const bar = barsIn(context, box, count, tall / largest);
  for (let row = 0; row < count; row++) {
    const now = l(at.step, row);
    const old = index > 0 ? l(steps[index - 1], row) : 0;
    const kept = old * valueAt(model, "alpha", at.step, row);
    if (!rescaled) {
      bar(row, 0, old, palette.state);
      continue;
    }
    const shrunk = at.phase === "rescale" ? old + (kept - old) * Math.min(1, at.tween * 2) : kept;
    const grown = at.phase === "rescale" ? Math.max(0, at.tween * 2 - 1) * (now - kept) : now - kept;
    if (at.phase === "rescale" && old > kept) bar(row, shrunk, old - shrunk, palette.line);
    bar(row, 0, shrunk, palette.state);
    bar(row, shrunk, grown, palette.state, 0.55);
  }
  const alphas = at.alphaRange;
  const words = model.kv[at.step] < 0 ? "no key in sight" : `old sum × α, α = ${formatNumber(alphas[0], 2)} to ${formatNumber(alphas[1], 2)}`;
  barFloor(context, box, palette, words);
}

// One bar a row: what earlier tiles hold of its row of P, or weigh in its output, and what this one adds. All of them make 1.
function drawShares(context, box, model, palette, at, name) {
  text(context, name === "share" ? "rows of P seen so far" : "weights of the parts so far", box.x, box.y + 8, palette.text, { size: 12, weight: "600" });
  if ("time" in at) text(context, "shown when played one by one", box.x, box.y + 26, palette.muted, { size: 11 });
  if (at.step < 0 || model.q[at.step] < 0) return;
  const q = model.q[at.step];
  const count = rowCount(model, q);
  const steps = model.tileSteps.get(tileKey(at.kernel, at.head, q)) ?? [];
  const bar = barsIn(context, box, count, box.h - 36);
  const index = steps.indexOf(at.step);
  for (let row = 0; row < count; row++) {
    let before = 0;
    for (let i = 0; i < index; i++) before += valueAt(model, name, steps[i], row);
    bar(row, 0, before, palette.state);
    bar(row, before, valueAt(model, name, at.step, row), palette.state, 0.55);
  }
  barFloor(context, box, palette, "light: this step; all of them: 1");
}

// A function that draws part of a row's bar: from `base` on, `size` tall, in units that `scale` turns into pixels.
function barsIn(context, box, count, scale) {
  const step = box.w / count;
  const bottom = box.y + box.h - 18;
  return (row, base, size, color, alpha = 1) => {
    context.globalAlpha = alpha;
    context.fillStyle = color;
    context.fillRect(box.x + row * step, bottom - (base + size) * scale, Math.max(step - (step > 3 ? 1 : 0), 0.8), size * scale);
    context.globalAlpha = 1;
  };
}

function barFloor(context, box, palette, words) {
  context.strokeStyle = palette.muted;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(box.x, box.y + box.h - 17.5);
  context.lineTo(box.x + box.w, box.y + box.h - 17.5);
  context.stroke();
  text(context, words, box.x, box.y + box.h - 8, palette.muted, { size: 11 });
}
