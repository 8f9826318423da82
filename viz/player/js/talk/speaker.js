// The speaker's window: notes, the present scene and the next, the clock and the time left. It moves the talk
// too.

import { element, isDark, toggleFullScreen } from "../controls/dom.js";
import { NumberPrompt, helpPanel } from "./overlays.js";
import { Presenter } from "./presenter.js";
import { moved } from "./scenes.js";
import { Screen } from "./screen.js";
import { takeTalkKeys } from "./talk_keys.js";
import { WhatIf } from "./what_if.js";

const TICK_MS = 500;

const OLD_NUMBERS = "“What if?”: these notes have the numbers of the run that was prepared.\n\n";

export class Speaker {
  // `notes` has one text per scene. `server` runs kernels, if there is one.
  constructor(root, data, notes, server = null) {
    this.root = root;
    this.data = data;
    this.notes = notes;
    root.classList.add("fa-speaker");
    this.build(server);
    this.presenter = new Presenter(data, "", (state, glides) => this.show(state, glides));
    const does = (action) => this.does(action);
    const digit = (figure) => (this.what.isOpen ? this.what.digit(figure) : this.prompt.open(figure));
    this.dropKeys = takeTalkKeys({ does, digit, released: () => {} });
    this.ticking = setInterval(() => this.tick(), TICK_MS);
    this.useTheme();
    this.show(this.presenter.state, false);
    root.focus();
  }

  build(server) {
    const [now, next] = [element("div"), element("div", { inert: "" })];
    this.clock = element("span", { class: "fa-clock" });
    this.left = element("span", { class: "fa-left-time" });
    this.status = element("span", { class: "fa-status", role: "status" });
    this.note = element("div", { class: "fa-note", tabindex: "0", "aria-label": "notes" });
    this.nextTitle = element("div", { class: "fa-next-title" });
    this.help = helpPanel();
    this.prompt = new NumberPrompt(this.data.scenes.length, (number) => this.presenter.goTo(number));
    this.what = new WhatIf(this.data, server, {
      pick: (index, picks) => this.presenter.pick(index, picks),
      changed: () => this.show(this.presenter.state, false),
    });
    const button = (words, action) =>
      element("button", { type: "button", onclick: () => this.does(action) }, [words]);
    this.root.append(
      element("div", { class: "fa-now-column" }, [now, this.note]),
      element("div", { class: "fa-next-column" }, [
        element("div", { class: "fa-times" }, [this.clock, this.left]),
        this.nextTitle,
        next,
        this.status,
        element("div", { class: "fa-speaker-keys" }, [
          button("Back", "back"),
          button("Next", "next"),
          button("Black", "black"),
          button("Keys", "help"),
        ]),
      ]),
      this.what.line,
      this.what.node,
      this.help,
      this.prompt.node,
    );
    this.screens = [
      new Screen(now, this.data, (step) => this.presenter.open(step)),
      new Screen(next, this.data),
    ];
  }

  destroy() {
    clearInterval(this.ticking);
    this.dropKeys();
    this.presenter.destroy();
    this.what.destroy();
    this.screens.forEach((screen) => screen.destroy());
  }

  // Take the colours of the page.
  useTheme() {
    const palette = this.data.palettes[isDark(this.root) ? "dark" : "light"];
    for (const [name, color] of Object.entries(palette)) {
      if (typeof color === "string") this.root.style.setProperty(`--fa-${name}`, color);
    }
    this.screens.forEach((screen) => screen.useTheme());
  }

  show(state, glides) {
    const [now, next] = this.screens;
    this.what.follow(state);
    now.show(state, glides, this.what.sceneOf(state));
    const after = moved(this.data.scenes, state, 1);
    const isEnd = after.scene === state.scene && after.beat === state.beat;
    next.root.hidden = isEnd;
    if (!isEnd) next.show({ ...after, open: "" }, false, this.what.sceneOf({ ...state, ...after }));
    this.nextTitle.textContent = isEnd
      ? "This is the end."
      : after.scene === state.scene
        ? "Next stop"
        : "Next scene";
    const isPrepared = this.what.sceneOf(state) === this.data.scenes[state.scene];
    const warning = isPrepared ? "" : OLD_NUMBERS;
    this.note.textContent = warning + this.notes[state.scene].trim();
    this.status.textContent = state.isEnded
      ? "The talk is ended."
      : state.isBlack
        ? "The audience sees black."
        : "";
    this.tick();
  }

  tick() {
    const { startedAt } = this.presenter?.state ?? {};
    const passed = startedAt ? (Date.now() - startedAt) / 1000 : 0;
    const left = this.data.minutes * 60 - passed;
    this.clock.textContent = new Date().toLocaleTimeString([], {
      hour: "2-digit",
      minute: "2-digit",
      hourCycle: "h23",
    });
    const rest = left < 0 ? `${minutes(-left)} over` : `${minutes(left)} left`;
    this.left.textContent = `${minutes(passed)} gone, ${rest}`;
    this.left.classList.toggle("fa-late", left < 0);
  }

  escape() {
    if (!this.help.hidden) this.help.hidden = true;
    else if (this.what.isOpen) this.what.close();
    else this.presenter.escape();
  }

  does(action) {
    const [now] = this.screens;
    const own = {
      fullScreen: () => toggleFullScreen(this.root),
      ask: () => this.prompt.open(),
      help: () => (this.help.hidden = !this.help.hidden),
      escape: () => this.escape(),
      whatIf: () => this.what.toggle(),
      numbers: () => this.presenter.toggleNumbers(now, (why) => this.what.say(why)),
      tileBefore: () => now.open && this.presenter.open(now.tileBeside(-1)),
      tileAfter: () => now.open && this.presenter.open(now.tileBeside(1)),
      down: () => this.presenter.next(),
      up: () => this.presenter.back(),
      overview: () => this.prompt.open(),
      speaker: () => window.opener?.focus(),
      laser: () => {},
      choose: () => {},
    };
    (own[action] ?? (() => this.presenter[action]()))();
  }
}

function minutes(seconds) {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}
