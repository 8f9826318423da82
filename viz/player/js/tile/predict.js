// Predict m, alpha and l of the next step, then reveal them. Learn judges typed answers; here one only looks.

import { button, element } from "../controls/dom.js";
import { scoresOf, softmaxState } from "../run/figure.js";
import { difference, formatSteady, inDigits } from "../run/formats.js";
import { isInPart } from "../run/model.js";
import { rescaleWords } from "../run/sentences.js";

const number = formatSteady;
const exact = (value) => inDigits(value, 4); // what the reader counts with, for an answer of three digits
const REMINDER = "The next phase shows the answer: “Show me” it first, or go to the “Next tile”.";

export class Predict {
  constructor(next) {
    this.given = element("div", { class: "fa-given" });
    this.truth = element("div", { class: "fa-truth", role: "status" });
    this.showMe = button("Show me", "show m, α and l", () => this.reveal());
    const nextTile = button("Next tile", "the next tile of these rows", next);
    const looks = { class: "fa-panel fa-predict", role: "group", "aria-label": "predict", hidden: "" };
    this.node = element("div", looks, [
      this.given,
      element("div", { class: "fa-fields" }, [this.showMe, nextTile]),
      this.truth,
    ]);
  }

  // `task` is {model, step, row, name}, or null to hide it. Another task is not answered yet.
  show(task) {
    this.node.hidden = !task;
    if (["model", "step", "row"].every((name) => task?.[name] === this.task?.[name])) return;
    this.task = task;
    this.truth.replaceChildren();
    this.isAnswered = false; // whether the reader has asked for the answer
    if (!task) return;
    const { model, step, row, name } = task;
    const state = softmaxState(model, step, row);
    const scores = scoresOf(model, step, row).filter(Number.isFinite); // without those that are hidden
    const isPart = isInPart(model, step);
    Object.assign(this, { state, scores, isPart });
    const so = `Row ${name} so far${isPart ? " in this part" : ""}: `;
    const old = `m = ${exact(state.oldM)}, l = ${exact(state.oldL)}. `;
    this.given.textContent = `${so}${old}${scoresWords(scores)} What are m, α and l after this tile?`;
  }

  remind() {
    this.truth.textContent ||= REMINDER;
    this.showMe.focus();
  }

  reveal() {
    this.isAnswered = true;
    const { state, scores, isPart } = this;
    const found = `m = ${number(state.m)}, α = ${number(state.alpha)}, l = ${number(state.l)}`;
    this.truth.replaceChildren(element("div", {}, [`${found}. ${solution(state, scores, isPart)}`]));
  }
}

const MOST_LISTED = 16; // scores; of more the sum of the exponentials is given, which nobody adds up by hand

function scoresWords(scores) {
  if (!scores.length) return "All its scores in this tile are −∞.";
  if (scores.length <= MOST_LISTED) return `Its scores in this tile: ${scores.map(exact).join(", ")}.`;
  const largest = Math.max(...scores);
  const shown = number(largest);
  return (
    `The largest of its ${scores.length} scores in this tile is ${shown}, and all e^(score − ${shown}) ` +
    `add up to ${number(sumOf(scores, largest))}.`
  );
}

function solution(state, scores, isPart) {
  const { oldM, m } = state;
  const keys = isPart ? "key of this part" : "key";
  if (m === -Infinity) return `The row has seen no ${keys} so far: m stays −∞, and l and O stay 0.`;
  const largest = Math.max(...scores);
  const isOff = scores.length > MOST_LISTED && largest < m; // the sum was given against another max
  const given = isOff && `${number(sumOf(scores, largest))} × e^(${difference(largest, m)})`;
  const { factor, summed } = rescaleWords(state, given);
  return `m is the larger of ${number(oldM)} and ${number(largest)}. ${factor}, l = ${summed}.`;
}

const sumOf = (scores, max) => scores.reduce((sum, score) => sum + (Math.exp(score - max) || 0), 0);
