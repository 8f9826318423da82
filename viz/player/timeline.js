// Where the playback stands. Positions count phases: 0 is before the first, model.phaseStart[count] after the last.
// "one" plays programs one after the other, as recorded in program order. "gpu" plays them all at once: by the GPU's own
// clock where there is one, else in modelled waves over the SMs (see kernels/schedule.py).

const SPEEDS = [0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256];
const UNITS = ["tile", "phase", "program"];

function makeTimeline(model) {
  const timeline = { model, order: "one", unit: "tile", speed: 8, playing: false, position: 0, moments: gpuMoments(model) };
  return timeline;
}

// Distinct start times, and for each step when it starts and ends.
function gpuMoments(model) {
  const start = Float64Array.from(model.clock.start);
  const end = Float64Array.from(model.clock.end, (value, i) => Math.max(value, start[i] + 1));
  const times = Array.from(new Set(start)).sort((a, b) => a - b);
  return { start, end, times, last: end.reduce((a, b) => Math.max(a, b), 0), measured: model.clock.measured };
}

function lastPosition(timeline) {
  return timeline.order === "one" ? timeline.model.phaseStart[timeline.model.count] : timeline.moments.times.length + 1;
}

// Steps that are done, the step in progress or just done, and its phase.
function cursor(timeline) {
  const { model, position } = timeline;
  if (timeline.order === "gpu") {
    const { times, last } = timeline.moments;
    const time = position === 0 ? -1 : position > times.length ? last : times[position - 1];
    return { time, step: -1, phase: "", done: 0, started: position > 0, finished: position > times.length };
  }
  if (position === 0) return { step: -1, phase: "", done: 0, started: false, finished: false };
  const step = stepAt(model, position);
  const inStep = position - model.phaseStart[step];
  const complete = inStep >= model.phases[step].length;
  return { step, phase: model.phases[step][inStep - 1] ?? "", done: complete ? step + 1 : step, complete, started: true, finished: position === lastPosition(timeline) };
}

// The step whose phases include position (1-based within the step).
function stepAt(model, position) {
  let low = 0;
  let high = model.count - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (model.phaseStart[middle + 1] >= position) high = middle;
    else low = middle + 1;
  }
  return low;
}

// How far one press of an arrow goes.
function moved(timeline, direction, unit = timeline.unit) {
  const { model, position } = timeline;
  if (timeline.order === "gpu") return clampPosition(timeline, position + direction);
  if (unit === "phase") return clampPosition(timeline, position + direction);
  if (direction > 0) {
    const step = position === 0 ? 0 : Math.min(stepAt(model, position) + (cursor(timeline).complete ? 1 : 0), model.count - 1);
    return model.phaseStart[(unit === "program" ? model.turnLast[step] : step) + 1];
  }
  if (position === 0) return 0;
  const step = stepAt(model, position);
  return model.phaseStart[unit === "program" ? model.turnFirst[step] : step];
}

function clampPosition(timeline, position) {
  return Math.max(0, Math.min(lastPosition(timeline), Math.round(position)));
}

// "37" is after 37 steps, "37.2" in the second phase of the next one; "gpu:12" is a moment of all programs at once.
function positionText(timeline) {
  if (timeline.order === "gpu") return `gpu:${timeline.position}`;
  const at = cursor(timeline);
  return at.step < 0 || at.complete ? String(at.done) : `${at.done}.${timeline.position - timeline.model.phaseStart[at.step]}`;
}

function goToText(timeline, text) {
  const gpu = /^gpu:(\d+)$/.exec(text ?? "");
  const one = /^(\d+)(?:\.(\d+))?$/.exec(text ?? "");
  if (gpu) {
    timeline.order = "gpu";
    timeline.position = clampPosition(timeline, Number(gpu[1]));
  } else if (one) {
    timeline.order = "one";
    const step = Math.min(Number(one[1]), timeline.model.count);
    timeline.position = clampPosition(timeline, timeline.model.phaseStart[step] + Number(one[2] ?? 0));
  }
}
