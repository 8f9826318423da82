// Where a talk stands: the scene, and the beat in it. A scene with something hidden has one beat before it is
// shown; then each stop is a beat. No drawing here.

import { modelOf, range } from "../run/model.js";

export function beatsOf(scene) {
  return scene.stops.length + (scene.hidden.length ? 1 : 0);
}

// The stop of a beat, and whether what the scene hides is still hidden.
export function standing(scene, beat) {
  const asks = beatsOf(scene) - scene.stops.length; // beats before its first stop
  return { stop: Math.max(0, beat - asks), isHidden: beat < asks };
}

// The place one beat on (1) or back (-1); the same at either end of the talk.
export function moved(scenes, { scene, beat }, direction) {
  const next = beat + direction;
  if (next >= 0 && next < beatsOf(scenes[scene])) return { scene, beat: next };
  const other = scene + direction;
  if (other < 0 || other >= scenes.length) return { scene, beat };
  return { scene: other, beat: direction > 0 ? 0 : beatsOf(scenes[other]) - 1 };
}

export function isLast(scenes, place) {
  const { scene, beat } = moved(scenes, place, 1);
  return scene === place.scene && beat === place.beat;
}

// The sentence of a stop: its own, or that of the last stop before it that has one, or the scene's.
export function sentenceAt(scene, stop) {
  return scene.stops.slice(0, stop + 1).findLast(({ sentence }) => sentence)?.sentence ?? scene.sentence;
}

// "4.2" is the second beat of the fourth scene, as in the address after "#".
export function placeText({ scene, beat }) {
  return `${scene + 1}.${beat + 1}`;
}

// The place of such words; the beginning for others.
export function placeOfText(scenes, words) {
  const [, number, beat] = /^#?(\d+)(?:\.(\d+))?$/.exec(words ?? "") ?? [];
  const scene = Math.max(0, Math.min(scenes.length, Number(number ?? 1)) - 1);
  return { scene, beat: Math.max(0, Math.min(beatsOf(scenes[scene]), Number(beat ?? 1)) - 1) };
}

// A scene that was run with another problem, its stops at the same places as in `scene`, the prepared one.
export function withMovedStops(shown, scene, runs) {
  if (scene.duel || !runs[scene.run]) return shown; // a comparison's clock is the same for all runs
  const [from, to] = [runs[scene.run], shown.own.runs[shown.run]].map(modelOf);
  const stops = shown.stops.map((stop) => ({ ...stop, step: movedStop(stop.step, from, to) }));
  return { ...shown, stops };
}

// A stop of one run at the same place of another: after the same part of the kernel's steps; in a phase, the
// same phase of the nearest step that has it, or the last before it. Moments and places of a race stay.
export function movedStop(words, from, to) {
  const [, done, phase] = /^(\d+)(?:\.(\d+))?$/.exec(words) ?? [];
  if (done === undefined) return words;
  const step = Math.min(Number(done), from.count);
  const kernel = from.kernel[phase === undefined ? Math.max(0, step - 1) : step];
  const [old, now] = [spanOf(from, kernel), spanOf(to, kernel)];
  const target = now.first + ((step - old.first) / old.size) * now.size;
  if (phase === undefined) return String(Math.round(target));
  const { name } = from.phases[step][Number(phase) - 1];
  const order = to.kernelPhases[kernel].map((each) => each.name);
  const has = (i) => to.phases[i].some((each) => each.name === name);
  const steps = range(now.first + now.size, now.first);
  const [near] = steps.toSorted((a, b) => has(b) - has(a) || Math.abs(a - target) - Math.abs(b - target));
  const place = to.phases[near].findLastIndex((each) => order.indexOf(each.name) <= order.indexOf(name));
  return `${near}.${Math.max(place, 0) + 1}`;
}

function spanOf({ kernel: kernels }, kernel) {
  const first = kernels.indexOf(kernel);
  return { first, size: kernels.lastIndexOf(kernel) - first + 1 };
}
