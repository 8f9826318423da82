// The part of the time axis that is seen, in ns.

const SHORTEST = 20; // ns
const MARGIN = 0.1; // of what is shown

export class Span {
  constructor(last) {
    this.last = last;
    this.place(0, last);
  }

  get length() {
    return this.to - this.from;
  }

  // Show `factor` times as much time, with `time` staying where it is.
  zoom(factor, time = (this.from + this.to) / 2) {
    const length = Math.max(SHORTEST, Math.min(this.last, this.length * factor));
    const from = time - ((time - this.from) / this.length) * length;
    this.place(from, length);
  }

  pan(ns) {
    this.place(this.from + ns, this.length);
  }

  // Move so that [begin, end] is seen, if it is not; of what is too long, its begin.
  reveal(begin, end) {
    if (begin >= this.from && end <= this.to) return;
    this.pan(Math.min((begin + end) / 2, begin + this.length / 2) - (this.from + this.to) / 2);
  }

  show(begin, end) {
    const length = Math.max(SHORTEST, Math.min(this.last, (1 + 2 * MARGIN) * (end - begin)));
    this.place((begin + end - length) / 2, length);
  }

  place(from, length) {
    this.from = Math.max(0, Math.min(this.last - length, from));
    this.to = this.from + length;
  }
}

// Round times for the axis, at most `most` of them, and the unit that suits them.
export function ticksOf({ from, to }, most) {
  const rough = (to - from) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const first = Math.ceil(from / step);
  const count = Math.floor(to / step) - first + 1;
  return { step, times: Array.from({ length: Math.max(0, count) }, (_, i) => (first + i) * step) };
}

// A time on the axis: in ns, or in µs if the whole axis is longer than some of them.
export function tickWords(time, step, to) {
  if (to < 2000) return `${Math.round(time)} ns`;
  return `${(time / 1000).toFixed(Math.max(0, Math.min(3, Math.ceil(3 - Math.log10(step)))))} µs`;
}
