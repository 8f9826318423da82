// "What if?": the speaker picks another length, head_dim, mask or tile, the kernel runs in the app, and the
// scene goes on with what it did. Until then, and if the run fails or takes long, the scene stays as it is.

import { button, element } from "../controls/dom.js";
import { Overlay } from "./overlays.js";
import { withMovedStops } from "./scenes.js";

const ASKS_EVERY_MS = 400; // while the run is under way
const UNHEARD_MS = 2000; // then the question is asked again: the page may not have been ready for it
const SLOW_MS = 15000;
const STAYS = "The picture stays as it was.";
const NEEDS_APP = "What if? needs the app, in which kernels run. This is a file.";
const NOT_OFFERED = "with what is picked already, this takes too long here, or the kernel does not take it.";
const NOT_LIVE = "What if? has no choices here: the talk's file does not mark this scene live.";

const newId = () => Math.random().toString(36).slice(2);
const named = (key, words) => [element("kbd", {}, [String(key)]), ` ${words}`];
const keyOf = (scene, picks) => `${scene} ${JSON.stringify(picks)}`;

export class WhatIf extends Overlay {
  // `server.ask(question)` sends a question to the app, which answers through `onAnswer`; null in a file.
  // `pick(scene, picks)` makes a new state of the talk, `changed()` shows the present one again.
  constructor({ scenes, runs }, server, { pick, changed }) {
    super("what", "what if?");
    Object.assign(this, { scenes, runs, server, pick, changed, asking: null });
    this.line = element("p", { class: "fa-what-line", role: "status", hidden: "" });
    // {picks, shown} of each scene that is there, by number and picks; and of each number the one shown last
    this.there = new Map(scenes.map((shown, scene) => [keyOf(scene, {}), { picks: {}, shown }]));
    this.latest = [...this.there.values()];
    if (server) server.onAnswer = (answer) => this.hear(answer);
  }

  destroy() {
    this.leave();
    this.server?.destroy();
  }

  // The scene of a state: run here if something was picked, as soon as that run is there.
  sceneOf({ scene, picks }) {
    this.latest[scene] = this.there.get(keyOf(scene, picks[scene] ?? {})) ?? this.latest[scene];
    return this.latest[scene].shown;
  }

  // A new state: ask for what it needs.
  follow(state) {
    const { scene, beat, picks } = state;
    const isElsewhere = this.state?.scene !== scene || this.state?.beat !== beat;
    this.state = state;
    const key = keyOf(scene, this.picked);
    if (this.there.has(key)) this.leave();
    else if (this.asking?.key !== key) this.ask(key, { scene, picks: picks[scene] });
    if (isElsewhere) this.close();
  }

  get picked() {
    return this.state.picks[this.state.scene] ?? {};
  }

  ask(key, about) {
    this.forget();
    this.asking = { key, ...about, id: newId() };
    this.slow = setTimeout(() => this.fail(`The run takes longer than ${SLOW_MS / 1000} s.`), SLOW_MS);
    this.say("Running it here …");
    this.send();
  }

  send() {
    const { id, scene, picks } = this.asking;
    this.again = setTimeout(() => this.send(), UNHEARD_MS);
    this.server.ask({ id, scene, picks });
  }

  forget() {
    clearTimeout(this.slow);
    clearTimeout(this.again);
    this.asking = null;
  }

  // Nobody waits for the run any more: the app cancels it, so that it delays nothing.
  leave() {
    if (!this.asking) return;
    this.forget();
    this.server.ask({ leaves: true });
    this.say("");
  }

  hear({ id, without, waits, failed, shown }) {
    if (without && id === this.opening && this.isOpen) {
      this.without = without;
      this.build();
    }
    if (!this.asking || this.asking.id !== id) return;
    clearTimeout(this.again);
    if (waits) {
      this.again = setTimeout(() => this.send(), ASKS_EVERY_MS);
      this.say(`Running it here: ${waits} …`);
    } else if (failed) this.fail(failed);
    else {
      const { key, scene, picks } = this.asking;
      this.forget();
      this.there.set(key, { picks, shown: withMovedStops(shown, this.scenes[scene], this.runs) });
      this.say("");
      this.changed();
    }
  }

  fail(words) {
    const { scene } = this.asking;
    this.leave();
    this.say(`${words} ${STAYS}`);
    this.pick(scene, this.latest[scene].picks);
  }

  say(words) {
    this.line.textContent = words;
    this.line.hidden = !words;
  }

  toggle() {
    this.row = null; // the index of what is to be changed, once its digit was pressed
    this.live = this.scenes[this.state.scene].live;
    if (this.isOpen) this.close();
    else if (!this.server) this.say(NEEDS_APP);
    else if (!this.live.length) this.say(NOT_LIVE);
    else {
      this.say("");
      super.toggle();
      this.without = {}; // {name of a choice: numbers of values that the app does not offer}
      this.opening = newId();
      this.build();
      this.server.ask({ id: this.opening, scene: this.state.scene, picks: this.picked, opens: true });
    }
  }

  close() {
    super.close();
    if (!this.asking) this.say("");
  }

  build() {
    const rows = this.live.map(({ name, present, values }, index) => {
      const now = this.picked[name] ?? present;
      const buttons = values.map((words, at) => {
        const looks = { "aria-pressed": String(now === at), ...(this.lacks(name, at) && { disabled: "" }) };
        return button(named(at + 1, words), "", () => this.choose(index, at), looks);
      });
      const title = element("span", { class: "fa-what-name" }, named(index + 1, name));
      const chosen = index === this.row ? " fa-what-row-chosen" : "";
      const about = { class: `fa-fields fa-what-row${chosen}`, role: "group", "aria-label": name };
      return element("div", about, [title, ...buttons]);
    });
    const back = button(named(0, "as in the talk"), "", () => this.choose());
    const last = element("div", { class: "fa-fields fa-what-row" }, [back]);
    this.node.replaceChildren(element("h2", {}, ["What if?"]), ...rows, last);
  }

  lacks(name, index) {
    return this.without[name]?.includes(index);
  }

  // The first digit names what is changed, the second one its value.
  digit(figure) {
    const choice = this.live[this.row];
    const count = (choice?.values ?? this.live).length;
    const index = Number(figure) - 1;
    if (index >= count) {
      const what = choice ? `a ${choice.name}` : "what changes";
      this.say(`${figure} is not a choice: press 1 to ${count} for ${what}, 0 to go back.`);
    } else if (index < 0) this.choose();
    else if (choice && this.lacks(choice.name, index)) this.say(`${choice.values[index]}: ${NOT_OFFERED}`);
    else if (choice) this.choose(this.row, index);
    else {
      this.say("");
      this.row = index;
      this.build();
    }
  }

  // Pick a value of a choice, by their indices; without them, the scene as it is in the talk.
  choose(row, index) {
    this.close();
    const picks = { ...this.picked };
    const { name, present } = this.live[row] ?? {};
    if (index === present) delete picks[name];
    else picks[name] = index;
    this.pick(this.state.scene, row === undefined ? {} : picks);
  }
}
