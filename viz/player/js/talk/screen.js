// One scene as the audience sees it: title, picture, one sentence. All is sized by the screen itself:
// a small one (in the overview, in the speaker's window) is the large one made small.

import { ChartView } from "./chart.js";
import { element, say, write } from "../controls/dom.js";
import { Duel } from "../duel.js";
import { phaseToOpen } from "../run/bench.js";
import { toldRow } from "../run/figure.js";
import { modelOf, once } from "../run/model.js";
import { Player } from "../player.js";
import { firstStop, sentenceAt } from "./scenes.js";
import { sentenceOf } from "../run/sentences.js";

const [WIDTH, HEIGHT] = [1280, 720]; // the design; a unit is a pixel of it
const ZOOM = 1.75; // of the drawing at that size: its smallest text, 10.5 px, becomes 18 px

export class Screen {
  // `onOpen` is called with the step of a tile that was clicked.
  constructor(root, data, onOpen = () => {}) {
    Object.assign(this, { root, data, onOpen });
    const part = (name, tag) => (this[name] = element(tag, { class: `fa-screen-${name}` }));
    root.classList.add("fa-screen");
    root.append(part("title", "h1"), part("picture", "div"), part("sentence", "p"));
    [this.source, this.number] = [element("span"), element("span")];
    root.append(element("div", { class: "fa-screen-foot" }, [this.source, this.number]));
    this.reduced = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.chart = new ChartView();
    this.picture.append(this.chart.root);
    this.owners = {}; // the player and the duel, once a scene needs them
    this.observer = new ResizeObserver(() => this.size());
    this.observer.observe(root);
  }

  destroy() {
    this.observer.disconnect();
    Object.values(this.owners).forEach((owner) => owner.destroy());
  }

  size() {
    const unit = Math.min(this.root.clientWidth / WIDTH, this.root.clientHeight / HEIGHT);
    if (!unit) return;
    this.root.style.setProperty("--fa-unit", `${unit}px`);
    this.root.style.setProperty("--fa-zoom", (unit * ZOOM).toFixed(4));
  }

  // Show a place; within a scene the picture glides from stop to stop.
  show({ scene: index, beat, open, isEnded }, glides = false) {
    const scene = this.data.scenes[index];
    const stop = firstStop(scene) + beat;
    const isSame = this.scene === scene && !this.open === !open && !this.isEnded;
    Object.assign(this, { scene, open, stop, isEnded }); // behind the title no scene is seen yet
    this.view = open ? "numbers" : scene.view;
    this.root.dataset.view = this.view;
    this.root.classList.toggle("fa-has-duel", Boolean(scene.duel));
    this.root.classList.toggle("fa-has-words", Boolean(this.data.runs[scene.run]?.words));
    this.title.textContent = scene.title;
    this.number.textContent = `${index + 1}\u00a0/\u00a0${this.data.scenes.length}`;
    if (!isSame) this.size();
    const flows = glides && !this.reduced && !document.hidden;
    const owner = scene.chart || scene.stops[stop].bars?.length ? null : this.ownerOf(scene);
    const begins = owner && flows && !isSame && !open && beat === 0 && firstStop(scene) > 0;
    if (begins) owner.stand(this.stateOf(scene, scene.stops[0].step)); // it opens in motion
    if (!owner) this.showChart(flows);
    else this.stand(owner, scene, flows && (isSame || begins));
  }

  // Whether the picture is on its way to where it stops.
  get moves() {
    const moves = ({ root, transport, lanes }) =>
      !root.hidden && (transport.acts || (this.view === "lanes" && lanes.head < lanes.span.to));
    return Object.values(this.owners).some(moves) || this.picture.getAnimations({ subtree: true }).length > 0;
  }

  useTheme() {
    for (const owner of Object.values(this.owners)) owner.load(owner.shown);
  }

  // The stop of a chart is how many of its curves are drawn; if it flows, the last one draws itself.
  showChart(flows) {
    const { step, bars } = this.scene.stops[this.stop];
    this.reveal("chart");
    if (bars?.length) this.chart.drawBars(bars, flows, sentenceAt(this.scene, this.stop));
    else this.chart.draw(this.scene.chart, Number(step), flows);
    this.say();
  }

  // The player or the duel of a scene, with its run; the other one is put away.
  ownerOf(scene) {
    const kind = scene.duel ? "duel" : "player";
    this.owners[kind] ??= this.makeOwner(kind);
    this.reveal(kind);
    const owner = this.owners[kind];
    const { runs, duels } = this.data;
    const data = scene.duel ? duelOf(duels[scene.duel], runs) : runs[scene.run];
    if (owner.shown !== data) owner.load(data, this.stateOf(scene, scene.stops[this.stop].step));
    return owner;
  }

  reveal(kind) {
    for (const [name, owner] of Object.entries(this.owners)) owner.root.hidden = name !== kind;
    this.chart.root.hidden = kind !== "chart";
  }

  makeOwner(kind) {
    const root = element("div", { class: "fa-player", role: "group" });
    this.picture.append(root);
    const owner = new (kind === "duel" ? Duel : Player)(root);
    owner.dropKeys(); // the keys are the talk's
    if (kind === "duel") return owner;
    owner.onDrawn = (at) => this.say(at);
    Object.assign(owner.lanes, { room: 288, blocks: 4 }); // height that lanes have, blocks seen at first
    owner.pane.onPick = null; // the other window would not know of the row
    owner.pane.stage.addEventListener("click", (event) => {
      owner.opened.openAt(owner.pane.hit(event));
      if (owner.opened.isOpen) this.onOpen(owner.timeline.text());
    });
    return owner;
  }

  // Make ready what takes long, so that no change of scene has to.
  warm() {
    const { runs, duels } = this.data;
    const compared = Object.values(duels).flatMap((duel) => duelOf(duel, runs).runs);
    [...Object.values(runs), ...compared].forEach((run) => modelOf(run));
  }

  // Why no tile can be opened in its numbers; "" if one can.
  whyNoTile() {
    const { player } = this.owners;
    if (this.scene.duel || !this.chart.root.hidden) return "This scene shows no tile to open.";
    return player.opened.stepToOpen(player.pane.pinned) < 0 ? player.opened.whyNot() : "";
  }

  // As `open` of a state: the tile in progress, or of a picked row the one that holds it, if it was reached.
  // Of an open tile its next phase, or the tile after it; "" behind the last.
  get nextToOpen() {
    const { opened, pane, timeline } = this.owners.player;
    const [open, phase] = this.open.split(".").map(Number);
    if (this.open && phase < pane.model.phases[open].length) return `${open}.${phase + 1}`;
    if (this.open) return opened.shows(open + 1) ? `${open + 1}.1` : "";
    const told = opened.stepToOpen(pane.pinned);
    const step = told > timeline.cursor().step ? opened.stepToOpen(null) : told;
    return `${step}.${phaseToOpen(pane.model, step)}`;
  }

  stateOf(scene, step) {
    if (scene.duel) return { place: step };
    const opens = { numbers: { open: "tile" }, chip: { open: "tile" }, lanes: { lanes: "open" } }[this.view];
    return { step, unit: "phase", row: scene.row, ...opens };
  }

  stand(owner, scene, glides) {
    const { step, seconds } = scene.stops[this.stop];
    const { track } = owner.transport;
    if (this.view === "lanes") {
      owner.lanes.look(this.stop > 1, 1); // from near, once its groups have come apart; then as a whole
      if (glides && seconds) owner.lanes.play(1000 * seconds);
      else if (this.stop) owner.lanes.end();
    }
    const { order, position } = track.placeOf(this.open || step);
    if (glides && order === track.order && position !== track.position) {
      owner.draw();
      owner.transport.glide(position, 1000 * (seconds || 3));
    } else {
      owner.stand(this.stateOf(scene, this.open || step));
      owner.refresh();
    }
    if (scene.duel) this.say();
  }

  say(at) {
    const { scene, stop, owners } = this;
    const { model, pinned } = at ? owners.player.pane : {};
    const told = at?.phase && this.open ? sentenceOf(model, at, toldRow(model, at.step, pinned)) : "";
    say(this.sentence, told || sentenceAt(scene, stop));
    const tile = at && this.open ? `${owners.player.opened.title.textContent} · ` : "";
    write(this.source, `${tile}${scene.source}`.replace(/(\d)-(?=\d)/g, "$1\u2011")); // dates stay whole
  }
}

// The data of a comparison of the talk. Its runs are copies, because two runs share one scale of colours.
const duelOf = (duel, all) =>
  once(duel, "data", () => ({ ...duel, runs: duel.runs.map((run) => ({ ...all[run] })) }));
