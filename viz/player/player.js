// The player itself: position, transport, keyboard. It works in a Streamlit component and in a plain HTML page alike.

let activePlayer = null; // the one that the keyboard moves, where a page has several

function isDark(root) {
  const background = getComputedStyle(root).getPropertyValue("--st-background-color").trim();
  const hex = /^#([0-9a-f]{6})/i.exec(background);
  if (!hex) return window.matchMedia("(prefers-color-scheme: dark)").matches;
  const [r, g, b] = [0, 2, 4].map((at) => parseInt(hex[1].slice(at, at + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b < 128;
}

// A key press for the player or the duel that the keyboard moves, unless somebody types in a field.
function handleKey(owner, event) {
  if (activePlayer !== owner || event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.composedPath()[0];
  if (target instanceof HTMLElement && target !== owner.nodes.slider) {
    if (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return;
    if (target.tagName === "BUTTON" && event.key === " ") return; // the button's own
    if (!owner.root.contains(target) && target.closest("[role=slider],[role=listbox],[role=tablist],[role=radiogroup],[role=combobox]")) return;
  }
  const action = owner.key(event.key);
  if (!action) return;
  event.preventDefault();
  event.stopPropagation();
  action();
}

class Player {
  // An embedded player has no transport of its own: a duel moves it.
  constructor(root, onSettled, embedded = false) {
    this.root = root;
    this.onSettled = onSettled;
    this.reduced = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.doneLayer = new DoneLayer();
    this.pinned = null; // {head, q, row}: the row that the user picked
    this.moved = 0; // when the position last changed, for transitions
    this.nodes = buildPanels(root, this, embedded);
    if (!embedded) {
      this.root.onpointerdown = this.root.onfocusin = () => (activePlayer = this);
      this.onKey = (event) => handleKey(this, event);
      document.addEventListener("keydown", this.onKey);
    }
    this.observer = new ResizeObserver(() => this.draw());
    [this.nodes.stage, this.nodes.chip, this.nodes.rows].forEach((canvas) => this.observer.observe(canvas));
    if (!embedded) activePlayer = this;
  }

  destroy() {
    document.removeEventListener("keydown", this.onKey);
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.settling);
    if (activePlayer === this) activePlayer = null;
  }

  // The same data again (a rerun, another theme) leaves the position alone.
  load(data, place) {
    if (this.model?.data.id !== data.id) {
      const old = this.timeline;
      cancelAnimationFrame(this.frame);
      this.model = makeModel(data);
      this.timeline = makeTimeline(this.model);
      if (old) Object.assign(this.timeline, { unit: old.unit, speed: old.speed });
      this.pinned = null;
      goToText(this.timeline, place);
      this.root.setAttribute("aria-label", `Playback of ${data.title}. ${data.provenance}`);
      this.shownKernel = null;
      this.nodes.legend.says(data.unvisited, [this.model]);
      this.scaleBytes();
      this.nodes.notes.textContent = [data.provenance, ...data.notes].join(" · ");
    }
    this.model.data = data;
    this.usePalette(data.palettes[isDark(this.root) ? "dark" : "light"]);
    this.refresh();
  }

  // The bars of bytes, drawn so that `largest` would still fit.
  scaleBytes(largest) {
    this.byteBars = fillBytes(this.nodes.bytes, this.model, largest);
  }

  usePalette(palette) {
    this.palette = palette;
    Object.entries(this.rootColors()).forEach(([name, color]) => this.root.style.setProperty(name, color));
    this.doneLayer.key = "";
  }

  // The palette as the style sheet asks for it.
  rootColors() {
    const { palette } = this;
    const names = ["now", "surface", "text", "muted", "line", "background", "standard", "plain"];
    const last = palette.scale.length - 1;
    const stops = palette.scale.map((color, i) => `${color} ${100 * (i / last) ** 2}%`); // shareColor goes by the square root
    return { ...Object.fromEntries(names.map((name) => [`--fa-${name}`, palette[name]])), "--fa-scale": `linear-gradient(90deg, ${stops.join(", ")})` };
  }

  // --- what the user does ---

  key(name) {
    return {
      " ": () => this.toggle(),
      ArrowRight: () => this.step(1),
      ArrowLeft: () => this.step(-1),
      Home: () => this.goTo(0),
      End: () => this.goTo(this.lastPosition()),
      "[": () => this.changeSpeed(-1),
      "]": () => this.changeSpeed(1),
      f: () => this.fullScreen(),
    }[name];
  }

  lastPosition() {
    return lastPosition(this.timeline);
  }

  toggle() {
    const { timeline } = this;
    if (timeline.playing) {
      this.goTo(timeline.position);
      return;
    }
    if (timeline.position >= lastPosition(timeline)) timeline.position = 0;
    timeline.playing = true;
    this.due = 0;
    this.last = performance.now();
    this.frame = requestAnimationFrame((now) => this.tick(now));
    this.refresh();
  }

  tick(now) {
    const { timeline } = this;
    if (!timeline.playing) return;
    const before = timeline.position;
    this.due += ((now - this.last) / 1000) * timeline.speed;
    this.last = now;
    for (; this.due >= 1; this.due--) timeline.position = moved(timeline, 1);
    if (timeline.position !== before) this.moved = now;
    if (timeline.position >= lastPosition(timeline)) {
      this.goTo(timeline.position);
      return;
    }
    this.draw(now);
    this.frame = requestAnimationFrame((time) => this.tick(time));
  }

  step(direction) {
    this.goTo(moved(this.timeline, direction));
  }

  // Stop at a position.
  goTo(position) {
    cancelAnimationFrame(this.frame);
    this.timeline.playing = false;
    const changed = position !== this.timeline.position;
    this.timeline.position = clampPosition(this.timeline, position);
    if (changed) this.moved = performance.now();
    this.refresh();
    if (changed && !this.reduced && cursor(this.timeline).phase === "rescale") this.animate();
  }

  // Redraw for the length of one transition.
  animate() {
    const frame = (now) => {
      if (this.timeline.playing) return;
      this.draw(now);
      if (now - this.moved < 600) this.frame = requestAnimationFrame(frame);
    };
    this.frame = requestAnimationFrame(frame);
  }

  changeSpeed(direction) {
    const at = SPEEDS.indexOf(this.timeline.speed) + direction;
    this.timeline.speed = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, at))];
    this.refresh();
  }

  setUnit(unit) {
    this.timeline.unit = unit;
    this.refresh();
  }

  setOrder(order) {
    if (order === this.timeline.order) return;
    const finished = cursor(this.timeline).finished;
    this.timeline.order = order;
    this.goTo(finished ? lastPosition(this.timeline) : 0);
  }

  sliderPosition() {
    const value = Number(this.nodes.slider.value);
    return this.timeline.order === "one" ? this.model.phaseStart[value] : value;
  }

  fullScreen() {
    if (document.fullscreenElement) document.exitFullscreen();
    else this.root.requestFullscreen?.().catch(() => {});
  }

  // The tile under the pointer, and the row inside it; null beside the grid.
  hit(event) {
    const bounds = this.nodes.stage.getBoundingClientRect();
    const [x, y] = [event.clientX - bounds.left, event.clientY - bounds.top];
    const { layouts, heads } = this.shown;
    const index = layouts.findIndex((layout) => x >= layout.x && x < layout.x + layout.width && y >= layout.y && y < layout.y + layout.height);
    if (index < 0) return null;
    const layout = layouts[index];
    const across = (y - layout.y) / layout.cellHeight;
    const q = Math.floor(across);
    const kv = Math.floor((x - layout.x) / layout.cellWidth);
    return { head: heads[index], q, kv, offset: (across - q) * this.model.data.problem.block_m };
  }

  pick(event) {
    const hit = this.hit(event);
    if (!hit) return;
    const row = Math.min(this.model.offsets.findLastIndex((offset) => offset <= hit.offset), rowCount(this.model, hit.q) - 1);
    const same = this.pinned && this.pinned.head === hit.head && this.pinned.q === hit.q && this.pinned.row === row;
    this.pinned = same ? null : { head: hit.head, q: hit.q, row };
    this.refresh();
  }

  describe(event) {
    const hit = this.hit(event);
    return hit ? tileWords(this.model, hit, this.stateAt(performance.now()).kernel) : "";
  }

  // --- what is shown ---

  refresh() {
    const { timeline, nodes } = this;
    nodes.play.firstChild.replaceWith(icon(timeline.playing ? "pause" : "play"));
    nodes.play.setAttribute("aria-pressed", String(timeline.playing));
    nodes.units.refresh();
    nodes.orders.refresh();
    nodes.units.classList.toggle("fa-off", timeline.order === "gpu");
    nodes.rate.textContent = `${timeline.speed} ${timeline.order === "gpu" ? "moments" : `${timeline.unit}s`}/s`;
    nodes.slider.max = timeline.order === "one" ? this.model.count : lastPosition(timeline);
    this.draw();
    clearTimeout(this.settling);
    if (!timeline.playing) this.settling = setTimeout(() => this.onSettled?.(positionText(timeline)), 400);
  }

  draw(now = performance.now()) {
    const { model, palette, timeline, nodes } = this;
    if (!timeline || !nodes.stage.clientWidth) return;
    const at = this.stateAt(now);
    const active = this.drawStage(at);
    drawChip(nodes.chip, model, palette, at);
    drawRows(nodes.rows, model, palette, at, this.pinned);
    nodes.slider.value = timeline.order === "one" ? at.done : timeline.position;
    this.drawBytes(at, active, now);
    this.highlight(at.kernel, at.phase);
  }

  // The cursor, with what the panels ask of it.
  stateAt(now) {
    const { model, timeline } = this;
    const at = cursor(timeline);
    const transition = timeline.playing ? 500 / timeline.speed : 500;
    at.tween = this.reduced || timeline.speed > 8 ? 1 : Math.min(1, (now - this.moved) / transition);
    at.isDone = (step) => at.finished || (timeline.order === "gpu" ? timeline.moments.end[step] <= at.time : step < at.done);
    const standing = at.step >= 0 ? at.step : at.finished ? model.count - 1 : this.latestStarted(at);
    at.head = model.head[at.finished && timeline.order === "gpu" ? 0 : standing];
    at.kernel = model.kernel[standing];
    if (at.step >= 0 && model.values.alpha && model.q[at.step] >= 0) {
      const alphas = Array.from({ length: rowCount(model, model.q[at.step]) }, (_, row) => valueAt(model, "alpha", at.step, row));
      at.alphaRange = [Math.min(...alphas), Math.max(...alphas)];
      at.meanAlpha = 1 + (alphas.reduce((sum, value) => sum + value, 0) / alphas.length - 1) * at.tween;
    }
    return at;
  }

  // With all programs at once: a step of the kernel that runs at this moment.
  latestStarted(at) {
    const { model, timeline } = this;
    let latest = 0;
    if (timeline.order === "gpu" && at.started) for (let i = 0; i < model.count; i++) if (timeline.moments.start[i] <= at.time) latest = i;
    return latest;
  }

  // Returns how many tiles are in progress.
  drawStage(at) {
    const { model, palette, timeline } = this;
    const { context, width, height } = fitCanvas(this.nodes.stage);
    const allHeads = model.heads;
    const heads = timeline.order === "gpu" ? allHeads : [at.head];
    const layouts = headLayouts(width, height, model, heads);
    this.shown = { layouts, heads };
    const layoutOf = (step) => layouts[heads.indexOf(model.head[step])];
    const { steps, active } = this.doneAndActive(at, heads);
    const key = [model.data.id, palette.background, width, height, window.devicePixelRatio, timeline.order, heads.join(), model.data.fresh ? at.kernel : ""].join("|");
    this.doneLayer.update(key, width, height, layouts, layoutOf, model, palette, steps);
    context.clearRect(0, 0, width, height);
    context.drawImage(this.doneLayer.canvas, 0, 0, width, height);
    if (layouts.length === 1) {
      if (model.parts.length) drawParts(context, layouts[0], model, palette, LABEL + 2);
      drawStrips(context, layouts[0], model, palette, at);
      drawLabels(context, layouts[0], model, palette);
      text(context, allHeads.length > 1 ? headName(model, heads[0]) : "HBM", 2, LABEL / 2 + 1, palette.muted, { size: 11, weight: "600" });
    } else {
      if (model.parts.length) layouts.forEach((layout) => drawParts(context, layout, model, palette));
      heads.forEach((head, i) => text(context, headName(model, head), layouts[i].x, layouts[i].y - 7, palette.muted));
    }
    if (at.step >= 0 && !at.complete && model.kv[at.step] >= 0 && model.q[at.step] >= 0) drawInProgress(context, layouts[0], model, palette, at);
    const thin = Math.min(layouts[0].cellWidth, layouts[0].cellHeight) < 8 && layouts.length > 1;
    active.forEach((step) => outline(context, cellBox(layoutOf(step), model, step), palette.now, thin ? 1 : 2.5));
    if (this.pinned) drawPinnedRow(context, layouts[heads.indexOf(this.pinned.head)], model, palette, this.pinned);
    return active.length;
  }

  doneAndActive(at, heads) {
    const { model, timeline } = this;
    const gpu = timeline.order === "gpu";
    const steps = [];
    const hasCell = (i) => model.kv[i] >= 0 && model.q[i] >= 0;
    const active = !gpu && at.step >= 0 && hasCell(at.step) ? [at.step] : [];
    for (let i = 0; i < model.count; i++) {
      if (!gpu && model.head[i] !== heads[0]) continue;
      if (model.data.fresh && model.kernel[i] !== at.kernel) continue;
      if (at.isDone(i)) steps.push(i);
      else if (gpu && at.started && timeline.moments.start[i] <= at.time && hasCell(i)) active.push(i);
    }
    return { steps, active };
  }

  drawBytes(at, active, now) {
    const { model, nodes, byteBars, timeline } = this;
    const bytes = bytesSoFar(timeline, at);
    byteBars.parts.forEach((part, t) => {
      part.style.width = `${bytes.perTensor[t] * byteBars.scale}%`;
      part.style.background = this.palette[tensorColor(model.data.tensors[t].name)];
    });
    byteBars.words.textContent = `${formatBytes(bytes.total)} counted`;
    nodes.count.textContent = countWords(timeline, at);
    const row = rowWords(model, at, this.pinned);
    if (nodes.rowTitle.textContent !== row) nodes.rowTitle.textContent = row;
    if (timeline.playing && now - (this.said ?? 0) < 900) return; // a screen reader should be able to follow
    this.said = now;
    nodes.readout.textContent = readoutWords(timeline, at, bytes, active, this.pinned);
  }

  highlight(kernel, phase) {
    if (kernel !== this.shownKernel) {
      this.shownKernel = kernel;
      this.lines = fillSource(this.nodes.source, this.model, kernel);
      this.litPhase = null;
    }
    if (phase === this.litPhase) return;
    this.litPhase = phase;
    let first = null;
    for (const { line, phase: own } of this.lines) {
      line.classList.toggle("fa-lit", own === phase);
      if (own === phase) first ??= line;
    }
    if (first) this.nodes.source.scrollTop = Math.max(0, first.offsetTop - this.nodes.source.clientHeight / 3);
  }
}
