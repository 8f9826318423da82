// Where the playback of one run stands. A track for transport.js.
//
// A position is a number: 0 is before the first phase, model.phaseStart[count] after the last, 3.4 is four
// tenths into the fourth. In the order "one", programs are played one after the other, as the trace holds
// them. In the order "gpu" they are played all at once, and positions count moments: by the GPU's own clock
// if there is one, else in modelled waves over the SMs (kernels/trace/schedule.py).

import { finishes, phaseOfWeights, sumOf } from "./bench.js";
import { lerp, smooth } from "./easing.js";
import { decode, range, sum } from "./model.js";

export const UNITS = ["tile", "phase", "program"];
const NEAR = 1e-6; // of a whole position
const MANY = 6; // tiles
const NOWHERE = { step: -1, phase: null, part: 1, done: 0 };

export class Track {
  position = 0;
  ticks = 1; // of positions, for one of playback

  clamp(position) {
    const whole = Math.round(position);
    const near = Math.abs(position - whole) < NEAR ? whole : position;
    return Math.max(0, Math.min(this.last(), near));
  }

  // The position after so much of playback, in ticks.
  played(units) {
    return Math.min(this.position + units * this.ticks, this.last());
  }

  // How many tiles per second are seen at a speed.
  tileRate() {
    return 0;
  }

  between(from, to, part) {
    return lerp(from, to, part);
  }

  // How a way between two positions is gone: evenly but for its start and end.
  shapeOf() {
    return smooth;
  }

  // Go to a place in words; to none for other words. `placeOf(words)` is its order and position, or null.
  goToText(words) {
    const place = this.placeOf(words);
    if (!place) return;
    this.order = place.order;
    this.position = this.clamp(place.position);
  }
}

export class Timeline extends Track {
  order = "one";
  unit = "tile";

  constructor(model) {
    super();
    this.model = model;
    this.moments = findMoments(model);
    this.times = timesOf(model);
  }

  // Where a tile is looked at: with its weights, which its last phases use up. Without any, after its step.
  placeIn(step) {
    const { phaseStart } = this.model;
    const phase = phaseOfWeights(this.model, step);
    return phase ? phaseStart[step] + phase : phaseStart[step + 1];
  }

  last() {
    const { model, moments } = this;
    return this.order === "one" ? model.phaseStart[model.count] : moments.times.length + 1;
  }

  // The steps that are done, and the step and phase in progress or just done, `part` of it (0 to 1) over.
  cursor(position = this.position) {
    const { model } = this;
    const [time, finished] = [this.timeOf(position), position === this.last()];
    if (this.order === "gpu") return { ...NOWHERE, time, started: position >= 1, finished };
    if (position === 0) return { ...NOWHERE, started: false, finished };
    const reached = Math.ceil(position);
    const part = 1 - (reached - position);
    const step = model.phaseStart.subarray(0, model.count).findLastIndex((start) => start < reached);
    const inStep = reached - model.phaseStart[step];
    const complete = inStep >= model.phases[step].length && part === 1;
    const phase = model.phases[step][inStep - 1] ?? null;
    const [done, ofStep] = [step + complete, time - step];
    return { step, phase, part, ofStep, done, complete, started: true, finished };
  }

  isDone(at, step) {
    return at.finished || (this.order === "gpu" ? this.moments.end[step] <= at.time : step < at.done);
  }

  moved(direction) {
    const { model, position, unit } = this;
    const whole = direction > 0 ? Math.floor(position) : Math.ceil(position);
    if (this.order === "gpu" || unit === "phase") return this.clamp(whole + direction);
    const endOf = (step) => model.phaseStart[model.turnLast[step] + 1];
    const places = range(model.count).map((step) => (unit === "tile" ? this.placeIn(step) : endOf(step)));
    if (direction < 0) return places.findLast((place) => place < position) ?? 0;
    return places.find((place) => place > position) ?? this.last();
  }

  // The position after so many tiles of playback, or moments.
  played(units) {
    return this.order === "gpu" ? super.played(units) : this.positionOf(this.timeOf(this.position) + units);
  }

  tileRate(speed) {
    return this.order === "gpu" ? 0 : speed;
  }

  tilesBetween(from, to) {
    return this.order === "gpu" ? 0 : Math.abs(this.timeOf(to) - this.timeOf(from));
  }

  between(from, to, part) {
    return this.positionOf(lerp(this.timeOf(from), this.timeOf(to), part));
  }

  // Over many tiles the first ones are slow enough to be seen; a clock goes evenly.
  shapeOf(from, to) {
    if (this.order === "gpu") return (part) => Math.min(1, part);
    return this.tilesBetween(from, to) > MANY ? (part) => Math.min(1, part) ** 2.6 : smooth;
  }

  // The time of each whole position: in tiles every step takes 1, and its phases their shares of it.
  get clock() {
    return this.order === "gpu" ? this.moments.clock : this.times;
  }

  timeOf(position) {
    const times = this.clock;
    const whole = Math.min(Math.floor(position), times.length - 1);
    const next = times[Math.min(whole + 1, times.length - 1)];
    return times[whole] + (next - times[whole]) * (position - whole);
  }

  positionOf(time) {
    const times = this.clock;
    if (time >= times.at(-1)) return times.length - 1;
    const low = times.findLastIndex((each) => each <= time);
    return this.clamp(low + (time - times[low]) / (times[low + 1] - times[low]));
  }

  // "37" is after 37 steps, "37.2" in phase 2 of the next, "37.P" with its weights, "gpu:12" at a moment.
  text() {
    if (this.order === "gpu") return `gpu:${Math.floor(this.position)}`;
    const reached = Math.ceil(this.position);
    const at = this.cursor(reached);
    if (at.step < 0 || at.complete) return String(at.done);
    const isPlace = this.unit === "tile" && reached === this.placeIn(at.step);
    return `${at.done}.${isPlace ? "P" : reached - this.model.phaseStart[at.step]}`;
  }

  placeOf(words) {
    const [, moment, done, phase] = /^(?:gpu:(\d+(?:\.\d+)?)|(\d+)(?:\.(\d+|P))?)$/.exec(words ?? "") ?? [];
    if (moment) return { order: "gpu", position: Number(moment) };
    if (!done) return null;
    const step = Math.min(Number(done), this.model.count);
    const isTile = phase === "P" && step < this.model.count;
    const position = isTile ? this.placeIn(step) : this.model.phaseStart[step] + (Number(phase) || 0);
    return { order: "one", position };
  }
}

// How long a phase is shown, against others: a sum that shrinks or grows needs longer to be seen.
function lengthOf(phase) {
  if (finishes(phase)) return 1.5;
  if (phase.rescales || (phase.loads.length && sumOf(phase))) return 1.7;
  return phase.loads.length || phase.stores.length ? 0.8 : 1;
}

function timesOf({ count, phases, phaseStart }) {
  const times = new Float64Array(phaseStart[count] + 1);
  for (let i = 0; i < count; i++) {
    const lengths = phases[i].map(lengthOf);
    let reached = 0;
    lengths.forEach((each, k) => (times[phaseStart[i] + k + 1] = i + (reached += each) / sum(lengths)));
    times[phaseStart[i + 1]] = i + 1;
  }
  return times;
}

function findMoments({ data: { clock } }) {
  const start = decode(clock.start, Uint32Array);
  const end = decode(clock.end, Uint32Array).map((value, i) => Math.max(value, start[i] + 1));
  const times = [...new Set(start)].toSorted((a, b) => a - b);
  const last = end.reduce((a, b) => Math.max(a, b), 0);
  return { start, end, times, clock: [-1, ...times, last], last, measured: clock.measured };
}
