// A stop of one run, at the same place of another run of the same algorithm.

// Words as Timeline.text() has them: after the same part of the steps of the same kernel; in a phase, the same
// phase of the nearest step that has it, or the last before it. Other places, of moments and comparisons, stay.
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
  const steps = Array.from({ length: now.size }, (_, i) => now.first + i);
  const [near] = steps.toSorted((a, b) => has(b) - has(a) || Math.abs(a - target) - Math.abs(b - target));
  const place = to.phases[near].findLastIndex((each) => order.indexOf(each.name) <= order.indexOf(name));
  return `${near}.${Math.max(place, 0) + 1}`;
}

// The steps of a kernel, which follow each other.
function spanOf({ kernel: kernels }, kernel) {
  const first = kernels.indexOf(kernel);
  return { first, size: kernels.lastIndexOf(kernel) - first + 1 };
}
