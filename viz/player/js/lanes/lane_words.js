// What is said of an event, and of the waits of an SM.

import { formatMs, formatNumber } from "../run/formats.js";
import { activityOf, smOf, tileOf, trackOf } from "./lane_model.js";

export function eventWords(run, event) {
  const { name } = activityOf(run, event);
  const length = run.end[event] - run.begin[event];
  const cycles = Math.round(length * run.clock_ghz).toLocaleString("en-US");
  const { program, head, q, kv } = tileOf(run, event);
  const about = [
    q < 0 ? "" : `head ${head}, query tile ${q}`,
    kv < 0 ? "" : `key tile ${kv}`,
    `program ${program}`,
  ].filter(Boolean);
  const { row } = trackOf(run, event);
  const { sm } = run.sms[smOf(run, event)];
  const began = formatMs(run.begin[event] / 1e6);
  const what = `${name}: ${formatMs(length / 1e6)} (${cycles} cycles) from ${began} on`;
  return `${what}. ${about.join(", ")}. ${row}, SM ${sm}, ${run.title}.`;
}

// The waits of the SM in a place of run.waits.sm, the longest first.
export function waitWords(run, place) {
  const { names, sm } = run.waits;
  const shares = sharesOf(run, place)
    .map((share, i) => [share, names[i]])
    .filter(([share]) => share > 0)
    .toSorted(([a], [b]) => b - a);
  const words = shares.map(([share, name]) => `${name} ${formatNumber(100 * share, 2)} %`);
  return `SM ${sm[place]}: ${words.join(", ") || "waits nowhere"}.`;
}

// The part of the time of the warps that compute, for each wait.
export function sharesOf(run, place) {
  const { names } = run.waits;
  return names.map((_, i) => run.shares[place * names.length + i] / 65535);
}
