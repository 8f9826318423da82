// The lanes of one SM of each run on one axis of time, with the choice of the SM, zoom, the figures.

import { button, canvas, element, select } from "../controls/dom.js";
import { fitCanvas, zoomOf } from "../grid/draw.js";
import { drawLanes, layoutLanes, timeAt } from "./lane_draw.js";
import { takeGestures } from "./gestures.js";
import { activityOf, eventAt, eventWords, eventsOf, lanesModel, smOf, tileOf } from "./lane_model.js";
import { clamp } from "../run/easing.js";
import { Span } from "./span.js";

const ZOOM = 1.5; // of a key or a button
const PAN = 0.2; // part of what is seen
const PLAYS_MS = 9000;
const REACH = 5; // pixels beside a block that still mean it
const KEYS = "Keys: p plays, ← → pan, + − zoom, 0 all, , and . the block before and after, ↑ ↓ the track.";

// An entry of the legend, as drawLanes draws what it names.
function swatch({ color, fill, words }) {
  const ground = fill === "solid" ? `var(--fa-${color})` : "none";
  const style = `border-color: var(--fa-${color}); background: ${ground}`;
  return element("span", { class: "fa-group" }, [element("i", { class: "fa-swatch", style }), words]);
}

export class LanesView {
  // `onPick({head, q, kv}, activity)` is called with what a picked block is about, and may return a word.
  constructor(onPick = () => "") {
    this.onPick = onPick;
    this.blocks = 6; // that are seen at first, with room for their names
    this.picked = null; // {index of the run, event}
    this.head = Infinity; // the time that a playback of what is seen has come to
    this.canvas = canvas("lanes", "lanes of an SM");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.readout = element("div", { class: "fa-lane-readout", "aria-live": "polite" });
    this.chooser = element("div", { class: "fa-group" });
    this.chooser.addEventListener("change", () => this.draw());
    this.legend = element("div", { class: "fa-legend" });
    const tools = [
      ["Play", "go over what is seen (p)", "p"],
      ["−", "zoom out (−)", "-"],
      ["+", "zoom in (+)", "+"],
      ["Fit", "all of the time (0)", "0"],
      ["This tile", "zoom so that the marked blocks fill the view", "tile"],
    ].map(([words, title, key]) => button(words, title, () => this.does(key), { "aria-label": title }));
    this.more = element("div", { class: "fa-lane-more" });
    const bar = [this.chooser, element("div", { class: "fa-group" }, tools), this.legend];
    const fields = element("div", { class: "fa-fields" }, bar);
    const about = { class: "fa-lane-view", role: "group", "aria-label": "lanes of an SM" };
    this.node = element("div", about, [fields, this.canvas, this.readout]);
    takeGestures(this);
    this.canvas.addEventListener("keydown", (event) => this.press(event));
  }

  // Show lanes (see lanes.py), or none. The same lanes again keep what is seen of them.
  load(data, palette) {
    this.palette = palette;
    const given = JSON.stringify(data);
    if (given === this.loaded) return;
    this.loaded = given;
    this.model = data ? lanesModel(data) : null;
    this.picked = null;
    this.tiles = [];
    if (!data) return;
    const { runs } = this.model;
    this.marked = runs.map(() => new Set());
    this.span = new Span(Math.max(...runs.map(({ lastEnd }) => lastEnd)));
    this.fillChooser();
    this.look(false);
    const notes = runs.flatMap(({ title: whose, notes: own }) => own.map((note) => `${whose}: ${note}`));
    this.more.replaceChildren(figureTable(data), ...notes.map((note) => element("div", {}, [note])));
    const kinds = new Set(runs.flatMap((run) => [...run.activity].map((i) => run.activities[i].kind)));
    const shown = Object.keys(data.looks).filter((kind) => kinds.has(kind));
    this.legend.replaceChildren(...shown.map((kind) => swatch(data.looks[kind])));
    this.readout.textContent = `Click a block, or focus the lanes and use the keys. ${KEYS}`;
  }

  // See all of the time, or some blocks of the fastest run, from its first or another.
  look(isWhole, first = 0) {
    const [{ sms, latest, begin, end }] = this.model.runs.toSorted((a, b) => a.lastEnd - b.lastEnd);
    const [track] = sms[latest].tracks;
    const at = (number) => Math.min(track.first + number, track.end - 1);
    const from = isWhole || !first ? 0 : begin[at(first)];
    this.span.place(from, (isWhole ? this.span.last : end[at(first + this.blocks - 1)]) - from);
    this.draw();
  }

  fillChooser() {
    const { runs } = this.model;
    const options = runs.map(({ sms }) => sms.map(({ sm }, i) => [i, `SM ${sm}`]));
    this.selects = runs.map(({ title }, i) => select(`SM of ${title}`, options[i]));
    runs.forEach(({ latest }, i) => (this.selects[i].selectedIndex = latest));
    const labels = runs.map(({ title }, i) => element("label", {}, [title, this.selects[i]]));
    this.chooser.replaceChildren(...labels);
  }

  // Mark what is about these tiles, and go to it: to its SM, and to its time.
  follow(tiles) {
    if (!this.model || JSON.stringify(tiles) === JSON.stringify(this.tiles)) return;
    this.tiles = tiles;
    this.marked = this.model.runs.map((run) => new Set(eventsOf(run, tiles)));
    if (this.picked && !this.marked[this.picked.index].has(this.picked.event)) this.picked = null;
    // stay on an SM that has some of the events, or go to the first that has
    this.marked.forEach((events, index) => {
      const choice = this.selects[index];
      const sms = [...events].map((event) => smOf(this.model.runs[index], event));
      if (sms.length && !sms.includes(choice.selectedIndex)) choice.selectedIndex = sms[0];
    });
    const bounds = this.picked ? null : this.markedBounds();
    if (bounds) this.span.reveal(...bounds);
  }

  markedBounds() {
    const index = this.marked.findIndex((events) => events.size);
    if (index < 0) return null;
    const [run, events] = [this.model.runs[index], [...this.marked[index]]];
    return [Math.min(...events.map((e) => run.begin[e])), Math.max(...events.map((e) => run.end[e]))];
  }

  zoomAt(factor, x) {
    this.span.zoom(factor, timeAt(this.layout, this.span, x / this.zoom));
    this.draw();
  }

  panBy(pixels) {
    const { left, width } = this.layout;
    this.span.pan((pixels / this.zoom / (width - left)) * this.span.length);
    this.draw();
  }

  // The tracks that are drawn, below each other.
  get tracks() {
    return this.layout?.runs.flatMap(({ tracks }) => tracks) ?? [];
  }

  hit(x, y) {
    const found = this.tracks.find(({ y: top, h }) => y / this.zoom >= top && y / this.zoom < top + h);
    if (!found || x / this.zoom < this.layout.left) return null;
    const time = timeAt(this.layout, this.span, x / this.zoom);
    const reach = (REACH / (this.layout.width - this.layout.left)) * this.span.length;
    const event = eventAt(found.run, found.track, time, reach);
    return event < 0 ? null : { index: found.index, event };
  }

  hover(x, y) {
    const hit = this.hit(x, y);
    this.canvas.title = hit ? eventWords(this.model.runs[hit.index], hit.event) : "";
  }

  pick(hit) {
    if (!hit) return;
    const { index, event } = hit;
    const run = this.model.runs[index];
    this.picked = hit;
    this.span.reveal(run.begin[event], run.end[event]);
    const words = this.onPick(tileOf(run, event), activityOf(run, event)) ?? "";
    this.readout.textContent = `${eventWords(run, event)} ${words}`;
    this.draw();
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.does(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Go over what is seen, or end that.
  play(ms = PLAYS_MS) {
    const { from, to, length } = this.span;
    cancelAnimationFrame(this.playing);
    if (this.head < to) {
      this.head = Infinity;
      return;
    }
    const start = performance.now();
    this.head = from;
    this.played = [from, to];
    const tick = (now) => {
      this.head = from + (clamp((now - start) / ms) * length || 0);
      this.draw();
      if (this.head < to && this.canvas.isConnected) this.playing = requestAnimationFrame(tick);
    };
    this.playing = requestAnimationFrame(tick);
  }

  // As when the playhead has come to the end of what is seen.
  end() {
    const { from, to } = this.span;
    cancelAnimationFrame(this.playing);
    Object.assign(this, { played: [from, to], head: to });
  }

  // Do what a key or a button does. Returns whether there is such a key.
  does(key) {
    const { span } = this;
    const action = {
      ArrowLeft: () => span.pan(-PAN * span.length),
      ArrowRight: () => span.pan(PAN * span.length),
      "+": () => span.zoom(1 / ZOOM),
      "=": () => span.zoom(1 / ZOOM),
      "-": () => span.zoom(ZOOM),
      0: () => span.place(0, span.last),
      p: () => this.play(),
      tile: () => span.show(...(this.markedBounds() ?? [span.from, span.to])),
      ",": () => this.pickBeside(-1, 0),
      ".": () => this.pickBeside(1, 0),
      ArrowUp: () => this.pickBeside(0, -1),
      ArrowDown: () => this.pickBeside(0, 1),
    }[key];
    action?.();
    this.draw();
    return Boolean(action);
  }

  // Pick the block so many blocks on, or so many tracks below at about the same time; at first the first.
  pickBeside(blocks, tracks) {
    const { runs } = this.model;
    const { index, event } = this.picked ?? {};
    const all = this.tracks;
    const at = all.findIndex(
      (each) => each.index === index && each.track.first <= event && event < each.track.end,
    );
    const to = all[clamp(at < 0 ? 0 : at + tracks, 0, all.length - 1)];
    const { first, end } = to.track;
    const time = at < 0 ? this.span.from : (runs[index].begin[event] + runs[index].end[event]) / 2;
    const near = eventAt(runs[to.index], to.track, time, Infinity);
    this.pick({ index: to.index, event: clamp(near + (at < 0 ? 0 : blocks), first, end - 1) });
  }

  draw() {
    const { model, palette, canvas: node } = this;
    if (!model || !node.clientWidth) return;
    const { from, to } = this.span;
    if (String([from, to]) !== String(this.played)) this.head = Infinity; // another part of the time is seen
    this.zoom = zoomOf(node);
    const chosen = this.selects.map(({ selectedIndex }) => selectedIndex);
    this.layout = layoutLanes(model, chosen, node.clientWidth / this.zoom, this.room && to, this.room);
    node.style.height = `${this.layout.height * this.zoom}px`;
    const { context } = fitCanvas(node);
    const { marked, picked, tiles, head } = this;
    drawLanes(context, this.layout, this.span, { model, palette, marked, picked, tiles, head });
  }
}

const named = (scope, name, words) => element("th", { scope }, [name, element("small", {}, [words])]);

// The figures of the runs as a table, empty if there is none; what a figure is stands below its name.
export function figureTable({ runs, figures }) {
  const head = [named("col", "Figure", ""), ...runs.map((run) => named("col", run.title, run.provenance))];
  const rows = figures.map(({ name, values, words }) => [
    named("row", name, words),
    ...values.map((value) => element("td", {}, [value])),
  ]);
  const table = (rows.length ? [head, ...rows] : []).map((cells) => element("tr", {}, cells));
  return element("table", { class: "fa-lane-figures" }, table);
}
