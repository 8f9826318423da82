// What is below the lanes: the figures of the runs, and which SMs wait, and for what.

import { element, swatch } from "../controls/dom.js";
import { formatNumber } from "../run/formats.js";
import { sum } from "../run/model.js";
import { sharesOf, waitWords } from "./lane_model.js";

const NO_WAITS = "This kernel marks no waits: the time of a product includes the wait for its tile.";

export class WaitChart {
  // `colors` are names of the palette. `onPick` is called with the number of an SM that was clicked.
  constructor(run, colors, onPick) {
    const { names, sm } = run.waits;
    const shares = sm.map((_, place) => sharesOf(run, place));
    const sums = shares.map(sum);
    const largest = Math.max(...sums, 0.01);
    this.bars = sm.map((number, place) => {
      const parts = shares[place].map((share, i) => {
        const style = `height: ${(100 * share) / largest}%; ${lookOf(colors, i)}`;
        return element("i", { style });
      });
      const bar = element("div", { title: waitWords(run, place), "data-sm": number }, parts);
      bar.addEventListener("click", () => onPick(number));
      return bar;
    });
    const longest = waitWords(run, sums.indexOf(Math.max(...sums)));
    const label = `waits of ${sm.length} SMs of ${run.title}. Longest: ${longest}`;
    const entries = names.map((name, i) => swatch(lookOf(colors, i), name));
    const scale = `SM ${sm[0]} to ${sm.at(-1)}, up to ${formatNumber(100 * largest, 2)} %`;
    this.node = element("div", { class: "fa-lane-chart" }, [
      element("div", { class: "fa-head" }, [run.title]),
      ...(names.length
        ? [
            element("div", { class: "fa-lane-waits", role: "img", "aria-label": label }, this.bars),
            element("div", { class: "fa-legend" }, [element("span", {}, [scale]), ...entries]),
          ]
        : [NO_WAITS]),
    ]);
  }

  mark(chosen) {
    for (const bar of this.bars) bar.classList.toggle("fa-chosen", bar.dataset.sm === String(chosen));
  }
}

// Every second wait is hatched, so that neighbours differ without colour; when colours repeat, the others.
function lookOf(colors, i) {
  const color = `var(--fa-${colors[i % colors.length]})`;
  const isHatched = (i + Math.floor(i / colors.length)) % 2 === 1;
  const stripes = `repeating-linear-gradient(135deg, var(--fa-background) 0 1px, ${color} 1px 4px)`;
  return `background: ${isHatched ? stripes : color}`;
}

const named = (scope, name, words) => element("th", { scope }, [name, element("small", {}, [words])]);

// The figures of the runs as a table; what a figure is stands below its name.
export function figureTable({ runs, figures }) {
  const head = [named("col", "Figure", ""), ...runs.map((run) => named("col", run.title, run.provenance))];
  const rows = figures.map(({ name, values, words }) => [
    named("row", name, words),
    ...values.map((value) => element("td", {}, [value])),
  ]);
  const table = [head, ...rows].map((cells) => element("tr", {}, cells));
  return element("table", { class: "fa-lane-figures" }, table);
}
