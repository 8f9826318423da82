// Runs on several ranks beside each other, over the same time.

import { canvas, write } from "./controls/dom.js";
import { fitCanvas, usePalette } from "./grid/draw.js";
import { Playback } from "./playback.js";
import { clamp, within } from "./run/easing.js";
import { Track } from "./run/timeline.js";
import { drawRanks } from "./ranks/picture.js";
import { formatBytes, formatMs, formatNumber } from "./run/formats.js";
import { range, sum } from "./run/model.js";

const TICKS = 1000; // from the first begin to the last end

class Clock extends Track {
  order = "time";

  last() {
    return TICKS;
  }

  // An arrow goes to the next moment at which something begins or ends.
  moved(direction) {
    const here = Math.round(this.position);
    const beyond = (at) => (direction > 0 ? at > here : at < here);
    const moments = this.moments.filter(beyond);
    return this.clamp(direction > 0 ? Math.min(TICKS, ...moments) : Math.max(0, ...moments));
  }
}

export class RanksRace extends Playback {
  constructor(root, onSettled = () => {}) {
    super("ranks", root, onSettled);
    this.transport.speed = 64;
    this.clock = new Clock();
    this.canvases = [0, 1].map(() => canvas("stage", "ranks, their chunks of keys and their scores"));
    this.buildColumns(this.canvases, "fa-duel fa-ranks");
  }

  load(data, state = {}) {
    const isNew = this.shown?.id !== data.id;
    this.shown = data;
    this.palette = usePalette(this.root, data.palettes);
    this.columns.forEach((column, i) => (column.hidden = !data.runs[i]));
    this.columns[0].parentElement.classList.toggle("fa-alone", data.runs.length === 1);
    const isRace = data.runs.length > 1;
    data.runs.forEach(({ name, title }, i) => write(this.titles[i], isRace ? `${name}  ${title}` : title));
    this.root.setAttribute("aria-label", `Playback of ${data.title}`);
    this.notes.textContent = data.notes;
    this.longest = Math.max(...data.runs.map(({ ns }) => ns));
    if (isNew) {
      const ends = data.runs.flatMap(({ spans }) => spans.flatMap(({ begin, end }) => [begin, end]));
      this.clock.moments = ends.map((ns) => Math.ceil((TICKS * ns) / this.longest));
      this.clock.position = clamp(Number(state.place) || 0, 0, TICKS);
      this.transport.use(this.clock);
      const moves = !window.matchMedia("(prefers-reduced-motion: reduce)").matches;
      if (state.plays && moves) this.transport.toggle();
    }
    this.refresh();
  }

  state() {
    return { place: String(Math.round(this.clock.position)) };
  }

  refresh() {
    const { controls, transport } = this;
    controls.showPlaying(transport.playing);
    controls.rate.textContent = `${transport.speed / 10} %/s`;
    this.slider.max = TICKS;
    this.draw();
  }

  draw(now = performance.now()) {
    if (!this.shown || this.root.clientWidth === 0) return;
    const { runs } = this.shown;
    const ns = (this.longest * this.clock.position) / TICKS;
    runs.forEach((run, i) => {
      const { context, ...size } = fitCanvas(this.canvases[i]);
      drawRanks(context, size, run, this.palette, ns, this.longest);
    });
    this.slider.value = this.clock.position;
    const words = ranksWords(runs, ns);
    write(this.caption, words);
    write(this.controls.count, `${formatMs(ns / 1e6)} of ${formatMs(this.longest / 1e6)}`);
    this.controls.tell(words, now);
  }
}

function ranksWords(runs, ns) {
  const ends = runs.map((run) => run.ns);
  if (runs.length > 1 && runs.every((run) => ns >= run.ns)) {
    const [fast, slow] = ends[0] <= ends[1] ? runs : runs.toReversed();
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
