// What the player says in words: the step counter, the readout, the tooltip.

function momentWords(timeline, at) {
  const { moments, position } = timeline;
  if (!moments.measured) return `moment ${position} / ${moments.times.length + 1}`;
  return `${(Math.max(at.time, 0) / 1000).toFixed(1)} / ${(moments.last / 1000).toFixed(1)} µs`;
}

function countWords(timeline, at) {
  return timeline.order === "gpu" ? momentWords(timeline, at) : `step ${at.step < 0 ? 0 : at.step + 1} / ${timeline.model.count}`;
}

function bytesSoFar(timeline, at) {
  const { model } = timeline;
  if (timeline.order === "one") return { total: model.bytes[at.done], perTensor: model.tensorBytes.map((sums) => sums[at.done]) };
  const perTensor = model.tensorBytes.map(() => 0);
  for (let i = 0; i < model.count; i++) {
    if (at.isDone(i)) perTensor.forEach((_, t) => (perTensor[t] += model.tensorBytes[t][i + 1] - model.tensorBytes[t][i]));
  }
  return { total: perTensor.reduce((a, b) => a + b, 0), perTensor };
}

// Split-KV packs the query heads that share a key head into one tile of rows.
function isPacked(model) {
  const { rows, q_len } = model.data.problem;
  return rows > q_len;
}

function headName(model, head) {
  return `${isPacked(model) ? "K head" : "head"} ${head}`;
}

function rowWords(model, at, pinned) {
  const { head, q, row } = shownRow(model, at, pinned);
  const { block_m, q_len, rows } = model.data.problem;
  const number = q * block_m + model.offsets[row];
  const packed = isPacked(model) ? `: head ${head * (rows / q_len) + Math.floor(number / q_len)}, query ${number % q_len}` : "";
  return `row ${number}${packed}${pinned ? " (picked; click it again to let go)" : " (click a tile to pick one)"}`;
}

function gpuWords(timeline, at, bytes, active) {
  if (at.finished) return `All programs have ended. ${formatBytes(bytes.total)} requested.`;
  const basis = timeline.moments.measured ? "by the GPU's clock (traced launch)" : `modelled: one program an SM of the ${timeline.model.data.gpu.name}, every step as long`;
  return `${active} tiles in progress, ${basis}. ${formatBytes(bytes.total)} requested so far.`;
}

function readoutWords(timeline, at, bytes, active, pinned) {
  const { model } = timeline;
  if (timeline.order === "gpu") return gpuWords(timeline, at, bytes, active);
  if (at.step < 0) return "Not started. Space plays, the arrow keys step.";
  const kernel = model.kernels.length > 1 ? `${model.kernels[at.kernel].name}: ` : "";
  const shown = shownRow(model, at, pinned);
  const row = pinned && pinned.q === model.q[at.step] ? pinned.row : 0;
  const states = model.kernels[at.kernel].series
    .filter((name) => model.values[name] && name !== "distance")
    .map((name) => `${SERIES[name].name} ${formatNumber(valueAt(model, name, at.step, row))}`);
  const [q, kv] = [model.q[at.step], model.kv[at.step]];
  const part = model.parts.findLastIndex((first) => first <= kv);
  const partial = tileKind(model, at.step) === KIND.partial ? " (partly masked)" : "";
  const where = q < 0 ? `key tile ${kv} is seen by no query` : kv < 0 ? `query tile ${q}${shown.steps.length > 1 || model.kernels[at.kernel].cells ? " sees no key" : ""}` : part >= 0 ? `part ${part}, ${partTiles(model, at.step)}` : `query tile ${q}, key tile ${kv}${partial}`;
  const phase = at.complete ? "" : `: ${at.phase}`;
  const sentence = `${kernel}${where}${phase}. ${states.length && kv >= 0 && q >= 0 ? `${states.join(", ")}. ` : ""}${formatBytes(bytes.total)} so far.`;
  return sentence[0].toUpperCase() + sentence.slice(1);
}

function partTiles(model, step) {
  const [kv, end] = [model.kv[step], model.kvEnd[step]];
  return end - kv > 1 ? `key tiles ${kv} to ${end - 1}` : `key tile ${kv}`;
}

function tileWords(model, hit, kernel) {
  const kind = ["skipped by the mask", "partly masked", "full"][model.kinds[hit.q * model.kvTiles + hit.kv]];
  const step = model.kv.findIndex((kv, i) => model.kernel[i] === kernel && model.q[i] === hit.q && model.head[i] === hit.head && kv <= hit.kv && hit.kv < model.kvEnd[i]);
  const share = step < 0 || model.kernels[kernel].cells !== "share" ? "" : `, ${formatNumber((100 * model.share[step]) / 65535)} % of the attention of its rows`;
  return `query tile ${hit.q}, key tile ${hit.kv}: ${kind}${share}. Click to follow this row.`;
}
