// What lies in SRAM, to scale against its capacity, and the row sums of the tile in progress.

// Which parts hold live data in each phase of a step.
const LIVE = {
  "load Q": ["Q"],
  "load K": ["Q", "K"],
  "QK^T": ["Q", "K", "S, P"],
  mask: ["Q", "S, P"],
  "row max": ["Q", "S, P"],
  exponentials: ["Q", "S, P"],
  rescale: ["Q", "S, P"],
  "load V": ["Q", "S, P", "V"],
  PV: ["Q", "S, P", "V"],
};
const ACTIVE = { "load Q": "Q", "load K": "K", "QK^T": "S, P", mask: "S, P", "row max": "m, l", exponentials: "S, P", rescale: "O", "load V": "V", PV: "O", "store O, lse": "O" };
const PART_COLOR = { Q: "query", K: "key", V: "value", "S, P": "muted", O: "output", "m, l": "state" };

function formatKib(bytes) {
  return `${formatNumber(bytes / 1024)} KiB`;
}

function drawChip(canvas, model, palette, at) {
  const { context, width, height } = fitCanvas(canvas);
  context.clearRect(0, 0, width, height);
  const { parts, capacity, gpu } = model.data.sram;
  const used = parts.reduce((sum, part) => sum + part.bytes, 0);
  const narrow = width < 440; // the row sums go below the bar
  const rowsWidth = narrow ? width : Math.min(190, width * 0.32);
  const barWidth = narrow ? width : width - rowsWidth - 18;
  text(context, narrow ? `SRAM (${gpu})` : `SRAM of one SM (${gpu})`, 0, 8, palette.text, { size: 12, weight: "600" });
  text(context, `${formatKib(used)} of ${formatKib(capacity)}`, barWidth, 8, palette.text, { size: 12, align: "right" });
  const live = at.step < 0 ? [] : [...(LIVE[at.phase] ?? ["Q"]), "O", "m, l"];
  const top = 18;
  const thick = narrow ? 22 : Math.max(18, Math.min(30, height - 38));
  const scale = barWidth / Math.max(used, capacity);
  context.fillStyle = palette.surface;
  context.fillRect(0, top, barWidth, thick);
  let x = 0;
  for (const part of parts) {
    const w = part.bytes * scale;
    const isLive = live.includes(part.name);
    const fade = part.name === "O" && at.phase === "rescale" ? at.meanAlpha : 1;
    context.globalAlpha = isLive ? 0.25 + 0.75 * fade : 0.18;
    context.fillStyle = palette[PART_COLOR[part.name] ?? "muted"];
    context.fillRect(x, top, Math.max(w - 1, 0.8), thick);
    context.globalAlpha = 1;
    if (ACTIVE[at.phase] === part.name && isLive) outline(context, { x: x + 1, y: top + 1, w: w - 1, h: thick - 1 }, palette.now, 2);
    x += w;
  }
  context.strokeStyle = palette.muted;
  context.lineWidth = 1;
  context.strokeRect(0.5, top + 0.5, barWidth - 1, thick - 1);
  drawPartLabels(context, parts, scale, top + thick + 10, barWidth, palette);
  drawRowSums(context, narrow ? { x: 0, y: 66, w: width, h: height - 66 } : { x: barWidth + 18, y: 0, w: rowsWidth, h: height }, model, palette, at);
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
      text(context, words, at, y, palette[PART_COLOR[part.name] ?? "muted"], { size: 11, weight: "600" });
      free = at + needed;
    }
    x += part.bytes * scale;
  }
}

// One bar a row of the query tile: its sum l. In the rescale phase the old sum shrinks by alpha, and the new part grows on it.
function drawRowSums(context, box, model, palette, at) {
  text(context, "row sum l of the tile's rows", box.x, box.y + 8, palette.text, { size: 12, weight: "600" });
  if (at.step < 0) return;
  const count = rowCount(model, at.step);
  const first = model.programFirst[at.step] === at.step;
  let largest = 1e-30;
  for (let i = model.programFirst[at.step]; i <= model.programLast[at.step]; i++) {
    for (let row = 0; row < count; row++) largest = Math.max(largest, rowState(model, i, row).l || 0);
  }
  const before = (row) => (first ? 0 : rowState(model, at.step - 1, row).l);
  const step = box.w / count;
  const bottom = box.y + box.h - 18;
  const tall = box.h - 36;
  const loop = model.data.source.phases[1];
  const rescaled = at.complete || loop.indexOf(at.phase) >= loop.indexOf("rescale") || at.phase.startsWith("store");
  for (let row = 0; row < count; row++) {
    const now = rowState(model, at.step, row);
    const old = before(row);
    const kept = old * now.alpha;
    const x = box.x + row * step;
    const w = Math.max(step - (step > 3 ? 1 : 0), 0.8);
    const h = (value) => (tall * value) / largest;
    if (!rescaled) {
      context.fillStyle = palette.state;
      context.fillRect(x, bottom - h(old), w, h(old));
      continue;
    }
    const shrunk = at.phase === "rescale" ? old + (kept - old) * Math.min(1, at.tween * 2) : kept;
    const grown = at.phase === "rescale" ? Math.max(0, at.tween * 2 - 1) * (now.l - kept) : now.l - kept;
    if (at.phase === "rescale" && old > kept) {
      context.fillStyle = palette.line;
      context.fillRect(x, bottom - h(old), w, h(old - shrunk));
    }
    context.fillStyle = palette.state;
    context.fillRect(x, bottom - h(shrunk), w, h(shrunk));
    context.globalAlpha = 0.55;
    context.fillRect(x, bottom - h(shrunk) - h(grown), w, h(grown));
    context.globalAlpha = 1;
  }
  context.strokeStyle = palette.muted;
  context.beginPath();
  context.moveTo(box.x, bottom + 0.5);
  context.lineTo(box.x + box.w, bottom + 0.5);
  context.stroke();
  const alphas = at.alphaRange;
  const words = model.kv[at.step] < 0 ? "no key in sight" : `old sum × α, α = ${formatNumber(alphas[0], 2)} to ${formatNumber(alphas[1], 2)}`;
  text(context, words, box.x, box.y + box.h - 8, palette.muted, { size: 11 });
}
