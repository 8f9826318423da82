// The elements of a player and of a duel. They know nothing of positions.

import { meant } from "../run/formats.js";
import { sum } from "../run/model.js";

const [HTML, SVG] = ["http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg"];
const ICONS = {
  start: "M4 4h2v12H4zM16 4v12L7 10z",
  back: "M14 4v12L5 10z",
  play: "M5 3v14l12-7z",
  pause: "M5 3h4v14H5zM11 3h4v14h-4z",
  forward: "M6 4v12l9-6z",
  end: "M14 4h2v12h-2zM4 4v12l9-6z",
  slower: "M3 9h14v2H3z",
  faster: "M9 3h2v6h6v2h-6v6H9v-6H3V9h6z",
  full: "M3 3h5v2H5v3H3zM12 3h5v5h-2V5h-3zM3 12h2v3h3v2H3zM15 12h2v5h-5v-2h3z",
};

const COUNTED =
  "Counted: bytes that loads and stores asked for. What is read again may come from the L2 cache.";
const MODELLED =
  "Modelled: standard attention writes all scores to HBM and reads them back (Dao et al. 2022, algorithms " +
  "0 and 3), and K and V once per query tile.";

const SAYS_EVERY_MS = 900;

export function element(tag, attributes = {}, children = [], namespace = HTML) {
  const node = document.createElementNS(namespace, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") node.addEventListener("click", value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export const svg = (tag, attributes, children = []) => element(tag, attributes, children, SVG);

// Put words in a node, many times a second. Only new ones are set: a screen reader says each change aloud.
export function write(node, words) {
  if (node.textContent !== words) node.textContent = words;
}

// Of a caption: “^(a − b)” is raised, and a name has the colour of what it names in the picture.
const TERMS = /(\^\((?:[^()]|\([^()]*\))+\)|\^\w+|(?<!\w)(?:d?[QKVOSP]|[mlD]|sum|lse)(?!\w))/;

const termOf = (term) =>
  term[0] === "^"
    ? element("sup", { style: "font-size: 0.7em; line-height: 0" }, [term.replace(/^\^\((.*)\)$|^\^/, "$1")])
    : element("b", { style: `color: var(--fa-${term.at(-1)}, var(--fa-state))` }, [term]);

export function say(node, words) {
  if (node.said === words) return;
  node.said = words;
  node.replaceChildren(...words.split(TERMS).map((part, i) => (i % 2 ? termOf(part) : part)));
}

export const button = (words, title, onclick, more = {}) =>
  element("button", { type: "button", onclick, ...(title && { title }), ...more }, [words].flat());

export function select(label, options) {
  const children = options.map(([value, words]) => element("option", { value }, [words]));
  return element("select", { "aria-label": label }, children);
}

function icon(name) {
  const path = svg("path", { fill: "currentColor", d: ICONS[name] });
  return svg("svg", { viewBox: "0 0 20 20", width: 18, height: 18, "aria-hidden": "true" }, [path]);
}

const iconButton = (name, label, act) => button(icon(name), label, act, { "aria-label": label });

export const canvas = (name, label) =>
  element("canvas", { class: `fa-${name}`, role: "img", "aria-label": label });

// Buttons of which one is pressed, by [name, words] of each. `show(name)` presses one.
export function choice(label, options, set) {
  const buttons = options.map(([name, words]) => button(words, "", () => set(name), { "data-name": name }));
  const node = element("div", { class: "fa-group fa-choice", role: "group", "aria-label": label }, buttons);
  const show = (name) => buttons.forEach((each) => (each.ariaPressed = each.dataset.name === name));
  return { node, show };
}

// The transport's buttons, its slider and its speed. A button does what its key does; `owner` is a Playback.
export function controls(owner, sliderLabel) {
  const { transport } = owner;
  const range = { type: "range", class: "fa-slider", min: "0", step: "any" };
  const slider = element("input", { ...range, "aria-label": sliderLabel });
  const count = element("span", { class: "fa-count" });
  const rate = element("span", { class: "fa-rate" });
  const said = element("div", { class: "fa-said", "aria-live": "polite" });
  const pressed = (name, label, key) => iconButton(name, label, transport.action(key));
  const play = pressed("play", "play or pause (space)", " ");
  const group = (...nodes) => element("div", { class: "fa-group" }, nodes);
  const buttons = group(
    pressed("start", "first step (Home)", "Home"),
    pressed("back", "step back (left arrow)", "ArrowLeft"),
    play,
    pressed("forward", "step forward (right arrow)", "ArrowRight"),
    pressed("end", "last step (End)", "End"),
  );
  const speed = group(pressed("slower", "slower ([)", "["), rate, pressed("faster", "faster (])", "]"));
  const full = iconButton("full", "full screen (f)", () => toggleFullScreen(owner.root));
  const showPlaying = (playing) => {
    play.firstChild.replaceWith(icon(playing ? "pause" : "play"));
    play.ariaPressed = playing;
  };
  // While it plays, words are said aloud only so often that a voice can follow.
  let saidAt = -Infinity;
  const tell = (words, now = performance.now()) => {
    if (transport.playing && now - saidAt < SAYS_EVERY_MS) return;
    saidAt = now;
    write(said, words);
  };
  // All of it in rows, with more tools beside the speed and more words below.
  const rows = (tools, words, last = []) => [
    element("div", { class: "fa-transport" }, [buttons, slider, count, speed, ...last, full]),
    element("div", { class: "fa-tools" }, tools),
    element("div", { class: "fa-foot" }, [said, ...words]),
  ];
  return { rows, slider, count, rate, tell, showPlaying };
}

// Bars of bytes on one scale, to `most` at least, each as long as at its end. A row is {name, title, parts},
// a part {name, title, color, bytes}. Returns `show(row, bytes, words, lifts)`: parts not lifted step back.
export function byteBars(node, rows, palette, most = 0) {
  const totals = rows.map(({ parts }) => sum(parts.map(({ bytes }) => bytes)));
  const scale = 100 / Math.max(most, ...totals);
  const names = ["Q", "K", "S", "P", "V", "O", "m", "l", "lse", "dO", "D", "dQ", "dK", "dV"]; // in each bar
  const piece = ({ name, title, color: own }) => {
    const [color, pale] = [palette[own], `color-mix(in srgb, ${palette[own]} 45%, ${palette.background})`];
    const stripes = `repeating-linear-gradient(-45deg, ${color} 0 3px, ${pale} 3px 6px)`; // of a gradient
    const ground = /^d[QKV]$/.test(name) ? stripes : name === "lse" ? pale : color;
    const ink = ground === pale ? palette.text : palette.background;
    const order = 1 + names.indexOf(name) || names.length + 1; // others are last
    const looks = { class: "fa-part-bar", title, style: `background:${ground};color:${ink};order:${order}` };
    return element("span", looks, [` ${meant(name)}`]);
  };
  const bars = rows.map(({ parts }) => parts.map(piece));
  const said = rows.map(({ title }) => element("span", { class: "fa-byte-words", title }));
  node.replaceChildren(
    ...rows.flatMap(({ name, title }, i) => [
      element("span", { class: "fa-byte-name", title }, [name]),
      said[i],
      element("div", { class: "fa-bar", style: `width:${totals[i] * scale}%` }, bars[i]),
    ]),
  );
  return (i, bytes, words, lifts) => {
    bytes.forEach((each, t) => {
      const opacity = !lifts || lifts.includes(rows[i].parts[t].name) ? 1 : 0.2;
      Object.assign(bars[i][t].style, { width: `${(100 * each) / totals[i]}%`, opacity });
    });
    write(said[i], words);
  };
}

export function countedRow({ data: { tensors, hides }, tensorBytes }, name) {
  const parts = tensors.map(({ name: tensor, written, color }, t) => {
    const title = `${tensor}, ${written ? "written" : "read"}`;
    return { name: tensor, title, color: tensor === hides ? "output" : color, bytes: tensorBytes[t] };
  });
  return { name, title: COUNTED, parts };
}

export function modelledRow({ data }) {
  const parts = data.standard_parts.map((part) => ({ ...part, title: MODELLED }));
  return { name: data.standard_words, title: MODELLED, parts };
}

export function toggleFullScreen(root) {
  if (document.fullscreenElement) document.exitFullscreen();
  else root.requestFullscreen?.().catch(() => {}); // refused: the page stays as it is
}

const PAGE = { wide: 1400, high: 640, screen: 720 }; // of a player on a page, and of its window, about

// On a large screen, and in full screen, text and lines grow. Around a player may be another zoom: a talk's.
export function fitScreen(root) {
  const isFull = root.matches(":fullscreen, .fa-full");
  const onPage = Math.min(root.clientWidth / PAGE.wide, window.innerHeight / PAGE.screen);
  const zoom = Math.max(1, isFull ? root.clientHeight / PAGE.high : onPage).toFixed(3);
  root.style.setProperty("--fa-zoom", isFull || !root.closest(".fa-screen") ? zoom : "");
}

const DARK = "(prefers-color-scheme: dark)";

// Call `change` each time the system goes from light to dark or back. Streamlit tells its components itself.
export function onAppearance(change) {
  window.matchMedia(DARK).addEventListener("change", change);
}

// Whether the page is dark, by Streamlit's theme if there is one.
export function isDark(root) {
  const background = getComputedStyle(root).getPropertyValue("--st-background-color").trim();
  const hex = /^#([0-9a-f]{6})/i.exec(background);
  if (!hex) return window.matchMedia(DARK).matches;
  const [r, g, b] = [0, 2, 4].map((at) => parseInt(hex[1].slice(at, at + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b < 128;
}
