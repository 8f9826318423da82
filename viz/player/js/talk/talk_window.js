// What the stage and the speaker's window have in common: the state, the keys, what lies over the scene.

import { toggleFullScreen } from "../controls/dom.js";
import { usePalette } from "../grid/draw.js";
import { keyList } from "../controls/help.js";
import { HELP, takeTalkKeys } from "./keys.js";
import { NumberPrompt, Overlay } from "./overlays.js";
import { Presenter } from "./presenter.js";
import { Screen } from "./screen.js";
import { WhatIf } from "./what_if.js";

export class TalkWindow {
  // `place` is that of the address, if it has one. `server` runs kernels, if there is one. `build(sceneRoot)`
  // of the window lays it out, `show(state, glides)` shows a state.
  constructor(root, data, place, server) {
    Object.assign(this, { root, data });
    this.help = new Overlay("help", "keys", [keyList(HELP)]);
    this.prompt = new NumberPrompt(data.scenes.length, (number) => this.goTo(number));
    this.what = new WhatIf(data, server, {
      pick: (index, picks) => this.presenter.pick(index, picks),
      changed: () => this.show(this.presenter.state, false),
    });
    const sceneRoot = document.createElement("div");
    this.screens = [];
    this.screen = this.makeScreen(sceneRoot, (step) => this.presenter.set({ open: step }));
    this.build(sceneRoot, server);
    root.append(this.what.node, this.help.node, this.prompt.node);
    this.presenter = new Presenter(data, place, (state, glides) => this.show(state, glides));
    this.dropKeys = takeTalkKeys((action, key) => this.press(action, key));
    this.useTheme();
    this.show(this.presenter.state, false);
    root.focus();
  }

  destroy() {
    this.dropKeys();
    this.presenter.link.destroy();
    this.what.destroy();
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

  goTo(number) {
    this.presenter.goTo(number);
  }

  // A key that was pressed; returns whether it was of use.
  press(action, key) {
    if (this.presenter.state.isEnded && /^[WZ[\]]$/.test(key)) return false; // no scene is seen
    if (this.prompt.isOpen) this.prompt.press(key);
    else if (!/^\d$/.test(key)) return this.does(action);
    else if (this.what.isOpen) this.what.digit(key);
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
      next: () => presenter.move(1),
      back: () => presenter.move(-1),
      first: () => this.goTo(1),
      last: () => this.goTo(this.data.scenes.length),
      begin: () => presenter.begin(),
      resume: () => presenter.go(presenter.state),
      black: () => presenter.set({ isBlack: !presenter.state.isBlack }),
      ask: () => this.prompt.open(),
      help: () => this.help.toggle(),
      whatIf: () => this.what.toggle(),
      numbers: () => this.toggleNumbers(),
      tileBefore: () => screen.open && presenter.set({ open: screen.tileBeside(-1) }),
      tileAfter: () => screen.open && presenter.set({ open: screen.tileBeside(1) }),
      fullScreen: () => toggleFullScreen(this.root),
      escape: () => this.escape(),
    };
  }

  toggleNumbers() {
    const why = this.screen.open ? "" : this.screen.whyNoTile();
    if (why) this.what.say(why);
    else this.presenter.set({ open: this.screen.open ? "" : this.screen.tileBeside(0) });
  }

  escape() {
    const open = [this.help, this.what, this.overview].find((each) => each?.isOpen);
    if (open) open.close();
    else this.presenter.escape();
  }
}
