// A 2D context that writes SVG: the calls that the player makes. What is cleared gets the background.

const ALIGNED = { left: "start", start: "start", center: "middle", right: "end" };
const FONT_PARTS = /^(\w*)\s*([\d.]+)px\s+(.+)$/;

const round = (value) => String(Math.round(value * 100) / 100);

function escaped(words) {
  return String(words).replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

function tag(name, attributes, inside = "") {
  const written = Object.entries(attributes)
    .filter(([, value]) => value !== "")
    .map(([key, value]) => ` ${key}="${escaped(typeof value === "number" ? round(value) : value)}"`);
  return `<${name}${written.join("")}${inside ? `>${inside}</${name}>` : "/>"}`;
}

export class SvgContext {
  constructor(background) {
    this.isVector = true;
    this.background = background;
    this.frames = [];
    this.marks = []; // of the frame that is open
    this.path = "";
    this.dash = [];
    Object.assign(this, { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, lineJoin: "miter" });
    this.globalAlpha = 1;
    Object.assign(this, { font: "10px sans-serif", textAlign: "start", textBaseline: "alphabetic" });
    this.ruler = document.createElement("canvas").getContext("2d");
  }

  text(width, height, title = "") {
    this.restore();
    const size = { width, height, viewBox: `0 0 ${round(width)} ${round(height)}` };
    const head = title ? tag("title", {}, escaped(title)) : "";
    const xml = { xmlns: "http://www.w3.org/2000/svg", ...size };
    return tag("svg", xml, `${head}${this.frames.join("")}`);
  }

  // An inner document cuts off what lies outside of it.
  frame({ x, y, scale, width, height }) {
    this.restore();
    const viewBox = `0 0 ${round(width)} ${round(height)}`;
    this.opened = { x, y, width: width * scale, height: height * scale, viewBox };
  }

  restore() {
    if (this.marks.length) this.frames.push(tag("svg", this.opened, this.marks.join("")));
    this.marks = [];
  }

  add(name, attributes, inside = "") {
    const opacity = this.globalAlpha < 1 ? this.globalAlpha : "";
    this.marks.push(tag(name, { ...attributes, opacity }, inside));
  }

  get strokes() {
    const { strokeStyle: stroke, lineWidth, dash } = this;
    return { fill: "none", stroke, "stroke-width": lineWidth, "stroke-dasharray": dash.join(" ") };
  }

  setLineDash(dash) {
    this.dash = dash;
  }

  fillRect(x, y, width, height) {
    this.add("rect", { x, y, width, height, fill: this.fillStyle });
  }

  strokeRect(x, y, width, height) {
    this.add("rect", { x, y, width, height, ...this.strokes });
  }

  clearRect(x, y, width, height) {
    this.marks.push(tag("rect", { x, y, width, height, fill: this.background }));
  }

  beginPath() {
    this.path = "";
  }

  moveTo(x, y) {
    this.path += `M${round(x)} ${round(y)}`;
  }

  lineTo(x, y) {
    this.path += `${this.path ? "L" : "M"}${round(x)} ${round(y)}`;
  }

  rect(x, y, w, h) {
    this.path += `M${round(x)} ${round(y)}h${round(w)}v${round(h)}h${round(-w)}Z`;
  }

  roundRect(x, y, w, h, radius) {
    const r = Math.min(radius, w / 2, h / 2);
    const corner = (dx, dy) => `a${round(r)} ${round(r)} 0 0 1 ${round(dx)} ${round(dy)}`;
    const [across, down] = [round(w - 2 * r), round(h - 2 * r)];
    this.path += `M${round(x + r)} ${round(y)}h${across}${corner(r, r)}v${down}${corner(-r, r)}`;
    this.path += `h-${across}${corner(-r, -r)}v-${down}${corner(r, -r)}Z`;
  }

  // A whole circle; the player draws no other arc.
  arc(x, y, radius) {
    const [r, across] = [round(radius), round(2 * radius)];
    this.path += `M${round(x - radius)} ${round(y)}a${r} ${r} 0 1 0 ${across} 0a${r} ${r} 0 1 0 -${across} 0`;
  }

  fill() {
    this.add("path", { d: this.path, fill: this.fillStyle });
  }

  stroke() {
    this.add("path", { d: this.path, ...this.strokes });
  }

  measureText(words) {
    this.ruler.font = this.font;
    return this.ruler.measureText(words);
  }

  fillText(words, x, y) {
    this.letters(words, x, y, { fill: this.fillStyle });
  }

  strokeText(words, x, y) {
    this.letters(words, x, y, { ...this.strokes, "stroke-linejoin": this.lineJoin });
  }

  // Editors place text by its baseline alone, so that of the middle is turned into it.
  letters(words, x, y, paint) {
    const [, weight, size, family] = FONT_PARTS.exec(this.font);
    const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = this.measureText(words);
    const baseline = this.textBaseline === "middle" ? y + (up - down) / 2 : y;
    const font = { "font-family": family, "font-size": Number(size), "font-weight": weight };
    const place = { x, y: baseline, "text-anchor": ALIGNED[this.textAlign], "xml:space": "preserve" };
    this.add("text", { ...place, ...font, ...paint }, escaped(words));
  }
}
