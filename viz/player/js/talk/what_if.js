// "What if?": the speaker picks another length, head_dim, mask or tile, the kernel runs in the app, and the
// scene goes on with what it did. Until then the scene stays as it is; it also stays if the run fails or
// takes long.

import { button, element } from "../controls/dom.js";
import { Overlay } from "./overlays.js";
import { withMovedStops } from "./scenes.js";

const ASKS_EVERY_MS = 400; // while the run is under way
const UNHEARD_MS = 2000; // then the question is asked again: the page may not have been ready for it
const SLOW_MS = 15000;
const STAYS = "The picture stays as it was.";
const NEEDS_APP = "What if? needs the app, in which kernels run. This is a file.";
const NOT_LIVE = "What if? has no choices here: the talk's file does not mark this scene live.";

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
    const picked = picks[scene] ?? {};
    const key = keyOf(scene, picked);
    if (this.there.has(key)) this.leave();
    else if (this.asking?.key !== key) this.ask({ key, scene, picks: picked });
    if (isElsewhere) this.close();
  }

  // --- asking the app, which gives an older question up for a new one ---

  ask({ key, scene, picks }) {
    this.forget();
    const id = Math.random().toString(36).slice(2);
    this.asking = { key, scene, picks, question: { id, scene, picks } };
    this.slow = setTimeout(() => this.fail(`The run takes longer than ${SLOW_MS / 1000} s.`), SLOW_MS);
    this.say("Running it here …");
    this.send();
  }

  send() {
    this.again = setTimeout(() => this.send(), UNHEARD_MS);
    this.server.ask(this.asking.question);
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

  hear({ id, waits, failed, shown }) {
    const { asking } = this;
    if (!asking || asking.question.id !== id) return;
    clearTimeout(this.again);
    if (waits) {
      this.again = setTimeout(() => this.send(), ASKS_EVERY_MS);
      this.say(`Running it here: ${waits} …`);
    } else if (failed) this.fail(failed);
    else {
      const { key, scene, picks } = asking;
      this.forget();
      this.there.set(key, { picks, shown: withMovedStops(shown, this.scenes[scene], this.runs) });
      this.say("");
      this.changed();
    }
  }

  // What was picked is taken back.
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

  // --- the panel ---

  toggle() {
    const { live } = this.scenes[this.state.scene];
    if (this.isOpen) this.close();
    else if (!this.server) this.say(NEEDS_APP);
    else if (!live.length) this.say(NOT_LIVE);
    else {
      this.say("");
      this.row = null;
      this.build(live);
      this.node.hidden = false;
    }
  }

  close() {
    super.close();
    if (!this.asking) this.say("");
  }

  build(live) {
    const picked = this.state.picks[this.state.scene] ?? {};
    this.rows = live.map((choice, index) => {
      const values = choice.values.map((words, at) => {
        const isPressed = (picked[choice.name] ?? choice.present) === at;
        const pressed = { "aria-pressed": String(isPressed) };
        return button(named(at + 1, words), "", () => this.choose(choice, at), pressed);
      });
      const name = element("span", { class: "fa-what-name" }, named(index + 1, choice.name));
      const row = { class: "fa-what-row", role: "group", "aria-label": choice.name };
      return element("div", row, [name, ...values]);
    });
    const back = button(named(0, "as in the talk"), "", () => this.choose(null));
    this.node.replaceChildren(
      element("h2", {}, ["What if?"]),
      ...this.rows,
      element("div", { class: "fa-what-row" }, [back]),
    );
  }

  // The first digit names what is changed, the second one its value.
  digit(figure) {
    const { live } = this.scenes[this.state.scene];
    const choice = live[this.row];
    const options = choice?.values ?? live;
    const index = Number(figure) - 1;
    if (index < 0) this.choose(null);
    else if (index >= options.length) {
      const what = choice ? `a ${choice.name}` : "what changes";
      this.say(`${figure} is not a choice: press 1 to ${options.length} for ${what}, 0 to go back.`);
    } else if (choice) this.choose(choice, index);
    else {
      this.say("");
      this.row = index;
      this.rows.forEach((row, at) => row.classList.toggle("fa-what-row-chosen", at === index));
    }
  }

  choose(choice, index) {
    const { scene, picks } = this.state;
    this.close();
    const { [choice?.name]: _, ...others } = choice ? (picks[scene] ?? {}) : {};
    const isOwn = !choice || choice.present === index;
    this.pick(scene, isOwn ? others : { ...others, [choice.name]: index });
  }
}
