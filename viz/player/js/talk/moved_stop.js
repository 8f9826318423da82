// A stop of one run, at the same place of another run of the same algorithm.

// Words as Timeline.text() has them. A stop after some steps goes to the same part of the same kernel; a stop
// in a phase to the same phase of the nearest step that has it. Moments of all programs at once, and places
// of a comparison, stay.
export function movedStop(words, from, to) {
  const [, done, phase] = /^(\d+)(?:\.(\d+))?$/.exec(words) ?? [];
  if (done === undefined) return words;
  const step = Math.min(Number(done), from.count);
  const target = movedStep(step, from, to);
  const name = from.phases[step]?.[Number(phase ?? 0) - 1]?.name;
  return name ? placeOfPhase(name, from.kernel[step], target, to) : String(Math.round(target));
}

// Steps so far of each kernel, in their order: [0, those of the first, those of the first two, ...].
function endsOf({ kernel, kernels }) {
  const ends = [0, ...kernels.map(() => 0)];
  for (const each of kernel) ends[each + 1] += 1;
  for (let i = 1; i < ends.length; i++) ends[i] += ends[i - 1];
  return ends;
}

// Not rounded.
function movedStep(step, from, to) {
  const [old, now] = [endsOf(from), endsOf(to)];
  const kernel =
    Math.max(
      1,
      old.findIndex((end, i) => i > 0 && step <= end),
    ) - 1;
  const [size, moved] = [old, now].map((ends) => ends[kernel + 1] - ends[kernel]);
  return now[kernel] + (size ? ((step - old[kernel]) / size) * moved : 0);
}

// If no step of the kernel has the phase, such as that of a mask, the nearest step stands in the last phase
// before it.
function placeOfPhase(name, kernel, target, to) {
  const steps = Array.from({ length: to.count }, (_, i) => i).filter((i) => to.kernel[i] === kernel);
  const nearest = (among) =>
    among.reduce((best, i) => (Math.abs(i - target) < Math.abs(best - target) ? i : best), among[0]);
  const place = (step) => to.phases[step].findIndex((phase) => phase.name === name);
  const having = steps.filter((step) => place(step) >= 0);
  if (having.length) {
    const step = nearest(having);
    return `${step}.${place(step) + 1}`;
  }
  if (!steps.length) return String(Math.round(target));
  const step = nearest(steps);
  const order = to.kernelPhases[kernel].map((phase) => phase.name);
  const before = to.phases[step].findLastIndex((phase) => order.indexOf(phase.name) < order.indexOf(name));
  return `${step}.${Math.max(before, 0) + 1}`;
}
