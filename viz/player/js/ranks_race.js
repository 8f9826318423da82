// Runs on several ranks beside each other, over the same time.

import { Beside, Race } from "./beside.js";
import { canvas, write } from "./controls/dom.js";
import { fitCanvas, usePalette } from "./grid/draw.js";
import { within } from "./run/easing.js";
import { drawRanks } from "./ranks/picture.js";
import { formatBytes, formatMs, formatNumber } from "./run/formats.js";
import { range, sum } from "./run/model.js";

class TimeRace extends Race {
  constructor(runs) {
    super("time", Math.max(...runs.map(({ ns }) => ns)));
    const ends = runs.flatMap(({ spans }) => spans.flatMap(({ begin, end }) => [begin, end]));
    this.moments = ends.map((ns) => Math.ceil((this.last() * ns) / this.longest));
  }

  // An arrow goes to the next moment at which something begins or ends.
  moved(direction) {
    const here = Math.round(this.position);
    if (direction > 0) return this.clamp(Math.min(...this.moments.filter((at) => at > here)));
    return this.clamp(Math.max(...this.moments.filter((at) => at < here)));
  }
}

export class RanksRace extends Beside {
  constructor(root, onSettled) {
    const canvases = [0, 1].map(() => canvas("stage", "ranks, their chunks of keys and their scores"));
    super(root, onSettled, canvases, "fa-ranks");
    this.canvases = canvases;
  }

  load(data, state = {}) {
    const isNew = this.shown?.id !== data.id;
    this.shown = data;
    this.palette = usePalette(this.root, data.palettes);
    this.columns.forEach((column, i) => (column.hidden = !data.runs[i]));
    const isRace = data.runs.length > 1;
    data.runs.forEach(({ name, title }, i) => write(this.titles[i], isRace ? `${name}  ${title}` : title));
    this.root.setAttribute("aria-label", `Playback of ${data.title}`);
    this.notes.textContent = data.notes;
    if (isNew) {
      this.race = new TimeRace(data.runs);
      this.stand(state);
      const moves = !window.matchMedia("(prefers-reduced-motion: reduce)").matches;
      if (state.plays && moves) this.transport.toggle();
    }
    this.refresh();
  }

  draw(now = performance.now()) {
    if (!this.shown || this.root.clientWidth === 0) return;
    const { race } = this;
    const { runs } = this.shown;
    const ns = race.now();
    runs.forEach((run, i) => {
      const { context, ...size } = fitCanvas(this.canvases[i]);
      drawRanks(context, size, run, this.palette, ns, race.longest);
    });
    this.tell(ranksWords(runs, ns), `${formatMs(ns / 1e6)} of ${formatMs(race.longest / 1e6)}`, now);
  }
}

function ranksWords(runs, ns) {
  if (runs.length > 1 && runs.every((run) => ns >= run.ns)) {
    const [fast, slow] = runs.toSorted((a, b) => a.ns - b.ns);
    const ratio = formatNumber(slow.ns / fast.ns);
    return `${slow.name} takes ${ratio} times as long as ${fast.name}. ${runs.map(busyWords).join(" ")}`;
  }
  return runs.map((run) => `${run.name && `${run.name}: `}${runWords(run, ns)}`).join(" ");
}

function runWords(run, ns) {
  if (ns >= run.ns) return `all done after ${formatMs(run.ns / 1e6)}. ${busyWords(run)}`;
  const begun = run.spans.filter(({ kind, begin }) => kind === "attend" && begin <= ns);
  const sent = sum(run.spans.map(({ bytes, begin, end }) => bytes * within(ns, begin, end)));
  const bytes = `${formatBytes(sent)} sent in all`;
  const last = begun.at(-1);
  if (!last) return `nothing is computed yet, ${bytes}.`;
  if (last.owner < 0) return `each rank has all tokens of ${run.heads} of the heads, ${bytes}.`;
  const step = Math.max(...begun.map((span) => span.step));
  if (!step) return `each rank begins with its own keys, ${bytes}.`;
  const from = step === 1 ? "the rank before" : `${step} ranks before`;
  return `step ${step + 1} of ${run.ranks}: each has the keys of ${from}, ${bytes}.`;
}

function busyWords(run) {
  const busy = range(run.ranks).map((rank) => {
    const own = run.spans.filter((span) => span.rank === rank && span.kind !== "transfer");
    return Math.round((100 * sum(own.map(({ begin, end }) => end - begin))) / run.ns);
  });
  const whose = run.name ? `The ranks of ${run.name}` : "The ranks";
  return `${whose} compute for ${Math.min(...busy)} to ${Math.max(...busy)} % of the time.`;
}
