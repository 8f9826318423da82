// The stage: the audience's window of a talk.

import { element } from "../controls/dom.js";
import { isLast, placeText } from "./scenes.js";
import { TalkWindow } from "./talk_window.js";

const SWIPE = 50; // pixels
const WAYS = "F5, → or a swipe begins the talk, Shift+F5 goes on with it. ? lists the keys.";

export class Talk extends TalkWindow {
  // `speakerUrl()` is the address of the speaker's window; "" if there is none.
  constructor(root, data, speakerUrl) {
    super(root, data, location.hash);
    this.speakerUrl = speakerUrl;
    this.loadFonts();
    this.listenToSwipes();
    // so that no scene has to wait for its run
    this.warming = setTimeout(() => this.screen.warm());
  }

  build(sceneRoot) {
    this.black = element("div", { class: "fa-black", hidden: "" });
    const titles = this.data.scenes.map(({ title }) => element("li", {}, [title]));
    this.said = element("ol", {}, titles);
    const title = element("h1", {}, [this.data.title]);
    this.curtain = element("div", { class: "fa-curtain", title: WAYS, hidden: "" }, [title, this.said]);
    this.screen.source.after(this.line);
    this.root.append(sceneRoot, this.black, this.curtain);
  }

  destroy() {
    clearTimeout(this.warming);
    super.destroy();
  }

  // A scene may be the first with letters of a weight: they must not be asked for then.
  loadFonts() {
    const font = getComputedStyle(this.root).getPropertyValue("--st-font");
    for (const weight of font ? [400, 600, 700] : []) document.fonts.load(`${weight} 28px ${font}`);
  }

  show(state, glides) {
    this.screen.show(state, glides);
    this.black.hidden = !state.isBlack;
    this.curtain.hidden = !state.isEnded;
    this.said.hidden = !isLast(this.data.scenes, state); // what was said closes the talk
    history.replaceState(history.state, "", `${location.pathname}${location.search}#${placeText(state)}`);
  }

  goToSpeaker() {
    const url = this.speakerUrl();
    const opened = url && window.open(url, `speaker ${this.data.id}`, "popup,width=1200,height=760");
    if (opened) this.presenter.link.windows.add(opened);
  }

  listenToSwipes() {
    const options = { signal: this.listening.signal, passive: true };
    const on = (name, listener) => this.root.addEventListener(name, listener, options);
    let touch = null;
    on("touchstart", ({ touches }) => (touch = touches.length === 1 ? touches[0] : null));
    on("touchend", ({ changedTouches: [end] }) => {
      if (!touch) return;
      const [across, down] = [end.clientX - touch.clientX, end.clientY - touch.clientY];
      if (Math.abs(across) > Math.max(SWIPE, Math.abs(down))) this.does(across < 0 ? "next" : "back");
    });
  }
}
