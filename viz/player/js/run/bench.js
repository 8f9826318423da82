// What lies on the chip during a step: how far its phases have come, what each slot holds. No drawing here.

import { lerp, within } from "./easing.js";
import { matrixOf, stepBefore, stepOfTurnBefore } from "./figure.js";

const LIES_IN = { P: "S", dP: "dS", "O out": "O" }; // data that lie in the slot of another name
export const slotOf = (name) => LIES_IN[name] ?? name;

// Whether the numbers of all rows of the tiles were recorded.
export const hasNumbers = (model) => model.hasMatrices && model.matrixRow === null;

// Whether a slot holds one number per query and key: scores, weights, or their gradients.
export const isSquare = ({ rows, columns }) => rows === "q_tile" && columns === "kv_tile";

const isIn = (slot) => (name) => slotOf(name) === slot;

// How far each phase has come, from 0 to 1. `melt` lets them slide into one sweep; what is used has landed.
export function progressOf(model, timeline, at, melt) {
  const phases = model.phases[at.step] ?? [];
  const now = phases.indexOf(at.phase);
  const start = model.phaseStart[at.step];
  return phases.map(({ loads, needs, stores }, k) => {
    const exact = at.complete || k < now ? 1 : k === now ? at.part : 0;
    if (!melt) return exact;
    const [from, to] = [k, k + 1].map((each) => timeline.times[start + each] - at.step);
    const isLoaded = (name) => phases.slice(0, k).some(({ loads: some }) => some.includes(name));
    const waits = stores.length > 0 || needs.some(isLoaded);
    const end = loads.length ? to : lerp(to, 1, 0.35);
    return lerp(exact, within(at.ofStep, waits ? from : from * 0.6, end), melt);
  });
}

// How a phase is seen: "move", "mask", "max", "exponentials", "rescale", "product",
// "elements" (each of several others at its place), or "" for anything else.
export function roleOf({ loads, needs, makes, stores, rescales, only_masked: onlyMasked, name }) {
  if (rescales) return "rescale";
  if (onlyMasked || name === "mask") return "mask";
  if (makes.includes("P")) return "exponentials";
  if (makes.includes("m") && needs.includes("S")) return "max";
  const isOfScores = needs.filter((each) => ["S", "dS"].includes(slotOf(each))).length > 1;
  if (makes.length && needs.length > 1) return isOfScores ? "elements" : "product";
  return loads.length || stores.length ? "move" : "";
}

// The progress of the first phase of the step that is one; `rest` if it has none.
export function progressOfPhase(model, at, is, rest) {
  const k = (model.phases[at.step] ?? []).findIndex(is);
  return k < 0 ? rest : at.progress[k];
}

export const progressIn = (model, at, role, rest) =>
  progressOfPhase(model, at, (phase) => roleOf(phase) === role, rest);

// How far the phase that divides by l and stores the rows has come.
export const finishes = ({ tells }) => tells.startsWith("finish");
export const finishOf = (model, at) => progressOfPhase(model, at, finishes, 0);

// The sum that a phase adds to.
export const sumOf = ({ needs, makes, rescales }) => !rescales && makes.find((name) => needs.includes(name));

// How far a phase has come with what it moves, and with its work, which begins once its tiles have landed.
const works = ({ loads, needs }) => loads.length > 0 && needs.length > 0;
export const movedPart = (phase, part) => (works(phase) ? within(part, 0, 0.4) : part);
export const workedPart = (phase, part) => (works(phase) ? within(part, 0.4, 1) : part);

// Whether a slot's data are there: from 0, empty, to 1. They come with the phase that loads or makes them,
// from the start of the turn if that is before the loop, and go with the last phase that uses them. A copy
// of a sum travels to HBM: it stays until the next turn.
export function heldIn(model, at, slot) {
  const phases = model.phases[at.step] ?? [];
  const [before, step] = model.kernels[at.kernel].phases;
  const fills = ({ loads, makes }) => [...loads, ...makes].some(isIn(slot));
  const progress = (phase) =>
    progressOfPhase(model, at, (each) => each === phase, before.includes(phase) ? 1 : 0);
  const loads = (phase) => phase.loads.some(isIn(slot)); // then it is there once it has landed
  const partOf = (phase) => (loads(phase) ? movedPart(phase, progress(phase)) : progress(phase));
  const comes = Math.max(0, ...[...before, ...step].filter(fills).map(partOf));
  const turns = ({ needs, makes }) => needs.some(isIn(slot)) && makes.some(isIn(slot)); // S becomes P
  const flies = comes < 1 && phases.some(loads); // it is empty until then
  if (before.some(fills)) return { held: before.some(turns) ? 1 : comes, used: 0, flies };
  const uses = ({ needs, stores, makes }) =>
    [...needs, ...stores].some(isIn(slot)) && !makes.some(isIn(slot));
  const last = step.findLast(uses);
  // a product takes line by line; what is stored stays for a while
  const isEaten = last && roleOf(last) === "product";
  const used = isEaten && phases.includes(last) ? progress(last) : leftAfter(model, at, last);
  return { held: comes, used, last, flies };
}

const LEAVES = 0.35; // of the next phase: until then what a phase needed is still there

function leftAfter(model, at, phase) {
  const k = (model.phases[at.step] ?? []).indexOf(phase);
  return k < 0 ? 0 : within(at.progress[k + 1] ?? 0, 0, LEAVES);
}

// How much of a part of the chip's memory is filled: its data come and leave with their phases. Of whole rows
// that are made tile by tile, as many tiles as there are. In fast playback it is steady. `whole`: whole data.
export function filledOf(model, at, { holds }, whole = (part) => part) {
  if (at.step < 0) return 0;
  const [before, step] = model.kernels[at.kernel].phases;
  const filled = holds.map((name) => {
    const { held, last } = heldIn(model, at, slotOf(name));
    const isMade = ({ makes, needs }) => makes.includes(name) && !needs.includes(name);
    const done = at.step - model.turnFirst[at.step] + progressOfPhase(model, at, isMade, 1);
    const inTiles = before.some(isMade) && step.some(isMade);
    const there = at.melt > 0.5 && !at.complete ? 1 : whole(held) * (1 - whole(leftAfter(model, at, last)));
    return there * (inTiles ? whole(done) / model.kvTiles : 1);
  });
  return Math.max(...filled);
}

// The phase of a step, from 1, after which its scores are there, or what was made of them; 0 without scores.
export const phaseOfWeights = ({ phases }, step) =>
  phases[step].findLastIndex(({ loads, makes }) => [...loads, ...makes].some(isIn("S"))) + 1;

export const phaseToOpen = (model, step) => Math.max(1, phaseOfWeights(model, step));

// What lies in a slot at a moment: what a phase of the step has brought or made there last, or will at first.
export function nameIn(model, at, slot) {
  const phases = model.phases[at.step] ?? [];
  const names = (some) => some.flatMap(({ loads, makes }) => loads.concat(makes)).filter(isIn(slot));
  const name = names(phases.filter((_, k) => at.progress[k] >= 0.5)).at(-1) ?? names(phases)[0];
  return name && name !== "O out" ? name : slot;
}

// The recorded matrices of a slot at a moment: `now` as the last phase that has begun leaves it, `old` as it
// was before, and how far that phase has come. null for a slot without any.
export function matricesIn(model, figure, slot, at) {
  const phases = model.phases[at.step] ?? [];
  const [before] = model.kernels[at.kernel].phases;
  const own = figure.matrices.filter((matrix) => matrix.slot === slot.name && model.matrices[matrix.name]);
  const placed = own.flatMap((matrix) => {
    const k = phases.findIndex(({ name }) => name === matrix.phase);
    if (k >= 0) return at.progress[k] > 0 ? [{ matrix, k, part: at.progress[k], phase: phases[k] }] : [];
    return before.some(({ name }) => name === matrix.phase) ? [{ matrix, k: -1, part: 1, phase: null }] : [];
  });
  placed.sort((a, b) => a.k - b.k);
  const sums = phases.filter((phase) => !isSquare(slot) && sumOf(phase) === slot.name);
  const sum = own.find(({ is_field: isField, phase }) => isField || sums.some(({ name }) => name === phase));
  const stepEarlier = slot.rows === "kv_tile" ? stepOfTurnBefore : stepBefore;
  const earlier = sum ? stepEarlier(model, at.step) : -1;
  const start = earlier < 0 ? null : matrixOf(model, figure, sum, earlier);
  const last = placed.at(-1);
  if (!last) return start && { now: start, old: null, part: 1, phase: null, isSum: true };
  const second = start || !placed.at(-2)?.phase?.rescales ? placed.at(-2) : null; // nothing was there
  const partOf = last.phase?.loads.includes(slot.name) ? movedPart : workedPart; // it lands whole
  return {
    now: matrixOf(model, figure, last.matrix, at.step),
    old: second ? matrixOf(model, figure, second.matrix, at.step) : start,
    part: last.phase ? partOf(last.phase, last.part) : last.part,
    phase: last.phase,
    isSum: Boolean(sum),
  };
}
