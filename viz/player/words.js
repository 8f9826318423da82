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

function rowWords(model, at, pinned) {
  const { first, row } = shownRow(model, at, pinned);
  const number = model.q[first] * model.data.problem.block_m + model.offsets[row];
  return `row ${number}${pinned ? " (picked; click it again to let go)" : " (click a tile to pick one)"}`;
}

function readoutWords(timeline, at, bytes, active, pinned) {
  const { model } = timeline;
  if (timeline.order === "gpu") {
    if (at.finished) return `All programs have ended. ${formatBytes(bytes.total)} requested.`;
    const basis = timeline.moments.measured ? "by the GPU's clock (traced launch)" : "in lockstep: this trace has no GPU clock";
    return `${active} tiles in progress, ${basis}. ${formatBytes(bytes.total)} requested so far.`;
  }
  if (at.step < 0) return "Not started. Space plays, the arrow keys step.";
  const { first, row } = shownRow(model, at, pinned);
  const state = rowState(model, at.step, model.programFirst[at.step] === first ? row : 0);
  const partial = tileKind(model, at.step) === KIND.partial ? " (partly masked)" : "";
  const where = model.kv[at.step] < 0 ? `Query tile ${model.q[at.step]} sees no key` : `Query tile ${model.q[at.step]}, key tile ${model.kv[at.step]}${partial}`;
  const phase = at.complete ? "" : `: ${at.phase}`;
  return `${where}${phase}. m ${formatNumber(state.m)}, l ${formatNumber(state.l)}, α ${formatNumber(state.alpha)}. ${formatBytes(bytes.total)} so far.`;
}

function tileWords(model, hit) {
  const kind = ["skipped by the mask", "partly masked", "full"][model.kinds[hit.q * model.kvTiles + hit.kv]];
  const step = model.kv.findIndex((kv, i) => model.q[i] === hit.q && model.head[i] === hit.head && kv <= hit.kv && hit.kv < model.kvEnd[i]);
  const share = step < 0 ? "" : `, ${formatNumber((100 * model.share[step]) / 65535)} % of the attention of its rows`;
  return `query tile ${hit.q}, key tile ${hit.kv}: ${kind}${share}. Click to follow this row.`;
}
