// Where the playback of one run stands. A track for transport.js.
//
// Positions count phases: 0 is before the first, model.phaseStart[count] after the last. In the order "one",
// programs are played one after the other, as the trace holds them. In the order "gpu" they are played all at
// once, and positions count moments: by the GPU's own clock if there is one, else in modelled waves over the
// SMs (kernels/trace/schedule.py).

import { decode } from "./model.js";

export const UNITS = ["tile", "phase", "program"];

export class Track {
  position = 0;

  clamp(position) {
    return Math.max(0, Math.min(this.last(), Math.round(position)));
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
  ticksPerStep = 1;

  constructor(model) {
    super();
    this.model = model;
    this.moments = findMoments(model);
  }

  last() {
    const { model, moments } = this;
    return this.order === "one" ? model.phaseStart[model.count] : moments.times.length + 1;
  }

  // The steps that are done, and the step and phase in progress or just done. `time` is that of the moment.
  cursor() {
    return this.order === "one" ? this.cursorOfStep() : this.cursorOfMoment();
  }

  cursorOfStep() {
    const { model, position } = this;
    if (position === 0) return { step: -1, phase: null, done: 0, started: false, finished: false };
    const step = stepAt(model, position);
    const inStep = position - model.phaseStart[step];
    const complete = inStep >= model.phases[step].length;
    return {
      step,
      phase: model.phases[step][inStep - 1] ?? null,
      done: complete ? step + 1 : step,
      complete,
      started: true,
      finished: position === this.last(),
    };
  }

  cursorOfMoment() {
    const { times, last } = this.moments;
    const { position } = this;
    const finished = position > times.length;
    const time = position === 0 ? -1 : finished ? last : times[position - 1];
    return { time, step: -1, phase: null, done: 0, started: position > 0, finished };
  }

  // Whether a step is done at a cursor.
  isDone(at, step) {
    return at.finished || (this.order === "gpu" ? this.moments.end[step] <= at.time : step < at.done);
  }

  // The position one press of an arrow further, or one tick of playback.
  moved(direction) {
    const { model, position, unit } = this;
    if (this.order === "gpu" || unit === "phase") return this.clamp(position + direction);
    if (direction > 0) {
      const step = this.nextStep();
      return model.phaseStart[(unit === "program" ? model.turnLast[step] : step) + 1];
    }
    if (position === 0) return 0;
    const step = stepAt(model, position);
    return model.phaseStart[unit === "program" ? model.turnFirst[step] : step];
  }

  played() {
    return this.moved(1);
  }

  // The step in progress, or the one after a step that is done.
  nextStep() {
    const { model, position } = this;
    if (position === 0) return 0;
    return Math.min(stepAt(model, position) + (this.cursor().complete ? 1 : 0), model.count - 1);
  }

  // "37" is after 37 steps, "37.2" in the second phase of the next one; "gpu:12" is moment 12.
  text() {
    if (this.order === "gpu") return `gpu:${this.position}`;
    const at = this.cursor();
    if (at.step < 0 || at.complete) return String(at.done);
    return `${at.done}.${this.position - this.model.phaseStart[at.step]}`;
  }

  placeOf(words) {
    const [, moment, done, phase] = /^(?:gpu:(\d+)|(\d+)(?:\.(\d+))?)$/.exec(words ?? "") ?? [];
    if (moment) return { order: "gpu", position: Number(moment) };
    if (!done) return null;
    const step = Math.min(Number(done), this.model.count);
    return { order: "one", position: this.model.phaseStart[step] + Number(phase ?? 0) };
  }
}

// Distinct start times, and for each step when it starts and ends.
function findMoments({ data: { clock } }) {
  const start = decode(clock.start, Uint32Array);
  const end = decode(clock.end, Uint32Array).map((value, i) => Math.max(value, start[i] + 1));
  const times = [...new Set(start)].toSorted((a, b) => a - b);
  return { start, end, times, last: end.reduce((a, b) => Math.max(a, b), 0), measured: clock.measured };
}

// The step whose phases include a position; positions count from 1 within a step.
function stepAt({ count, phaseStart }, position) {
  return phaseStart.subarray(0, count).findLastIndex((start) => start < position);
}
