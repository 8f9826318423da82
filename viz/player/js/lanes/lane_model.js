// The lanes of one or more runs (see lanes.py) as typed arrays, with the look-ups that drawing needs. An
// event is a number; those of a track follow each other in time and do not overlap. No drawing here.

import { formatMs } from "../run/formats.js";
import { decode, hasTile, range, stepsAbout, tileNumber } from "../run/model.js";

const ARRAYS = { uint16: Uint16Array, uint32: Uint32Array, int16: Int16Array, int32: Int32Array };

export const lanesModel = (data) => ({ data, runs: data.runs.map(makeRun) });

function makeRun(data) {
  const cycles = { begin: decode(data.begin, Uint32Array), length: decodeAs(data.length) };
  const begin = Float64Array.from(cycles.begin, (value) => value / data.clock_ghz);
  const run = {
    ...data,
    begin,
    end: Float64Array.from(begin, (value, i) => value + cycles.length[i] / data.clock_ghz),
    activity: decode(data.activity, Uint8Array),
    place: decodeAs(data.place),
    places: decodeAs(data.places),
  };
  run.sms = placeTracks(data.sms);
  run.lastEnd = run.end.reduce((last, end) => Math.max(last, end), 0);
  run.latest = smOf(run, run.end.indexOf(run.lastEnd)); // the SM that is done last
  run.events = Map.groupBy(range(run.begin.length), (event) => tileKey(tileOf(run, event)));
  return run;
}

const decodeAs = ({ dtype, data }) => decode(data, ARRAYS[dtype]);

// Each track with its events, from `first` to before `end`; it begins a row, or joins products to others.
function placeTracks(sms) {
  let end = 0;
  return sms.map(({ sm, tracks }) => {
    const placed = tracks.map(({ row, product, count }, i) => {
      const begins = tracks[i - 1]?.row !== row;
      const joins = !begins && product && tracks[i - 1].product;
      return { row, product, begins, joins, first: end, end: (end += count) };
    });
    return { sm, tracks: placed, end };
  });
}

// What an event is about: its program, head, query tile and key tile; -1 for none.
export function tileOf(run, event) {
  const [program, head, q, kv] = run.places.subarray(4 * run.place[event], 4 * run.place[event] + 4);
  return { program, head, q, kv };
}

export const activityOf = (run, event) => run.activities[run.activity[event]];

const tileKey = ({ head, q, kv }) => `${head}|${q}|${kv}`;

// The events about any of these tiles. If a tile names a kernel of the run, events of its others are not.
export function eventsOf(run, tiles) {
  const kernels = new Set(run.activities.map(({ kernel }) => kernel));
  return tiles.flatMap((tile) => {
    const isOwn = (event) =>
      !kernels.has(tile.kernel) || ["", tile.kernel].includes(activityOf(run, event).kernel);
    return (run.events.get(tileKey(tile)) ?? []).filter(isOwn);
  });
}

export const smOf = (run, event) => run.sms.findIndex(({ end }) => event < end);

// The events of a track that are at least in part between two times.
export const visibleEvents = (run, { first, end }, from, to) =>
  range(end, first).filter((event) => run.end[event] > from && run.begin[event] < to);

// The event of a track at a time, or the nearest one within `reach`; -1 if there is none.
export function eventAt(run, track, time, reach) {
  const away = (event) => Math.max(run.begin[event] - time, time - run.end[event], 0);
  const near = visibleEvents(run, track, time - reach, time + reach);
  return near.reduce((best, event) => (best < 0 || away(event) < away(best) ? event : best), -1);
}

export function eventWords(run, event) {
  const { name, about: until } = activityOf(run, event);
  const length = run.end[event] - run.begin[event];
  const cycles = Math.round(length * run.clock_ghz).toLocaleString("en-US");
  const { program, head, q, kv } = tileOf(run, event);
  const about = [
    q < 0 ? "" : `head ${head}, query tile ${q}`,
    kv < 0 ? "" : `key tile ${kv}`,
    `program ${program}`,
  ].filter(Boolean);
  const { sm, tracks } = run.sms[smOf(run, event)];
  const { row } = tracks.find(({ end }) => event < end);
  const began = formatMs(run.begin[event] / 1e6);
  const what = [name, until].filter(Boolean).join(", ");
  const when = `${formatMs(length / 1e6)} (${cycles} cycles) from ${began} on`;
  return `${what}: ${when}. ${about.join(", ")}. ${row}, SM ${sm}, ${run.title}.`;
}

// The tiles that a player works on, each with its kernel: of its step, or of all steps under way at a moment.
export function tilesAt(timeline, at) {
  const { model, moments } = timeline;
  if (at.step >= 0) return tilesOfStep(model, at.step, at.phase);
  if (at.time === undefined || !at.started || at.finished) return [];
  const isUnderWay = (i) => moments.start[i] <= at.time && at.time < moments.end[i];
  return range(model.count)
    .filter((i) => isUnderWay(i) && hasTile(model, i))
    .flatMap((i) => tilesOfStep(model, i));
}

function tilesOfStep(model, step, phase = null) {
  const kernel = model.kernels[model.kernel[step]].name;
  const [head, q] = [model.head[step], tileNumber(model, model.q[step])];
  const keys = range(model.kvEnd[step], model.kv[step]);
  const whole = phase?.stores.length ? [-1] : []; // what is about the query tile alone
  return [...keys, ...whole].map((kv) => ({ kernel, head, q, kv }));
}

// The position in that phase of the step about a tile, or with its weights if it has no such phase; -1 if no
// step is about the tile (of a query tile alone: its first or last). Of a named kernel, if it is here.
export function positionOf(timeline, { head, q, kv }, phase, named = "") {
  const { model } = timeline;
  const own = model.kernels.findIndex(({ name }) => name === named);
  const kernels = own < 0 ? [...model.kernels.keys()] : [own];
  const tile = { head, q: model.tileNumbers.indexOf(q), kv };
  const isInPhase = (i) => model.phases[i].some(({ name }) => name === phase);
  const steps = kernels.flatMap((kernel) => stepsAbout(model, kernel, tile));
  if (!steps.length) return -1;
  const step = steps.find(isInPhase) ?? steps.at(-1);
  const number = model.phases[step].findIndex(({ name }) => name === phase);
  return number < 0 ? timeline.placeIn(step) : model.phaseStart[step] + number + 1;
}
