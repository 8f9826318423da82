// Two runs side by side under one transport: step for step, or as a race on one modelled clock.

const RACE_TICKS = 1000;

class Duel {
  constructor(root, onSettled) {
    this.root = root;
    this.onSettled = onSettled;
    this.clock = { order: "steps", speed: 8, playing: false, position: 0 };
    const pane = () => element("div", { class: "fa-pane" });
    this.paneRoots = [pane(), pane()];
    this.titles = this.paneRoots.map(() => element("div", { class: "fa-head fa-pane-title" }));
    this.panes = this.paneRoots.map((node) => new Player(node, null, true));
    this.build();
    this.root.onpointerdown = this.root.onfocusin = () => (activePlayer = this);
    this.onKey = (event) => handleKey(this, event);
    document.addEventListener("keydown", this.onKey);
    activePlayer = this;
  }

  build() {
    this.legend = legend();
    const nodes = (this.nodes = {
      play: iconButton("play", "play or pause (space)", () => this.toggle()),
      slider: element("input", { type: "range", class: "fa-slider", min: "0", step: "1", "aria-label": "position of both runs" }),
      count: element("span", { class: "fa-count" }),
      rate: element("span", { class: "fa-rate" }),
      readout: element("div", { class: "fa-readout", "aria-live": "polite" }),
      orders: choice("clock", ["steps", "race"], () => this.clock.order, (order) => this.setOrder(order), { steps: "step for step", race: "race" }),
    });
    nodes.slider.oninput = () => this.goTo(Number(nodes.slider.value));
    const columns = this.paneRoots.map((node, i) => element("div", { class: "fa-column" }, [this.titles[i], node]));
    const transport = transportButtons(this, nodes.play);
    const speed = speedButtons(this, nodes.rate);
    const full = iconButton("full", "full screen (f)", () => this.fullScreen());
    this.root.append(
      element("div", { class: "fa-duel" }, columns),
      this.legend,
      element("div", { class: "fa-controls" }, [
        element("div", { class: "fa-transport" }, [transport, nodes.slider, nodes.count, full]),
        speed,
        nodes.orders,
        element("div", { class: "fa-foot" }, [nodes.readout]),
      ]),
    );
  }

  destroy() {
    document.removeEventListener("keydown", this.onKey);
    cancelAnimationFrame(this.frame);
    clearTimeout(this.settling);
    this.panes.forEach((pane) => pane.destroy());
    if (activePlayer === this) activePlayer = null;
  }

  load(data, place) {
    const changed = this.data?.id !== data.id;
    this.data = data;
    data.runs.forEach((run, i) => {
      this.panes[i].load(run, "0");
      this.titles[i].textContent = `${"AB"[i]}  ${run.title}`;
    });
    const models = this.panes.map((pane) => pane.model);
    const share = Math.max(...models.map((model) => model.scaleShare)); // one scale of colours for both
    models.forEach((model) => (model.scaleShare = share));
    this.legend.says("not visited yet", models);
    const largest = Math.max(...this.panes.map((pane) => Math.max(pane.model.bytes[pane.model.count], pane.model.data.standard_bytes)));
    this.panes.forEach((pane) => pane.scaleBytes(largest));
    this.costs = data.costs.map((text) => decode(text, Float64Array));
    if (changed) {
      const [, order, position] = /^(steps|race):(\d+)$/.exec(place ?? "") ?? [null, "steps", "0"];
      Object.assign(this.clock, { order, playing: false });
      this.clock.position = Math.min(Number(position), this.end());
    }
    this.panes[0].palette && Object.entries(this.panes[0].rootColors()).forEach(([name, color]) => this.root.style.setProperty(name, color));
    this.refresh();
  }

  end() {
    return this.clock.order === "race" ? RACE_TICKS : Math.max(...this.panes.map((pane) => pane.model.count));
  }

  // Modelled time at the present position, in ns.
  now() {
    const longest = Math.max(...this.costs.map((costs) => costs[costs.length - 1]));
    return (longest * this.clock.position) / RACE_TICKS;
  }

  // Steps of run i that are done.
  doneOf(i) {
    if (this.clock.order === "steps") return Math.min(this.clock.position, this.panes[i].model.count);
    const costs = this.costs[i];
    const time = this.now() * (1 + 1e-9);
    let done = 0;
    while (done < costs.length && costs[done] <= time) done++;
    return done;
  }

  key(name) {
    return {
      " ": () => this.toggle(),
      ArrowRight: () => this.goTo(this.clock.position + this.stride()),
      ArrowLeft: () => this.goTo(this.clock.position - this.stride()),
      Home: () => this.goTo(0),
      End: () => this.goTo(this.end()),
      "[": () => this.changeSpeed(-1),
      "]": () => this.changeSpeed(1),
      f: () => this.fullScreen(),
    }[name];
  }

  stride() {
    return this.clock.order === "race" ? 10 : 1;
  }

  step(direction) {
    this.goTo(this.clock.position + direction * this.stride());
  }

  lastPosition() {
    return this.end();
  }

  toggle() {
    const { clock } = this;
    if (clock.playing) {
      this.goTo(clock.position);
      return;
    }
    if (clock.position >= this.end()) clock.position = 0;
    clock.playing = true;
    this.due = 0;
    this.last = performance.now();
    this.frame = requestAnimationFrame((now) => this.tick(now));
    this.refresh();
  }

  tick(now) {
    const { clock } = this;
    if (!clock.playing) return;
    this.due += ((now - this.last) / 1000) * clock.speed * this.stride();
    this.last = now;
    const whole = Math.floor(this.due);
    this.due -= whole;
    clock.position = Math.min(clock.position + whole, this.end());
    if (clock.position >= this.end()) {
      this.goTo(clock.position);
      return;
    }
    this.draw(now);
    this.frame = requestAnimationFrame((time) => this.tick(time));
  }

  goTo(position) {
    cancelAnimationFrame(this.frame);
    this.clock.playing = false;
    this.clock.position = Math.max(0, Math.min(this.end(), Math.round(position)));
    this.refresh();
  }

  changeSpeed(direction) {
    const at = SPEEDS.indexOf(this.clock.speed) + direction;
    this.clock.speed = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, at))];
    this.refresh();
  }

  setOrder(order) {
    if (order === this.clock.order) return;
    const finished = this.clock.position >= this.end();
    this.clock.order = order;
    this.goTo(finished ? this.end() : 0);
  }

  fullScreen() {
    if (document.fullscreenElement) document.exitFullscreen();
    else this.root.requestFullscreen?.().catch(() => {});
  }

  refresh() {
    const { clock, nodes } = this;
    nodes.play.firstChild.replaceWith(icon(clock.playing ? "pause" : "play"));
    nodes.play.setAttribute("aria-pressed", String(clock.playing));
    nodes.orders.refresh();
    nodes.rate.textContent = clock.order === "race" ? `${clock.speed} %/s` : `${clock.speed} steps/s`;
    nodes.slider.max = this.end();
    this.draw();
    clearTimeout(this.settling);
    if (!clock.playing) this.settling = setTimeout(() => this.onSettled?.(`${clock.order}:${clock.position}`), 400);
  }

  draw(now = performance.now()) {
    const done = this.panes.map((pane, i) => {
      const steps = this.doneOf(i);
      pane.timeline.position = pane.model.phaseStart[steps];
      pane.draw(now);
      return steps;
    });
    this.nodes.slider.value = this.clock.position;
    const race = this.clock.order === "race";
    this.nodes.count.textContent = race ? `${formatTime(this.now())} modelled` : `step ${this.clock.position} / ${this.end()}`;
    if (this.clock.playing && now - (this.said ?? 0) < 900) return;
    this.said = now;
    this.nodes.readout.textContent = this.words(done, race);
  }

  words(done, race) {
    const bytes = this.panes.map((pane, i) => pane.model.bytes[done[i]]);
    const states = this.panes.map((pane, i) => {
      const name = "AB"[i];
      const total = this.costs[i][this.costs[i].length - 1];
      const end = race && done[i] === pane.model.count ? ` in ${formatTime(total)}` : "";
      return `${name}: ${done[i]} of ${pane.model.count} steps${end}, ${formatBytes(bytes[i])}`;
    });
    const model = race ? ` ${this.data.clock_words}` : "";
    return `${states.join(". ")}.${model}`;
  }
}

function formatTime(ns) {
  if (ns < 1e3) return `${formatNumber(ns)} ns`;
  return ns < 1e6 ? `${formatNumber(ns / 1e3)} µs` : `${formatNumber(ns / 1e6)} ms`;
}
