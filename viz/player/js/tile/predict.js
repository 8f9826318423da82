// Predict, then reveal: the reader works out m, alpha and l of the next step, and hears which part was off.

import { element } from "../controls/dom.js";
import { figureOf, matrixOf, rowOf, softmaxState } from "../run/figure.js";
import { formatSteady } from "../run/formats.js";
import { isInPart } from "../run/model.js";

const NAMES = { m: "new max m", alpha: "rescale factor α", l: "new sum l" };

const number = (value) => formatSteady(value);

export class Predict {
  // `owner` has next().
  constructor(owner) {
    this.owner = owner;
    this.given = element("div", { class: "fa-given" });
    this.inputs = Object.fromEntries(
      Object.entries(NAMES).map(([name, label]) => [
        name,
        element("input", {
          type: "text",
          inputmode: "decimal",
          size: "7",
          "aria-label": label,
          autocomplete: "off",
        }),
      ]),
    );
    this.feedback = element("div", { class: "fa-feedback", role: "status" });
    this.truth = element("div", { class: "fa-truth", role: "status" });
    this.isAnswered = false; // whether the reader has compared, or asked for the answer
    const fields = Object.entries(NAMES).map(([name, label]) =>
      element("label", {}, [`${label} `, this.inputs[name]]),
    );
    this.node = element("form", { class: "fa-predict", hidden: "" }, [
      this.given,
      element("div", { class: "fa-fields" }, [
        ...fields,
        element("button", { type: "submit", title: "compare (Enter)" }, ["Compare"]),
        button("Show me", "show m, α and l", () => this.reveal()),
        button("Next tile", "the next tile of these rows", () => this.owner.next()),
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
    const key = task ? `${task.model.data.id} ${task.step} ${task.row}` : "";
    if (key === this.key) return;
    this.key = key;
    this.task = task && { ...task, ...knownOf(task) };
    this.feedback.replaceChildren();
    this.truth.replaceChildren();
    this.isAnswered = false;
    for (const input of Object.values(this.inputs)) input.value = "";
    if (!task) return;
    const { state, scores, isPart } = this.task;
    this.given.textContent =
      `Row ${task.name} so far${isPart ? " in this part" : ""}: ` +
      `m = ${number(state.oldM)}, l = ${number(state.oldL)}. ` +
      `${scoresWords(scores)} ` +
      "What are m, α and l after this tile?";
  }

  // Why the player does not go on.
  remind() {
    if (!this.truth.childElementCount) {
      this.truth.replaceChildren(
        element("div", {}, [
          "The next phase shows the answer. Compare yours first, or press “Show me”. " +
            "“Next tile” goes on without it.",
        ]),
      );
    }
    Object.values(this.inputs)[0].focus();
  }

  compare() {
    this.isAnswered = true;
    this.truth.replaceChildren();
    const answers = Object.fromEntries(
      Object.entries(this.inputs).map(([name, input]) => [name, parseNumber(input.value)]),
    );
    const lines = judge(answers, this.task.state, this.task.scores);
    this.feedback.replaceChildren(
      ...lines.map(({ right, words }) =>
        element("div", { class: right ? "fa-right-answer" : "fa-wrong-answer" }, [words]),
      ),
    );
    if (lines.every(({ right }) => right)) this.solve();
  }

  // The answer, beside what the reader has typed and how it was judged.
  reveal() {
    if (!this.isAnswered && Object.values(this.inputs).some(({ value }) => value.trim())) this.compare();
    this.isAnswered = true;
    this.solve();
  }

  // The answer with its arithmetic.
  solve() {
    const { state, scores, isPart } = this.task;
    const found = `m = ${number(state.m)}, α = ${number(state.alpha)}, l = ${number(state.l)}`;
    const words = `${found}. ${solution(state, scores, isPart)}`;
    this.truth.replaceChildren(element("div", {}, [words]));
  }
}

const MOST_LISTED = 16; // scores; of more the sum of the exponentials is given, which nobody adds up by hand

// What the reader needs to know of the scores of a row.
function scoresWords(scores) {
  if (scores.length <= MOST_LISTED) return `Its scores in this tile: ${scores.map(number).join(", ")}.`;
  const largest = Math.max(...scores);
  if (largest === -Infinity) return `All its ${scores.length} scores in this tile are −∞.`;
  const shown = number(largest);
  return (
    `The largest of its ${scores.length} scores in this tile is ${shown}, and all e^(score − ${shown}) ` +
    `add up to ${number(sumOf(scores, largest))}.`
  );
}

function button(words, title, onclick) {
  return element("button", { type: "button", title, onclick }, [words]);
}

function knownOf({ model, step, row }) {
  const figure = figureOf(model, step);
  const isMasked = model.phases[step].some(({ tells }) => tells === "mask");
  const named = figure.matrices.find(({ name }) => name === (isMasked ? "S" : "QK^T"));
  return {
    isPart: isInPart(model, step),
    state: softmaxState(model, step, row),
    scores: rowOf(matrixOf(model, figure, named, step), model.offsets[row]),
  };
}

// The number in a text, with any minus sign and decimal comma; NaN if there is none, -Infinity for "-inf" or
// "−∞".
export function parseNumber(text) {
  const plain = text.trim().replaceAll("−", "-").replace(",", ".").toLowerCase();
  if (["-inf", "-infinity", "-∞"].includes(plain)) return -Infinity;
  return plain === "" ? NaN : Number(plain);
}

function solution({ oldM, oldL, m, l, alpha }, scores, isPart) {
  const keys = isPart ? "key of this part" : "key";
  if (m === -Infinity) return `The row has seen no ${keys} so far: m stays −∞, and l and O stay 0.`;
  const added = sumOf(scores, m);
  const factor =
    oldM === -Infinity ? "α = e^(−∞) = 0" : `α = e^(${number(oldM)} − ${number(m)}) = ${number(alpha)}`;
  const larger = `m is the larger of ${number(oldM)} and ${number(Math.max(...scores))}`;
  const sum = `l = ${number(alpha)} × ${number(oldL)} + ${number(added)} = ${number(l)}`;
  return `${larger}. ${factor}. ${sum}.`;
}

const sumOf = (scores, max) =>
  max === -Infinity ? 0 : scores.reduce((sum, score) => sum + Math.exp(score - max), 0);
const close = (a, b) => a === b || (Number.isFinite(b) && Math.abs(a - b) <= 0.015 + 0.015 * Math.abs(b));

// What is right and what is off about an answer {m, alpha, l}: [{name, right, words}].
//
// An answer that was worked out from a wrong m or alpha is judged with them too, so that one slip counts
// once.
export function judge(answer, state, scores) {
  return [judgeM(answer.m, state, scores), judgeAlpha(answer, state), judgeL(answer, state, scores)];
}

function verdict(name, right, words) {
  return { name, right, words: `${right ? "✓" : "✗"} ${NAMES[name]}: ${words}` };
}

function judgeM(m, state, scores) {
  const largest = Math.max(...scores);
  if (Number.isNaN(m)) return verdict("m", false, "give a number.");
  if (close(m, state.m)) return verdict("m", true, "right.");
  if (close(m, largest))
    return verdict(
      "m",
      false,
      "that is the largest score of this tile, but the old max is larger, and m never falls.",
    );
  if (close(m, state.oldM)) return verdict("m", false, "a score of this tile is larger than the old max.");
  if (m > Math.max(state.m, largest))
    return verdict("m", false, `nothing here is that large: the largest score so far is ${number(state.m)}.`);
  return verdict("m", false, "it is the larger of the old max and the largest score of this tile.");
}

function judgeAlpha({ m, alpha }, state) {
  if (Number.isNaN(alpha)) return verdict("alpha", false, "give a number.");
  if (close(alpha, state.alpha)) return verdict("alpha", true, "right.");
  if (state.oldM === -Infinity) return verdict("alpha", false, "the old max is −∞, and e^(−∞) is 0.");
  if (close(alpha, Math.exp(state.m - state.oldM)))
    return verdict("alpha", false, "upside down: it is e^(old max − new max), at most 1.");
  if (close(alpha, 2 ** (state.oldM - state.m)))
    return verdict("alpha", false, "that is with base 2. The numbers here are in base e.");
  if (Number.isFinite(m) && close(alpha, Math.exp(state.oldM - m)))
    return verdict("alpha", false, "right for your m, which is off.");
  return verdict("alpha", false, "it is e^(old max − new max).");
}

function judgeL({ m, alpha, l }, state, scores) {
  const { oldM, oldL } = state;
  const added = sumOf(scores, state.m);
  if (Number.isNaN(l)) return verdict("l", false, "give a number.");
  if (close(l, state.l)) return verdict("l", true, "right.");
  if (close(l, oldL + added))
    return verdict("l", false, "the old sum was not rescaled: multiply it by α first.");
  if (close(l, added)) return verdict("l", false, "the old sum is missing: add α × old l.");
  if (Number.isFinite(oldM) && close(l, state.alpha * oldL + sumOf(scores, oldM))) {
    return verdict("l", false, "the exponentials use the old max: subtract the new one.");
  }
  if (close(l, state.alpha * (oldL + added)))
    return verdict("l", false, "α belongs to the old sum alone, not to the new exponentials.");
  if (close(l, state.alpha * oldL)) return verdict("l", false, "the exponentials of this tile are missing.");
  if (close(l, alpha * oldL + sumOf(scores, m)))
    return verdict("l", false, "right for your m and α, of which one is off.");
  return verdict("l", false, "it is α × old l + the sum of e^(score − new m).");
}
