// "What if?": the speaker picks another length, head_dim, mask or tile, the kernel runs in the app, and the
// scene goes on with what it did. Until then the scene stays as it is; it also stays if the run fails or
// takes long.

import { element } from "../controls/dom.js";
import { withMovedStops } from "./scenes.js";

const ASKS_EVERY_MS = 400; // while the run is under way
const UNHEARD_MS = 2000; // then the question is asked again: the page may not have been ready for it
const SLOW_MS = 15000;
const STAYS = "The picture stays as it was.";
const NEEDS_APP = "What if? needs the app, in which kernels run. This is a file.";
const NOT_LIVE = "What if? has no choices here: the talk's file does not mark this scene live.";

const keyOf = (scene, picks) => `${scene} ${JSON.stringify(picks)}`;
const oneTo = (count) => (count > 1 ? `press 1 to ${count}` : "press 1");
const isEmpty = (picks) => !Object.keys(picks).length;

export class WhatIf {
  // `server.ask(question)` sends a question to the app, which answers through `hear`; null in a file.
  // `pick(scene, picks)` makes a new state of the talk, `changed()` shows the present one anew.
  constructor({ scenes, runs }, server, { pick, changed }) {
    Object.assign(this, { scenes, runs, server, pick, changed });
    this.node = element("div", {
      class: "fa-over fa-over-what",
      role: "dialog",
      "aria-label": "what if?",
      hidden: "",
    });
    this.line = element("p", { class: "fa-what-line", role: "status", hidden: "" });
    this.shown = new Map(); // scenes that were run here, by scene and picks
    this.latest = new Map(); // which of them is shown now, by the number of the scene
    this.asking = null;
    if (server) server.onAnswer = (answer) => this.hear(answer);
  }

  destroy() {
    this.leave();
    this.server?.destroy();
  }

  // The scene of a state: run here if something was picked, as soon as that run is there.
  sceneOf({ scene, picks }) {
    const picked = picks[scene] ?? {};
    if (isEmpty(picked)) this.latest.delete(scene);
    const here = this.shown.get(keyOf(scene, picked));
    if (here) this.latest.set(scene, here);
    return this.latest.get(scene) ?? this.scenes[scene];
  }

  // A new state: ask for what it needs.
  follow(state) {
    const { scene, beat, picks } = state;
    const isElsewhere = this.state?.scene !== scene || this.state?.beat !== beat;
    this.state = state;
    if (this.asking && this.asking.scene !== scene) this.leave(); // asked anew if the talk comes back
    if (isElsewhere) this.close();
    const picked = picks[scene] ?? {};
    const key = keyOf(scene, picked);
    if (isEmpty(picked) || this.shown.has(key)) {
      this.leave();
    } else if (this.asking?.key !== key) this.ask(key, scene, picked);
  }

  // --- asking the app ---

  ask(key, scene, picks) {
    this.forget();
    const id = Math.random().toString(36).slice(2);
    this.asking = { key, scene, question: { id, scene, picks } };
    this.slow = setTimeout(() => this.fail(`The run takes longer than ${SLOW_MS / 1000} s.`), SLOW_MS);
    this.say("Running it here …");
    this.send();
  }

  send() {
    this.server.ask(this.asking.question);
    this.again = setTimeout(() => this.send(), UNHEARD_MS);
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
      this.forget();
      this.shown.set(asking.key, withMovedStops(shown, this.scenes[asking.scene], this.runs));
      this.say("");
      this.changed();
    }
  }

  // What was picked is taken back.
  fail(words) {
    const { scene } = this.asking;
    this.leave();
    this.say(`${words} ${STAYS}`);
    const before = [...this.shown].find(([, each]) => each === this.latest.get(scene))?.[0];
    this.pick(scene, before ? JSON.parse(before.slice(before.indexOf(" "))) : {});
  }

  say(words) {
    this.line.textContent = words;
    this.line.hidden = !words;
  }

  // --- the panel ---

  get isOpen() {
    return !this.node.hidden;
  }

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
    this.node.hidden = true;
    if (!this.asking) this.say("");
  }

  build(live) {
    const picked = this.state.picks[this.state.scene] ?? {};
    const value = (choice, words, index) => {
      const isPressed = (picked[choice.name] ?? choice.present) === index;
      const attributes = {
        type: "button",
        "aria-pressed": String(isPressed),
        onclick: () => this.choose(choice, index),
      };
      return element("button", attributes, [element("kbd", {}, [String(index + 1)]), ` ${words}`]);
    };
    this.rows = live.map((choice, index) => {
      const name = element("span", { class: "fa-what-name" }, [
        element("kbd", {}, [String(index + 1)]),
        ` ${choice.name}`,
      ]);
      const values = choice.values.map((words, at) => value(choice, words, at));
      return element("div", { class: "fa-what-row", role: "group", "aria-label": choice.name }, [
        name,
        ...values,
      ]);
    });
    const back = element("button", { type: "button", onclick: () => this.choose(null) }, [
      element("kbd", {}, ["0"]),
      " as in the talk",
    ]);
    const rows = [...this.rows, element("div", { class: "fa-what-row" }, [back])];
    this.node.replaceChildren(element("h2", {}, ["What if?"]), ...rows);
  }

  // The first digit names what is changed, the second one its value.
  digit(figure) {
    const { live } = this.scenes[this.state.scene];
    const index = Number(figure) - 1;
    const [count, what] =
      this.row === null
        ? [live.length, "what changes"]
        : [live[this.row].values.length, `a ${live[this.row].name}`];
    if (index < 0) this.choose(null);
    else if (index >= count)
      this.say(`${figure} is not a choice: ${oneTo(count)} for ${what}, 0 to go back.`);
    else if (this.row !== null) this.choose(live[this.row], index);
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
