// The elements of the player. Everything here is built once and knows nothing of positions.

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

const COUNTED = "Counted: bytes that the kernel's loads and stores asked for. Re-reads of K and V may hit the L2 cache, so this is not DRAM traffic.";
const MODELLED = "Modelled: standard attention, every matrix of scores written to HBM and read back (Dao et al. 2022, algorithm 0; backward: algorithm 3).";

function element(tag, attributes = {}, children = []) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

function icon(name) {
  const span = element("span", { class: "fa-icon", "aria-hidden": "true" });
  span.innerHTML = `<svg viewBox="0 0 20 20" width="18" height="18"><path fill="currentColor" d="${ICONS[name]}"/></svg>`;
  return span;
}

function iconButton(name, label, onclick) {
  return element("button", { type: "button", title: label, "aria-label": label, onclick }, [icon(name)]);
}

// Buttons of which one is pressed. `refresh` shows the current one.
function choice(label, names, get, set, words = {}) {
  const group = element("div", { class: "fa-group fa-choice", role: "group", "aria-label": label });
  for (const name of names) {
    group.append(element("button", { type: "button", "data-name": name, onclick: () => set(name) }, [words[name] ?? name]));
  }
  group.refresh = () => group.childNodes.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.name === get())));
  return group;
}

// The legend; `says` takes what an unvisited tile means, and the runs at hand.
function legend() {
  const [unvisited, largest] = [element("span"), element("span")];
  const entry = (swatch, words) => element("span", {}, [element("i", { class: `fa-swatch fa-swatch-${swatch}` }), words]);
  const skipped = entry("skipped", "skipped by the mask");
  const plain = entry("plain", "scores computed");
  const node = element("div", { class: "fa-legend" }, [entry("unvisited", unvisited), skipped, plain, entry("scale", largest)]);
  node.says = (words, models) => {
    unvisited.textContent = words;
    skipped.hidden = !models.some((model) => model.kinds.includes(KIND.skipped));
    plain.hidden = !models.some((model) => model.kernels.some((kernel) => kernel.cells === "plain"));
    largest.textContent = `share of its rows' attention, 0 to ${formatNumber(100 * Math.max(...models.map((model) => model.scaleShare)), 2)} %`;
  };
  return node;
}

// Start, back, play, forward, end; `owner` is a player or a duel.
function transportButtons(owner, play) {
  return element("div", { class: "fa-group" }, [
    iconButton("start", "first step (Home)", () => owner.goTo(0)),
    iconButton("back", "step back (left arrow)", () => owner.step(-1)),
    play,
    iconButton("forward", "step forward (right arrow)", () => owner.step(1)),
    iconButton("end", "last step (End)", () => owner.goTo(owner.lastPosition())),
  ]);
}

function speedButtons(owner, rate) {
  return element("div", { class: "fa-group" }, [
    iconButton("slower", "slower ([)", () => owner.changeSpeed(-1)),
    rate,
    iconButton("faster", "faster (])", () => owner.changeSpeed(1)),
  ]);
}

// All panels of a player inside `root`. `player` is asked for its timeline and told what the user does. An embedded one has no transport.
function buildPanels(root, player, embedded) {
  const canvas = (name, label) => element("canvas", { class: `fa-${name}`, role: "img", "aria-label": label });
  const nodes = {
    stage: canvas("stage", "score tiles between the strips of Q, K, V and O"),
    chip: canvas("chip", "what lies in SRAM"),
    rows: canvas("rows", "state of one row over the steps"),
    rowTitle: element("div", { class: "fa-head" }),
    source: element("div", { class: "fa-source", tabindex: "0", "aria-label": "kernel source" }),
    bytes: element("div", { class: "fa-bytes" }),
    slider: element("input", { type: "range", class: "fa-slider", min: "0", step: "1", "aria-label": "step" }),
    count: element("span", { class: "fa-count" }),
    rate: element("span", { class: "fa-rate" }),
    legend: legend(),
    readout: element("div", { class: "fa-readout", "aria-live": "polite" }),
    notes: element("div", { class: "fa-notes" }),
    play: iconButton("play", "play or pause (space)", () => player.toggle()),
    units: choice("step by", UNITS, () => player.timeline.unit, (unit) => player.setUnit(unit)),
    orders: choice("programs", ["one", "gpu"], () => player.timeline.order, (order) => player.setOrder(order), { one: "one by one", gpu: "all at once" }),
  };
  nodes.slider.oninput = () => player.goTo(player.sliderPosition());
  nodes.stage.onclick = (event) => player.pick(event);
  nodes.stage.onmousemove = (event) => (nodes.stage.title = player.describe(event));
  if (embedded) {
    root.append(nodes.stage, nodes.chip, nodes.bytes);
    return nodes;
  }
  const transport = transportButtons(player, nodes.play);
  const speed = speedButtons(player, nodes.rate);
  const full = iconButton("full", "full screen (f)", () => player.fullScreen());
  root.append(
    element("div", { class: "fa-main" }, [
      element("div", { class: "fa-left" }, [nodes.stage, nodes.legend, nodes.chip]),
      element("div", { class: "fa-right" }, [nodes.source, nodes.rowTitle, nodes.rows]),
    ]),
    nodes.bytes,
    element("div", { class: "fa-controls" }, [
      element("div", { class: "fa-transport" }, [transport, nodes.slider, nodes.count, full]),
      speed,
      nodes.units,
      nodes.orders,
      element("div", { class: "fa-foot" }, [nodes.readout, nodes.notes]),
    ]),
  );
  return nodes;
}

// The kernel's lines; returns [{line, phase}] for highlighting.
function fillSource(node, model, index) {
  const { source, name, each } = model.kernels[index];
  const lines = [];
  const parts = [source.lines[1].length ? "before the loop" : "once a query tile", each, "after the loop"];
  const place = model.kernels.length > 1 ? `${index + 1}/${model.kernels.length} ${name} · ` : "";
  node.replaceChildren(element("div", { class: "fa-file", title: `${place}${source.file}` }, [`${place}${source.file}`]));
  node.scrollTop = 0;
  source.lines.forEach((part, index) => {
    if (!part.length) return;
    node.append(element("div", { class: "fa-part" }, [parts[index]]));
    for (const [number, words, phase] of part) {
      const line = element("div", { class: "fa-line" }, [element("span", { class: "fa-number" }, [String(number)]), element("code", {}, [words])]);
      lines.push({ line, phase });
      node.append(line);
    }
  });
  return lines;
}

// The two bars of bytes, on one scale; returns what changes with the position.
function fillBytes(node, model, largest = 0) {
  const { tensors, standard_bytes: standard } = model.data;
  const scale = 100 / Math.max(model.bytes[model.count], standard, largest);
  const parts = tensors.map(({ name, written }) => element("span", { class: "fa-part-bar", title: `${name}, ${written ? "written" : "read"}` }));
  const words = element("span", { class: "fa-byte-words" });
  node.replaceChildren(
    element("span", { class: "fa-byte-name", title: COUNTED }, ["bytes so far"]),
    element("div", { class: "fa-bar" }, [...parts, words]),
    element("span", { class: "fa-byte-name", title: MODELLED }, ["standard, whole run"]),
    element("div", { class: "fa-bar" }, [
      element("span", { class: "fa-part-bar fa-standard", style: `width:${standard * scale}%`, title: MODELLED }),
      element("span", { class: "fa-byte-words" }, [`${formatBytes(standard)} modelled`]),
    ]),
  );
  return { parts, words, scale };
}
