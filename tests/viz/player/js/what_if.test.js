// The stage's side of "What if?", with a server that answers when the test says so.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WhatIf } from "../../../../viz/player/js/talk/what_if.js";

// As much of a page as the panel needs: nothing is drawn.
const node = () => {
  const made = { hidden: true, textContent: "", classList: { toggle: () => {} } };
  for (const name of ["append", "replaceChildren", "setAttribute", "addEventListener", "scrollIntoView"])
    made[name] = () => {};
  return made;
};
globalThis.document = { createElement: node, createElementNS: (_, tag) => node(tag) };

function opened({ isFile = false } = {}) {
  const live = [
    { name: "length", values: ["1", "2"], present: 1 },
    { name: "mask", values: ["a", "b"], present: 0 },
  ];
  const scenes = [
    { title: "zero", live },
    { title: "one", live: [] },
  ];
  const stage = { asked: [], opened: [], state: { scene: 0, beat: 0, picks: {} }, changes: 0 };
  const ask = (question) => stage[question.opens ? "opened" : "asked"].push(question);
  const server = { ask, destroy: () => {} };
  const what = new WhatIf({ scenes, runs: {} }, isFile ? null : server, {
    pick: (scene, picks) => stage.go({ picks: { ...stage.state.picks, [scene]: picks } }),
    changed: () => {
      stage.changes += 1;
      stage.shown();
    },
  });
  stage.what = what;
  stage.shown = () => what.sceneOf(stage.state).title;
  stage.go = (change) => {
    stage.state = { ...stage.state, ...change };
    what.follow(stage.state);
    return stage.shown();
  };
  stage.press = (...digits) => {
    what.toggle();
    digits.forEach((digit) => what.digit(digit));
  };
  stage.lacks = (without) => server.onAnswer({ id: stage.opened.at(-1).id, without });
  stage.answer = (said, at = stage.asked.length - 1) => server.onAnswer({ id: stage.asked[at].id, ...said });
  stage.says = () => !what.line.hidden;
  stage.go({});
  return stage;
}

// With a stage that asks again and again until it is answered or left.
function withStage(name, check, options) {
  test(name, () => {
    const stage = opened(options);
    check(stage);
    stage.what.destroy();
  });
}

const ran = (title) => ({ shown: { title } });

withStage("two digits ask and the scene changes with the answer", (stage) => {
  stage.press("1", "1");
  assert.deepEqual([stage.asked[0].scene, stage.asked[0].picks], [0, { length: 0 }]);
  assert.deepEqual([stage.shown(), stage.what.isOpen, stage.says()], ["zero", false, true]);
  stage.answer({ waits: "running" });
  assert.ok(stage.what.line.textContent.includes("running"));
  stage.answer(ran("run here"));
  assert.deepEqual([stage.shown(), stage.says(), stage.changes], ["run here", false, 1]);
});

withStage("picks add up, 0 takes all of them back, and what was run is not asked for again", (stage) => {
  stage.press("1", "1");
  stage.answer(ran("first"));
  stage.press("2", "2");
  stage.answer(ran("second"));
  assert.deepEqual([stage.asked[1].picks, stage.shown()], [{ length: 0, mask: 1 }, "second"]);
  stage.press("1", "2"); // the scene's own length
  stage.answer(ran("third"));
  assert.deepEqual([stage.asked[2].picks, stage.shown()], [{ mask: 1 }, "third"]);
  stage.press("0");
  assert.equal(stage.shown(), "zero");
  stage.press("1", "1");
  assert.deepEqual([stage.asked.length, stage.shown()], [3, "first"]);
});

withStage("a value that the app does not offer beside what is picked is not asked for", (stage) => {
  stage.press("1");
  stage.lacks({ length: [0], mask: [] });
  stage.what.digit("1");
  assert.deepEqual([stage.asked, stage.what.isOpen, stage.says()], [[], true, true]);
  stage.press("1", "1"); // closed by its key
  stage.press("1", "1"); // opened anew, and not answered yet
  assert.equal(stage.asked.length, 1);
});

withStage("after a failure the last picture stays, with its picks", (stage) => {
  stage.press("1", "1");
  stage.answer({ failed: "No memory." });
  assert.deepEqual([stage.shown(), stage.state.picks[0], stage.says()], ["zero", {}, true]);
  assert.ok(stage.what.line.textContent.startsWith("No memory. "));
  stage.press("1", "1");
  stage.answer(ran("first"));
  stage.press("2", "2");
  stage.answer({ failed: "No memory." });
  assert.deepEqual([stage.shown(), stage.state.picks[0]], ["first", { length: 0 }]);
});

withStage("a scene that is left gives its question up, and asks again when it comes back", (stage) => {
  stage.press("1", "1");
  stage.go({ beat: 1 });
  assert.equal(stage.asked.length, 1);
  stage.go({ scene: 1, beat: 0 });
  assert.deepEqual([stage.asked.at(-1), stage.says()], [{ leaves: true }, false]);
  stage.answer(ran("too late"), 0);
  stage.answer({ failed: "of nobody's question" });
  assert.deepEqual([stage.shown(), stage.changes, stage.says()], ["one", 0, false]);
  assert.equal(stage.go({ scene: 0 }), "zero");
  assert.deepEqual([stage.asked.at(-1).picks, stage.says()], [{ length: 0 }, true]);
});
