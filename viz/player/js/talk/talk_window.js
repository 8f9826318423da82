// What the stage and the speaker's window have in common: the state, the keys, what lies over the scene.

import { element, toggleFullScreen } from "../controls/dom.js";
import { usePalette } from "../grid/draw.js";
import { Panel, keyList } from "../controls/help.js";
import { HELP, takeTalkKeys } from "./keys.js";
import { NumberPrompt, overlay } from "./overlays.js";
import { Presenter } from "./presenter.js";
import { Screen } from "./screen.js";

export class TalkWindow {
  // `place` is that of the address. `build(sceneRoot)` lays it out, `show(state, glides)` shows a state, and
  // `goToSpeaker()` another window.
  constructor(root, data, place) {
    Object.assign(this, { root, data });
    this.help = new Panel(overlay("help", "keys", [keyList(HELP)]));
    const titles = data.scenes.map(({ title }) => title);
    this.prompt = new NumberPrompt(titles, (number) => this.presenter.goTo(number));
    this.line = element("p", { class: "fa-notice", role: "status", hidden: "" });
    const sceneRoot = document.createElement("div");
    this.screens = [];
    this.listening = new AbortController(); // until it is destroyed
    this.screen = this.makeScreen(sceneRoot, (step) => this.presenter.set({ open: step }));
    this.build(sceneRoot);
    root.append(this.help.node, this.prompt.node);
    const { signal } = this.listening;
    const show = (state, glides) => {
      this.say("");
      this.show(state, glides);
    };
    this.presenter = new Presenter(data, place, show, signal);
    takeTalkKeys((action, key) => this.press(action, key), signal);
    this.useTheme();
    this.show(this.presenter.state, !this.presenter.state.isEnded);
    root.focus();
  }

  destroy() {
    this.listening.abort();
    this.screens.forEach((screen) => screen.destroy());
  }

  makeScreen(root, onOpen) {
    this.screens.push(new Screen(root, this.data, onOpen));
    return this.screens.at(-1);
  }

  useTheme() {
    usePalette(this.root, this.data.palettes);
    this.screens.forEach((screen) => screen.useTheme());
  }

  // A key that was pressed; returns whether it was of use.
  press(action, key) {
    if (this.prompt.isOpen) this.prompt.press(key);
    else if (!/^\d$/.test(key)) return this.does(action);
    else this.prompt.open(key);
    return true;
  }

  // Whether there is such an action; it is done.
  does(action) {
    const { [action]: act } = this.actions();
    act?.();
    return Boolean(act);
  }

  actions() {
    const { presenter, screen } = this;
    return {
      next: () => presenter.move(1, screen.moves),
      back: () => presenter.move(-1),
      first: () => presenter.goTo(1),
      last: () => presenter.goTo(this.data.scenes.length),
      begin: () => presenter.begin(),
      resume: () => presenter.go(presenter.state),
      black: () => presenter.set({ isBlack: !presenter.state.isBlack }),
      ask: () => this.prompt.open(),
      help: () => this.help.toggle(),
      numbers: () => this.openNumbers(),
      speaker: () => this.goToSpeaker(),
      fullScreen: () => toggleFullScreen(this.root),
      escape: () => (this.help.isOpen ? this.help.close() : presenter.escape()),
    };
  }

  openNumbers() {
    const why = this.screen.open ? "" : this.screen.whyNoTile();
    this.say(why);
    if (!why) this.presenter.set({ open: this.screen.nextToOpen });
  }

  say(words) {
    this.line.textContent = words;
    this.line.hidden = !words;
  }
}
