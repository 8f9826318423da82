// What is said of ranks at a moment.

import { formatBytes, formatMs, formatNumber } from "../run/formats.js";
import { range, sum } from "../run/model.js";
import { within } from "../run/easing.js";

export function ranksWords(runs, ns) {
  const ends = runs.map((run) => run.ns);
  if (runs.length > 1 && runs.every((run) => ns >= run.ns)) {
    const [fast, slow] = ends[0] <= ends[1] ? runs : runs.toReversed();
    const ratio = formatNumber(slow.ns / fast.ns);
    return `${slow.name} takes ${ratio} times as long as ${fast.name}. ${runs.map(busyWords).join(" ")}`;
  }
  return runs.map((run) => `${run.name && `${run.name}: `}${runWords(run, ns)}`).join(" ");
}

function runWords(run, ns) {
  if (ns >= run.ns) return `all done after ${formatMs(run.ns / 1e6)}. ${busyWords(run)}`;
  const begun = run.spans.filter(({ kind, begin }) => kind === "attend" && begin <= ns);
  const sent = sum(run.spans.map(({ bytes, begin, end }) => bytes * within(ns, begin, end)));
  const bytes = `${formatBytes(sent)} sent`;
  const last = begun.at(-1);
  if (!last) return `nothing is computed yet, ${bytes}.`;
  if (last.owner < 0) return `each rank has all tokens of ${run.heads} of the heads, ${bytes}.`;
  const step = Math.max(...begun.map((span) => span.step));
  if (!step) return `each rank begins with its own keys, ${bytes}.`;
  const from = step === 1 ? "the rank before it" : `the rank ${step} before it`;
  return `step ${step + 1} of ${run.ranks}: keys of ${from}, ${bytes}.`;
}

function busyWords(run) {
  const busy = range(run.ranks).map((rank) => {
    const own = run.spans.filter((span) => span.rank === rank && span.kind !== "transfer");
    return Math.round((100 * sum(own.map(({ begin, end }) => end - begin))) / run.ns);
  });
  const whose = run.name ? `The ranks of ${run.name}` : "The ranks";
  return `${whose} compute for ${Math.min(...busy)} to ${Math.max(...busy)} % of its time.`;
}
