// The panel that saves what is shown: a picture as PNG, a span of steps as an animation.

import { button, element, select } from "../controls/dom.js";
import { Panel } from "../controls/help.js";
import { clamp } from "../run/easing.js";
import { fileName } from "../run/formats.js";
import { film, shotsOf } from "./film.js";
import { Picture } from "./picture.js";

// What a picture shows, and the nodes of a player or a duel that it is made of.
const PICTURES = {
  player: [
    [".fa-left", "the grid, or the tile's numbers"],
    [".fa-right > .fa-head, .fa-rows", "one row over the steps"],
    [".fa-main ~ .fa-bytes", "the bytes so far"],
    [".fa-main, .fa-caption, .fa-main ~ .fa-bytes", "all, with the source"],
  ],
  duel: [[".fa-duel, .fa-caption, .fa-bytes", "both runs"]],
  ranks: [[".fa-duel, .fa-caption", "all ranks"]],
};
const SIZES = [
  ["2×", "2 times as large as here"],
  ["1×", "as large as here"],
  ["4×", "4 times as large as here"],
  ["16:9", "1920 × 1080, as a slide"],
  ["1920", "1920 pixels wide"],
  ["3840", "3840 pixels wide"],
];
const LONG_MS = 120_000;
const MOST_PIXELS = 64e6; // more than that no browser gives a canvas

export class SavePanel extends Panel {
  // `owner` is a Playback of a `kind`.
  constructor(owner, kind) {
    super(element("div", { class: "fa-panel fa-save", role: "group", "aria-label": "save" }));
    this.owner = owner;
    this.what = select("picture", PICTURES[kind]);
    this.size = select("size", SIZES);
    [this.from, this.to] = ["from", "to"].map((label) =>
      element("input", { type: "number", min: "0", step: "1", size: "6", "aria-label": label }),
    );
    const still = button("PNG", "save the picture", () => this.saveStill());
    const films = [
      ["MP4", "save the animation for slides"],
      ["WebM", "save the animation for the web"],
      ["GIF", "save the animation for places that show no video; the file is larger"],
    ].map(([name, title]) => button(name, title, () => this.saveFilm(name.toLowerCase())));
    this.starters = [still, ...films];
    this.cancel = button("Cancel", "end it without a file", () => this.ending?.abort());
    this.progress = element("progress", { max: "1", value: "0", "aria-label": "progress" });
    this.says = element("span", { role: "status" });
    const rows = [
      [element("label", {}, ["Picture of ", this.what]), this.size, still],
      ["Animation, from ", this.from, " to ", this.to, ...films],
      [this.progress, this.cancel, this.says],
    ];
    this.node.append(...rows.map((row) => element("div", { class: "fa-fields" }, row)));
    const opens = { "aria-expanded": "false" };
    this.button = button("Save", "save a picture or an animation (s)", () => this.toggle(), opens);
    this.node.addEventListener("keydown", (event) => this.press(event));
    this.node.addEventListener("input", () => this.plan());
    this.show(false);
  }

  close() {
    this.node.querySelector(":focus")?.blur(); // or else a hidden field has the keys for a moment
    super.close();
    this.button.setAttribute("aria-expanded", "false");
    this.button.focus();
  }

  open() {
    super.open();
    this.button.setAttribute("aria-expanded", "true");
    [this.from.value, this.to.value] = [0, this.owner.slider.max];
    const options = [...this.what.options];
    for (const option of options) option.disabled = !isSeen(this.owner.root, option.value);
    if (this.what.selectedOptions[0].disabled) this.what.value = options.find((each) => !each.disabled).value;
    this.plan();
    this.what.focus();
  }

  // Escape closes the panel from its fields too, which keep their other keys.
  press(event) {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    this.toggle();
  }

  // The picture, and how large a CSS pixel of it becomes.
  picture(owner = this.owner) {
    const { what, size } = this;
    const parts = [...owner.root.querySelectorAll(what.value)];
    const isSlide = size.value === "16:9";
    const picture = new Picture(owner, parts, owner.palette, isSlide ? 16 / 9 : 0);
    const asked = isSlide ? 1920 : parseFloat(size.value);
    const scale = size.value.endsWith("×") ? asked : asked / picture.width;
    const most = Math.sqrt(MOST_PIXELS / (picture.width * picture.height));
    return { picture, scale: Math.min(scale, most) };
  }

  span() {
    const last = Number(this.owner.slider.max);
    const asked = [this.from, this.to].map(({ value }) => clamp(Math.round(Number(value)), 0, last));
    return asked.toSorted((a, b) => a - b).map((value) => this.owner.positionOf(value));
  }

  plan() {
    if (this.ending) return;
    const { picture, scale } = this.picture();
    const { duration } = shotsOf(this.owner, this.span());
    const [width, height] = [picture.width, picture.height].map((size) => Math.round(size * scale));
    this.says.textContent = `${width} × ${height} pixels; the animation takes ${lengthWords(duration)}`;
  }

  saveStill() {
    this.owner.transport.stop();
    const { picture, scale } = this.picture();
    picture.canvas(scale).toBlob((blob) => this.give(blob, "png"), "image/png");
    this.owner.refresh();
  }

  // The film is made of a twin: the player goes on meanwhile as the reader wants.
  async saveFilm(format) {
    const span = this.span();
    const where = `from ${this.from.value} to ${this.to.value}`;
    const ending = new AbortController();
    this.ending = ending;
    this.show(true);
    this.says.textContent = "Each step is drawn and encoded. The player is free meanwhile.";
    const twin = twinOf(this.owner);
    try {
      const { picture, scale } = this.picture(twin);
      const shots = shotsOf(twin, span, format);
      const onProgress = (part) => (this.progress.value = part);
      const file = await film(picture, { format, scale, ...shots, onProgress, signal: ending.signal });
      this.give(file, format, { title: twin.shownAs.title, where });
    } catch (error) {
      this.says.textContent = error.name === "AbortError" ? "Cancelled; nothing was saved." : error.message;
    } finally {
      twin.close();
    }
    this.ending = null;
    this.show(false);
  }

  show(isBusy) {
    this.progress.hidden = this.cancel.hidden = !isBusy;
    this.progress.value = 0;
    this.starters.forEach((starter) => (starter.disabled = isBusy));
  }

  give(blob, ending, { title, where } = this.owner.shownAs) {
    const url = URL.createObjectURL(blob);
    const name = `${fileName(`${title} ${where}`)}.${ending}`;
    element("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
    this.says.textContent = `${name}, ${(blob.size / 1e6).toPrecision(2)} MB, was given to the browser.`;
  }

  destroy() {
    this.ending?.abort();
  }
}

const isSeen = (root, parts) => [...root.querySelectorAll(parts)].some((node) => node.clientWidth > 0);

export function lengthWords(ms) {
  if (ms < LONG_MS) return `${(ms / 1000).toFixed(1)} s.`;
  return `${Math.round(ms / 60_000)} minutes. A higher speed (]) or fewer steps make it shorter.`;
}

// A second player or duel in the state of a first one, beside the page, that nobody sees or steers: keys and
// another theme meanwhile do not change its pictures. `close()` of it takes it away.
function twinOf(owner) {
  const root = owner.root.cloneNode(false);
  const isFull = owner.root.matches(":fullscreen");
  root.classList.add("fa-twin");
  root.classList.toggle("fa-full", isFull);
  root.inert = true;
  root.setAttribute("aria-hidden", "true");
  root.style.width = `${owner.root.offsetWidth}px`;
  if (isFull) root.style.height = `${owner.root.offsetHeight}px`;
  owner.root.after(root);
  const twin = new owner.constructor(root);
  twin.dropKeys();
  // the data are a copy: what is derived from them is then the twin's own too
  twin.load(structuredClone(owner.shown), { ...owner.state(), ...(owner.isPlain && { plain: "yes" }) });
  twin.transport.speed = owner.transport.speed; // a new run begins with its own
  if (owner.opened) twin.opened.predicts = owner.opened.predicts;
  twin.save.node.hidden = owner.save.node.hidden; // in full screen the picture has the room that it leaves
  twin.save.says.textContent = owner.save.says.textContent;
  twin.save.show(true);
  twin.draw();
  twin.close = () => {
    twin.destroy();
    root.remove();
  };
  return twin;
}
