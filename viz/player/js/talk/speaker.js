// The speaker's window: notes, the present scene and the next, the clock. It moves the talk too.

import { button, element } from "../controls/dom.js";
import { sum } from "../run/model.js";
import { beatsOf, isLast, moved } from "./scenes.js";
import { TalkWindow } from "./talk_window.js";

export class Speaker extends TalkWindow {
  constructor(root, data, notes) {
    root.classList.add("fa-speaker");
    super(root, { ...data, notes }, "");
    this.ticking = setInterval(() => this.tick(), 500);
  }

  goToSpeaker() {
    window.opener?.focus();
  }

  build(sceneRoot) {
    const next = element("div", { inert: "" });
    this.clock = element("span", { class: "fa-clock" });
    this.left = element("span");
    this.pace = element("span");
    this.status = element("span", { class: "fa-status", role: "status" });
    this.note = element("div", { class: "fa-note", tabindex: "0", "aria-label": "notes" });
    this.nextTitle = element("div", { class: "fa-next-title" });
    const actions = { Back: "back", Next: "next", Black: "black", Keys: "help" };
    const buttonOf = ([words, action]) => button(words, "", () => this.does(action));
    const buttons = Object.entries(actions).map(buttonOf);
    const times = element("div", { class: "fa-fields fa-times" }, [this.clock, this.left, this.pace]);
    const keys = element("div", { class: "fa-fields fa-speaker-keys" }, buttons);
    const column = { class: "fa-column" };
    const beside = [times, this.nextTitle, next, this.status, this.line, keys];
    this.root.append(element("div", column, [sceneRoot, this.note]), element("div", column, beside));
    this.next = this.makeScreen(next);
  }

  destroy() {
    clearInterval(this.ticking);
    super.destroy();
  }

  show(state, glides) {
    const { scenes, notes } = this.data;
    this.screen.show(state, glides);
    const after = moved(scenes, state, 1);
    const isEnd = isLast(scenes, state);
    this.next.root.hidden = isEnd;
    if (!isEnd) this.next.show({ ...after, open: "" });
    const next = after.scene === state.scene ? "Next stop" : "Next scene";
    this.nextTitle.textContent = isEnd ? "This is the end." : next;
    this.note.textContent = notes[state.scene].trim();
    const black = state.isBlack ? "The audience sees black." : "";
    this.status.textContent = state.isEnded ? "The audience sees the title." : black;
    this.tick();
  }

  tick() {
    const { startedAt, scene, beat } = this.presenter.state;
    const passed = startedAt ? (Date.now() - startedAt) / 1000 : 0;
    const left = this.data.minutes * 60 - passed;
    const now = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    this.clock.textContent = new Date().toLocaleTimeString([], now);
    const rest = left < 0 ? `${minutes(-left)} over` : `${minutes(left)} left`;
    this.left.textContent = `${minutes(passed)} gone, ${rest}`;
    this.left.classList.toggle("fa-late", left < 0);
    // every beat of the talk has its equal part of the minutes
    const beats = this.data.scenes.map(beatsOf);
    const done = beat + sum(beats.slice(0, scene));
    const late = passed - (this.data.minutes * 60 * (done + 1)) / sum(beats);
    this.pace.textContent = startedAt && late > 0 ? `${minutes(late)} behind` : "";
  }
}

function minutes(seconds) {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}
