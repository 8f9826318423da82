// The stage: the audience's window of a talk.

import { element, isDark, toggleFullScreen } from "../controls/dom.js";
import { Laser, NumberPrompt, Overview, helpPanel } from "./overlays.js";
import { Presenter } from "./presenter.js";
import { placeText } from "./scenes.js";
import { Screen } from "./screen.js";
import { takeTalkKeys } from "./talk_keys.js";
import { WhatIf } from "./what_if.js";

const SWIPE = 50; // pixels

// The way out of the stage; the address in full, since Streamlit's page has another base.
function allTalks() {
  return element("a", { href: location.pathname }, ["All talks, and their files"]);
}

export class Talk {
  // `speakerUrl()` is the address of the speaker's window; "" if there is none. `server` runs kernels, if
  // there is one.
  constructor(root, data, speakerUrl, server = null) {
    this.root = root;
    this.data = data;
    this.speakerUrl = speakerUrl;
    this.build(server);
    this.presenter = new Presenter(data, location.hash, (state, glides) => this.show(state, glides));
    this.presenter.link.onPassing = (place) => this.laser.show(place);
    this.useTheme();
    this.loadFonts();
    this.dropKeys = takeTalkKeys({
      does: (action) => this.does(action),
      digit: (figure) => (this.what.isOpen ? this.what.digit(figure) : this.prompt.open(figure)),
      released: (action) => action === "laser" && this.point(null),
    });
    this.listenToPointers();
    // so that no scene has to wait for its run
    this.warming = setTimeout(() => this.screen.warm());
    this.show(this.presenter.state, false);
    root.focus();
  }

  build(server) {
    const { data } = this;
    const goTo = (number) => this.leaveOverview(() => this.presenter.goTo(number));
    const scene = element("div");
    this.help = helpPanel();
    this.prompt = new NumberPrompt(data.scenes.length, goTo);
    this.overview = new Overview(data, goTo, (index) => {
      return this.what.sceneOf({ ...this.presenter.state, scene: index });
    });
    this.laser = new Laser();
    this.black = element("div", { class: "fa-black", hidden: "" });
    this.curtain = element("div", { class: "fa-curtain", hidden: "" }, [
      element("h1", {}, [data.title]),
      element("p", {}, ["F5 begins the talk, Shift+F5 goes on with it. ? lists the keys."]),
      ...(server ? [element("p", {}, [allTalks()])] : []),
    ]);
    this.what = new WhatIf(data, server, {
      pick: (index, picks) => this.presenter.pick(index, picks),
      changed: () => this.show(this.presenter.state, false),
    });
    const over = [
      this.what.line,
      this.what.node,
      this.overview.node,
      this.black,
      this.curtain,
      this.help,
      this.prompt.node,
      this.laser.node,
    ];
    this.root.append(scene, ...over);
    this.screen = new Screen(scene, data, (step) => this.presenter.open(step));
  }

  destroy() {
    clearTimeout(this.warming);
    this.dropKeys();
    this.pointers.abort();
    this.presenter.destroy();
    this.overview.destroy();
    this.what.destroy();
    this.screen.destroy();
  }

  // Take the colours of the page: the stage's own are from the palette of any run.
  useTheme() {
    const palette = this.data.palettes[isDark(this.root) ? "dark" : "light"];
    for (const name of ["text", "muted", "background", "surface", "line", "now"]) {
      this.root.style.setProperty(`--fa-${name}`, palette[name]);
    }
    [this.screen, ...(this.overview.screens ?? [])].forEach((screen) => screen.useTheme());
  }

  // A scene may be the first with code in it: its font must not be asked for then.
  loadFonts() {
    const style = getComputedStyle(this.root);
    const fonts = ["--st-font", "--st-code-font"].map((name) => style.getPropertyValue(name)).filter(Boolean);
    for (const font of fonts)
      for (const weight of [400, 600, 700]) document.fonts.load(`${weight} 28px ${font}`);
  }

  show(state, glides) {
    const place = placeText(state);
    if (place !== this.place) this.overview.close(); // the speaker's window goes on while it is open
    this.place = place;
    this.what.follow(state);
    this.screen.show(state, glides, this.what.sceneOf(state));
    this.black.hidden = !state.isBlack;
    this.curtain.hidden = !state.isEnded;
    // in full: Streamlit's page has another base
    history.replaceState(history.state, "", `${location.pathname}${location.search}#${place}`);
  }

  does(action) {
    const own = {
      fullScreen: () => toggleFullScreen(this.root),
      ask: () => this.prompt.open(),
      overview: () => this.toggleOverview(),
      speaker: () => this.openSpeaker(),
      help: () => (this.help.hidden = !this.help.hidden),
      whatIf: () => this.what.toggle(),
      numbers: () => this.presenter.toggleNumbers(this.screen, (why) => this.what.say(why)),
      tileBefore: () => this.screen.open && this.presenter.open(this.screen.tileBeside(-1)),
      tileAfter: () => this.screen.open && this.presenter.open(this.screen.tileBeside(1)),
      laser: () => this.point(this.pointer),
      begin: () => this.leaveOverview(() => this.presenter.begin()),
      resume: () => this.leaveOverview(() => this.presenter.resume()),
      down: () => this.presenter.next(),
      up: () => this.presenter.back(),
      choose: () => this.overview.isOpen && this.overview.choose(),
      escape: () => this.escape(),
    };
    if (this.overview.isOpen && this.select(action)) return;
    (own[action] ?? (() => this.presenter[action]()))();
  }

  // The overview goes away, also if the talk stands there already.
  leaveOverview(go) {
    this.overview.close();
    go();
  }

  toggleOverview() {
    if (this.overview.isOpen) this.overview.close();
    else this.overview.open(this.presenter.state.scene);
  }

  // In the overview the keys that move choose a scene. Returns whether the key was one of them.
  select(action) {
    const { overview } = this;
    const by = { next: 1, back: -1, down: overview.columns, up: -overview.columns }[action];
    const to = { first: 0, last: Infinity }[action] ?? overview.selected + by;
    if (Number.isNaN(to)) return false;
    overview.select(to);
    return true;
  }

  escape() {
    if (!this.help.hidden) this.help.hidden = true;
    else if (this.what.isOpen) this.what.close();
    else if (this.overview.isOpen) this.overview.close();
    else this.presenter.escape();
  }

  openSpeaker() {
    const url = this.speakerUrl();
    if (!url) return;
    const opened = window.open(url, `speaker ${this.data.id}`, "popup,width=1200,height=760");
    if (opened) this.presenter.link.windows.add(opened);
  }

  point(place) {
    this.isPointing = Boolean(place);
    this.laser.show(place);
    this.presenter.link.sendPassing(place);
  }

  listenToPointers() {
    this.pointers = new AbortController();
    const options = { signal: this.pointers.signal, passive: true };
    let touch = null;
    this.pointer = [0.5, 0.5];
    const on = (name, listener) => this.root.addEventListener(name, listener, options);
    on("pointermove", (event) => {
      const box = this.root.getBoundingClientRect();
      this.pointer = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
      if (this.isPointing) this.point(this.pointer);
    });
    on("touchstart", (event) => (touch = event.touches.length === 1 ? event.touches[0] : null));
    on("touchend", (event) => {
      if (!touch) return;
      const [across, down] = ["clientX", "clientY"].map(
        (side) => event.changedTouches[0][side] - touch[side],
      );
      if (Math.abs(across) > SWIPE && Math.abs(across) > Math.abs(down))
        this.does(across < 0 ? "next" : "back");
    });
  }
}
