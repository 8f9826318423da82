// The panel that saves what is shown: a picture as PNG, a span of steps as an animation.

import { button, element, select } from "../controls/dom.js";
import { Panel } from "../controls/help.js";
import { takeKeys } from "../controls/keyboard.js";
import { clamp } from "../run/easing.js";
import { fileName, formatMs } from "../run/formats.js";
import { film, shotsOf } from "./film.js";
import { Picture } from "./picture.js";

const PARTS = ".fa-left, .fa-duel, .fa-caption, .fa-bytes"; // the nodes that a picture is made of
const SIZES = [
  ["2×", "2 times as large as here"],
  ["1×", "as large as here"],
  ["16:9", "1920 × 1080, as a slide"],
];
const MOST_PIXELS = 64e6; // more than that no browser gives a canvas

export class SavePanel extends Panel {
  constructor(owner) {
    super(element("div", { class: "fa-panel fa-save", role: "group", "aria-label": "save" }));
    this.owner = owner;
    this.size = select("size", SIZES);
    [this.from, this.to] = ["from", "to"].map((label) =>
      element("input", { type: "number", min: "0", step: "1", size: "6", "aria-label": label }),
    );
    const still = button("PNG", "save the picture", () => this.saveStill());
    const films = [
      ["Video", "save the animation for slides: MP4, or WebM if this browser encodes no other"],
      ["GIF", "save the animation for places that show no video; the file is larger"],
    ].map(([name, title]) => button(name, title, () => this.saveFilm(name === "GIF")));
    this.starters = [still, ...films];
    this.cancel = button("Cancel", "end it without a file", () => this.ending?.abort());
    this.progress = element("progress", { max: "1", value: "0", "aria-label": "progress" });
    this.says = element("span", { role: "status" });
    const rows = [
      ["Picture, ", this.size, still],
      ["Animation, from ", this.from, " to ", this.to, ...films],
      [this.progress, this.cancel, this.says],
    ];
    this.node.append(...rows.map((row) => element("div", { class: "fa-fields" }, row)));
    const opens = { "aria-expanded": "false" };
    this.button = button("Save", "save a picture or an animation (s)", () => this.toggle(), opens);
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
    this.plan();
    this.size.focus();
  }

  // The picture, and how large a CSS pixel of it becomes.
  picture() {
    const { owner, size } = this;
    const parts = [...owner.root.querySelectorAll(PARTS)];
    const isSlide = size.value === "16:9";
    const picture = new Picture(owner, parts, owner.palette, isSlide ? 16 / 9 : 0);
    const scale = isSlide ? 1920 / picture.width : parseFloat(size.value);
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
    this.says.textContent = `${width} × ${height} pixels; the animation takes ${formatMs(duration)}`;
  }

  saveStill() {
    this.owner.transport.stop();
    const { picture, scale } = this.picture();
    picture.canvas(scale).toBlob((blob) => this.give(blob, "png"), "image/png");
    this.owner.refresh();
  }

  // The player goes through the shots meanwhile, and nobody else moves it: it stands where it stood after.
  async saveFilm(isGif) {
    const span = this.span();
    const where = `from ${this.from.value} to ${this.to.value}`;
    const ending = new AbortController();
    this.ending = ending;
    this.show(true);
    this.says.textContent = "Each step is drawn and encoded.";
    const { owner } = this;
    const { track } = owner.transport;
    const before = track.position;
    const others = [...owner.root.children].filter((node) => node !== this.node);
    owner.transport.stop();
    owner.dropKeys();
    others.forEach((node) => (node.inert = true));
    try {
      const { picture, scale } = this.picture();
      const shots = shotsOf(owner, span, isGif);
      const onProgress = (part) => (this.progress.value = part);
      const file = await film(picture, { isGif, scale, ...shots, onProgress, signal: ending.signal });
      this.give(file, file.type.split("/")[1], { title: owner.shownAs.title, where });
    } catch (error) {
      this.says.textContent = error.name === "AbortError" ? "Cancelled; nothing was saved." : error.message;
    } finally {
      track.position = before;
      others.forEach((node) => (node.inert = false));
      if (this.node.isConnected) owner.dropKeys = takeKeys(owner);
      this.ending = null;
      this.show(false);
      owner.refresh();
    }
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
}
