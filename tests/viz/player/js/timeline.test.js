import assert from "node:assert/strict";
import { test } from "node:test";
import { ByteRace } from "../../../../viz/player/js/duel.js";
import { makeModel } from "../../../../viz/player/js/run/model.js";
import { Timeline } from "../../../../viz/player/js/run/timeline.js";
import { givenRun, range } from "./given.js";

const { data, model, trace } = givenRun("clocked");
const made = (changed = {}) => new Timeline(makeModel({ ...data, ...changed }));

test("arrows go by tile, phase and program, and come back", () => {
  const line = made();
  const places = [
    ["tile", 1, "0.P"],
    ["tile", 1, "1.P"],
    ["phase", 1, "1.6"],
    ["tile", 1, "2.P"],
    ["program", 1, "3"],
    ["program", 1, "6"],
    ["tile", -1, "5.P"],
    ["program", -1, "3"],
    ["program", -1, "1"],
    ["tile", -1, "0.P"],
    ["tile", -1, "0"],
  ];
  for (const [unit, direction, place] of places) {
    line.unit = unit;
    line.position = line.moved(direction);
    assert.equal(line.text(), place);
  }
});

test("a place in words leads back to the same place", () => {
  for (const order of ["one", "gpu"]) {
    const line = made();
    line.order = order;
    for (const position of range(line.last() + 1)) {
      line.position = position;
      const words = line.text();
      line.goToText("0");
      line.goToText(words);
      assert.deepEqual([line.order, line.position], [order, position]);
    }
  }
});

const has = (matrix) => (phase) => [...phase.makes, ...phase.loads].includes(matrix);

test("a tile is stood at with its weights, whichever phase makes them; without any, after its step", () => {
  for (const name of ["full", "flash1", "backward", "standard", "parts"]) {
    const run = givenRun(name).model;
    const line = new Timeline(run);
    for (const step of range(run.count)) {
      line.goToText(`${step}.P`);
      const at = line.cursor();
      assert.equal(at.step, step);
      const shown = ["P", "S"].find((matrix) => run.phases[step].some(has(matrix)));
      assert.ok(shown ? has(shown)(at.phase) : at.complete, `${name}, step ${step}`);
    }
  }
});

test("a place that is not there is the nearest or the first", () => {
  const places = { "1e9": "0", 9999: "10", "gpu:999": "gpu:5", x: "0", "": "0" };
  for (const [words, place] of Object.entries(places)) {
    const line = made();
    line.goToText(words);
    assert.equal(line.text(), place);
  }
});

test("the cursor tells step and phase of every position", () => {
  const line = made();
  const before = { step: -1, phase: null, part: 1, done: 0, started: false, finished: false };
  assert.deepEqual(line.cursor(), before);
  const expected = model.phases.flatMap((phases, step) =>
    phases.map((phase, i) => {
      const complete = i === phases.length - 1;
      return { step, phase: phase.name, done: step + complete, complete, started: true, finished: false };
    }),
  );
  expected.at(-1).finished = true;
  assert.equal(line.last(), expected.length);
  expected.forEach((cursor, i) => {
    line.position = i + 1;
    const at = line.cursor();
    const { part, ofStep, ...rest } = at;
    assert.deepEqual({ ...rest, phase: at.phase.name }, cursor);
    assert.ok(part === 1 && ofStep > 0 && ofStep <= 1);
  });
});

test("a step without phases takes one position, in which no phase is shown", () => {
  const line = made({ steps: { ...data.steps, phase_classes: data.steps.phase_classes.map(() => []) } });
  assert.equal(line.last(), line.model.count);
  line.position = 3;
  const { step, phase, done, complete } = line.cursor();
  assert.deepEqual([step, phase, done, complete, line.text()], [2, null, 3, true, "3"]);
});

test("moments are the times at which steps start; a step is done at its end", () => {
  const line = made();
  line.order = "gpu";
  assert.deepEqual(
    [line.moments.times, line.moments.last, line.moments.measured],
    [[0, 100, 200, 300], 350, true],
  );
  assert.equal(line.last(), 5);
  for (const [position, time] of [
    [0, -1],
    [1, 0],
    [2, 100],
    [4, 300],
    [5, 350],
  ]) {
    line.position = position;
    const at = line.cursor();
    assert.deepEqual([at.time, at.started, at.finished, at.step], [time, position > 0, position === 5, -1]);
    const done = trace.end_ns.map((end) => end <= time);
    assert.deepEqual(
      done.map((_, step) => line.isDone(at, step)),
      done,
    );
  }
});

test("on the clock of the GPU a way is gone evenly in time", () => {
  const line = made();
  line.order = "gpu";
  for (const part of [0, 0.2, 0.5, 0.9, 1]) {
    const { time } = line.cursor(line.between(0, 5, line.shapeOf(0, 5)(part)));
    assert.ok(Math.abs(time - (351 * part - 1)) < 1e-6);
  }
});

test("Python counts the moments of a run as the timeline does", () => {
  for (const name of ["clocked", "modelled", "window", "parts", "later"]) {
    const run = givenRun(name);
    const line = new Timeline(run.model);
    line.order = "gpu";
    assert.equal(line.last(), run.moments);
  }
});

test("a race gives both runs the steps that fit its bytes", () => {
  const bytes = [Float64Array.of(8, 16, 24), Float64Array.of(12, 12, 24, 96)];
  const race = new ByteRace(bytes);
  assert.equal(race.text(), "bytes:0");
  race.goToText("bytes:500");
  assert.deepEqual([race.done(0), race.done(1)], [3, 3]);
  assert.equal(race.moved(1), 510);
  race.goToText("bytes:9999");
  assert.deepEqual([race.text(), race.done(0), race.done(1)], ["bytes:1000", 3, 4]);
  race.goToText("bytes:125"); // 12 of 96 bytes
  assert.deepEqual([race.now(), race.done(0), race.reached(0), race.done(1)], [12, 1, 1.5, 2]);
  for (const wrong of ["x", "steps:2", "gpu:3", "race:3", "constructor:1"])
    assert.equal(race.placeOf(wrong), null);
});

test("between two positions a phase is in progress, and nothing of it is done", () => {
  const line = made();
  const whole = line.cursor(model.phaseStart[1] + 2);
  const half = line.cursor(model.phaseStart[1] + 1.5);
  assert.deepEqual([half.step, half.phase, half.part, half.done], [1, whole.phase, 0.5, 1]);
  const last = line.cursor(model.phaseStart[2] - 0.25);
  assert.deepEqual([last.complete, last.done, last.part], [false, 1, 0.75]);
  assert.ok(line.cursor(model.phaseStart[2]).complete);
});

test("playback takes each tile the same time, and a place has one time", () => {
  const line = made();
  for (const position of [0, 0.3, 1, 4.7, line.last() - 0.5, line.last()]) {
    assert.ok(Math.abs(line.positionOf(line.timeOf(position)) - position) < 1e-6, position);
  }
  line.position = line.played(3);
  assert.equal(line.position, model.phaseStart[3]);
  line.position = line.played(1e9);
  assert.equal(line.position, line.last());
});
