// Predict, then reveal: the reader works out m, alpha and l of the next step, and hears which part was off.

import { button, element } from "../controls/dom.js";
import { scoresOf, softmaxState } from "../run/figure.js";
import { difference, formatSteady, inDigits } from "../run/formats.js";
import { isInPart } from "../run/model.js";
import { rescaleWords } from "../run/sentences.js";

const NAMES = { m: "new max m", alpha: "rescale factor α", l: "new sum l" };
const number = formatSteady;
const exact = (value) => inDigits(value, 4); // what the reader counts with, for an answer of three digits
const REMINDER =
  "The next phase shows the answer: compare yours first, “Show me” it, or go to the “Next tile”.";

export class Predict {
  constructor(next) {
    this.given = element("div", { class: "fa-given" });
    const attributes = { inputmode: "decimal", size: "7", autocomplete: "off" };
    this.inputs = Object.values(NAMES).map((label) =>
      element("input", { ...attributes, "aria-label": label }),
    );
    const fields = this.inputs.map((input) => element("label", {}, [input.ariaLabel, input]));
    this.feedback = element("div", { class: "fa-feedback", role: "status" });
    this.truth = element("div", { class: "fa-truth", role: "status" });
    this.node = element("form", { class: "fa-panel fa-predict", hidden: "" }, [
      this.given,
      element("div", { class: "fa-fields" }, [
        ...fields,
        element("button", { type: "submit", title: "compare (Enter)" }, ["Compare"]),
        button("Show me", "show m, α and l", () => this.reveal()),
        button("Next tile", "the next tile of these rows", next),
      ]),
      this.feedback,
      this.truth,
    ]);
    this.node.addEventListener("submit", (event) => {
      event.preventDefault();
      this.compare();
    });
  }

  // `task` is {model, step, row, name}, or null to hide the form. Another task clears the fields.
  show(task) {
    this.node.hidden = !task;
    if (["model", "step", "row"].every((name) => task?.[name] === this.task?.[name])) return;
    this.task = task;
    this.feedback.replaceChildren();
    this.truth.replaceChildren();
    this.isAnswered = false; // whether the reader has compared, or asked for the answer
    this.node.reset();
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
    this.inputs[0].focus();
  }

  compare() {
    this.isAnswered = true;
    this.truth.replaceChildren();
    const [m, alpha, l] = this.inputs.map(({ value }) => parseNumber(value));
    const lines = judge({ m, alpha, l }, this.state, this.scores);
    const said = lines.map(({ right, words }) =>
      element("div", { style: `color: var(--fa-${right ? "good" : "bad"})` }, [words]),
    );
    this.feedback.replaceChildren(...said);
    if (lines.every(({ right }) => right)) this.solve();
  }

  // The answer, beside what the reader has typed and how it was judged.
  reveal() {
    if (!this.isAnswered && this.inputs.some(({ value }) => value.trim())) this.compare();
    this.isAnswered = true;
    this.solve();
  }

  solve() {
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

// The number in a text, with any minus sign and decimal comma, also "-inf" and "−∞"; NaN if there is none.
export function parseNumber(text) {
  const plain = text.trim().replaceAll("−", "-").replace(",", ".").toLowerCase();
  if (["-inf", "-infinity", "-∞"].includes(plain)) return -Infinity;
  return plain === "" ? NaN : Number(plain);
}

function solution(state, scores, isPart) {
  const { oldM, m } = state;
  const keys = isPart ? "key of this part" : "key";
  if (m === -Infinity) return `The row has seen no ${keys} so far: m stays −∞, and l and O stay 0.`;
  const largest = Math.max(...scores);
  const isOff = scores.length > MOST_LISTED && largest < m; // the sum was given against another max
  const given = isOff && `${number(sumOf(scores, largest))} × e^(${difference(largest, m)})`;
  return `m is the larger of ${number(oldM)} and ${number(largest)}. ${rescaleWords(state, given)}.`;
}

const sumOf = (scores, max) => scores.reduce((sum, score) => sum + (Math.exp(score - max) || 0), 0);
const close = (a, b) => a === b || (Number.isFinite(b) && Math.abs(a - b) <= 0.015 + 0.015 * Math.abs(b));

// What is right and what is off about an answer {m, alpha, l}: [{name, right, words}]. One that follows from
// a wrong m or alpha is judged with them too, so that one slip counts once.
export function judge({ m, alpha, l }, state, scores) {
  const { oldM, oldL } = state;
  const added = sumOf(scores, state.m);
  const slipsOfM = [
    [Math.max(...scores), "that is this tile's largest score, but the old max is larger: m never falls."],
    [oldM, "a score of this tile is larger than the old max."],
  ];
  const slipsOfAlpha = [
    [Math.exp(state.m - oldM), "upside down: it is e^(old max − new max), at most 1."],
    [2 ** (oldM - state.m), "that is with base 2. The numbers here are in base e."],
    [Math.exp(oldM - m), "right for your m, which is off."],
  ];
  const slipsOfL = [
    [oldL + added, "the old sum was not rescaled: multiply it by α first."],
    [added, "the old sum is missing: add α × old l."],
    [state.alpha * oldL, "the exponentials of this tile are missing."],
    [state.alpha * oldL + sumOf(scores, oldM), "the exponentials use the old max: subtract the new one."],
    [state.alpha * (oldL + added), "α belongs to the old sum alone, not to the new exponentials."],
    [alpha * oldL + sumOf(scores, m), "right for your m and α, of which one is off."],
  ];
  return [
    verdict("m", m, state, slipsOfM, "it is the larger of the old max and the largest score of this tile."),
    verdict("alpha", alpha, state, slipsOfAlpha, "it is e^(old max − new max); e^(−∞) is 0."),
    verdict("l", l, state, slipsOfL, "it is α × old l + the sum of e^(score − new m)."),
  ];
}

// `slips` has numbers that are often given instead, and what is wrong with each; `hint` is for all others.
function verdict(name, given, state, slips, hint) {
  const right = close(given, state[name]);
  const [, slip] = slips.find(([value]) => close(given, value)) ?? [0, hint];
  const wrong = Number.isNaN(given) ? "give a number." : slip;
  return { name, right, words: right ? `✓ ${NAMES[name]}: right.` : `✗ ${NAMES[name]}: ${wrong}` };
}
