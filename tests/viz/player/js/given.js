// What Python hands to the tests: files that tests/viz/player/test_javascript.py writes.

import { readFileSync } from "node:fs";
import { env } from "node:process";
import { decode, makeModel } from "../../../../viz/player/js/run/model.js";
import { Timeline } from "../../../../viz/player/js/run/timeline.js";

// The contents of a file that Python wrote, by its name.
export function given(name) {
  return JSON.parse(readFileSync(`${env.GIVEN}/${name}.json`, "utf8"));
}

// A run: what the player is sent of it, its model, and the arrays of its trace as nested lists.
export function givenRun(name) {
  const { data, trace, moments } = given(name);
  const nested = (values, [length, ...rest]) => {
    if (!rest.length) return [...values];
    const size = values.length / length;
    return range(length).map((i) => nested(values.subarray(i * size, (i + 1) * size), rest));
  };
  const arrays = Object.entries(trace).map(([array, { shape, data: text }]) => {
    return [array, nested(decode(text, Float64Array), shape)];
  });
  return { data, model: makeModel(data), trace: Object.fromEntries(arrays), moments };
}

// A timeline of a model at a place in words, and what is shown there.
export function standing(model, place) {
  const line = new Timeline(model);
  line.goToText(place);
  const at = line.cursor();
  at.kernel = model.kernel[Math.max(at.step, 0)];
  at.head = model.head[Math.max(at.step, 0)];
  at.isDone = (step) => line.isDone(at, step);
  return { line, at };
}

// The cursor of a step in a phase of that name; without one, when it is done.
export function inPhase(model, step, name = "") {
  const phase = name ? model.phases[step].find((each) => each.name === name) : model.phases[step][0];
  const isDone = (each) => each < step || (each === step && !name);
  const now = model.phases[step].indexOf(phase);
  const progress = model.phases[step].map((_, k) => Number(!name || k <= now));
  return { step, phase, kernel: model.kernel[step], complete: !name, isDone, progress };
}

// Indices of the steps of a trace whose arrays have these values.
export function stepsWhere(trace, values) {
  const isSo = (step) => Object.entries(values).every(([array, value]) => trace[array][step] === value);
  return range(trace.program.length).filter(isSo);
}

// Numbers from 0 to before an end.
export const range = (end) => Array.from({ length: end }, (_, i) => i);

// Whether two numbers are alike, up to a part of the second.
export const isNear = (one, other, part = 1e-6) =>
  Math.abs(one - other) <= part * Math.max(1e-9, Math.abs(other));
