import assert from "node:assert/strict";
import { test } from "node:test";
import { Track } from "../../../../viz/player/js/run/timeline.js";
import { Transport } from "../../../../viz/player/js/run/transport.js";

// A player of ten positions on a clock of the test: `pass(ms)` runs the frames and timers that fall due.
function made() {
  let [now, frame, timer] = [0, null, null];
  performance.now = () => now;
  Object.assign(globalThis, {
    requestAnimationFrame: (callback) => (frame = callback),
    cancelAnimationFrame: () => (frame = null),
    setTimeout: (callback, ms) => (timer = { callback, due: now + ms }),
    clearTimeout: () => (timer = null),
  });
  const pass = (ms) => {
    for (const end = now + ms; now < end;) {
      now = Math.min(now + 16, end);
      const callback = frame;
      frame = null;
      callback?.(now);
      if (timer && timer.due <= now) {
        const { callback: ring } = timer;
        timer = null;
        ring();
      }
    }
  };
  const log = [];
  const owner = Object.fromEntries(
    ["draw", "refresh", "settled"].map((name) => [name, () => log.push(name)]),
  );
  const track = Object.assign(new Track(), {
    last: () => 10,
    clamp: (position) => Math.max(0, Math.min(10, position)),
    moved: (direction) => track.clamp(track.position + direction),
    played: (units) => Math.min(track.position + units, 10),
    tileRate: () => 0,
    tilesBetween: () => 0,
  });
  const player = new Transport(owner);
  player.use(track);
  const sleep = (ms) => (now += ms); // without a frame
  return { player, track, owner, log, pass, sleep };
}

test("playback goes at its speed, stops at the end and starts again", () => {
  const { player, track, pass } = made();
  player.speed = 4;
  player.toggle();
  pass(1008);
  assert.ok(Math.abs(track.position - 4) < 0.1);
  pass(3000);
  assert.deepEqual([track.position, player.playing], [10, false]);
  player.toggle();
  pass(320);
  assert.ok(player.playing && Math.abs(track.position - 1.28) < 0.1);
  player.toggle();
  const { position } = track;
  pass(3000);
  assert.deepEqual([track.position, player.playing], [position, false]);
});

test("a key stops playback where it goes", () => {
  const { player, track, pass } = made();
  player.toggle();
  pass(500);
  const { position } = track;
  player.action("ArrowLeft")();
  assert.deepEqual([track.position, player.playing], [position - 1, false]);
  pass(1000);
  player.action("End")();
  assert.equal(track.position, 10);
  player.action("Home")();
  assert.equal(track.position, 0);
  assert.equal(player.action("x"), undefined);
});

test("the owner hears once that a position has settled, and never while it plays", () => {
  const { player, log, pass } = made();
  const settled = () => log.filter((word) => word === "settled").length;
  player.action("ArrowRight")();
  pass(300);
  player.action("ArrowRight")();
  pass(300);
  assert.equal(settled(), 0);
  pass(200);
  assert.equal(settled(), 1);
  player.speed = 0.5;
  player.toggle();
  pass(1500);
  assert.equal(settled(), 1);
});

test("a glide takes its time, whatever the speed, and another key ends it", () => {
  const { player, track, pass } = made();
  player.glide(8, 320);
  pass(160);
  assert.equal(track.position, 4);
  pass(400);
  assert.deepEqual([track.position, player.playing], [8, false]);
  player.glide(0, 400);
  pass(100);
  player.goTo(9);
  pass(500);
  assert.equal(track.position, 9);
});

const evenly = (part) => part;

test("acts lead from place to place, each seen at its own rate, and playback goes on after the last", () => {
  const { player, track, pass } = made();
  track.tileRate = (speed) => speed;
  player.speed = 1;
  player.direct([
    { from: 0, to: 8, ms: 400, rate: () => 20, shape: evenly },
    { from: 8, to: 2, ms: 300, rate: (part) => 20 - 10 * part, shape: evenly },
  ]);
  pass(208);
  assert.deepEqual([track.position, player.rate], [4.16, 20]);
  [0, 1].forEach(() => player.action(" ")() ?? player.wind(208 / 700)); // it stands, is wound, and goes on
  pass(336);
  assert.ok(Math.abs(track.position - 5.12) < 1e-9 && Math.abs(player.rate - 15.2) < 1e-9);
  pass(656);
  assert.ok(Math.abs(track.position - 2.5) < 0.05);
  assert.deepEqual([player.rate, player.playing], [1, true]);
  player.action(" ")();
  assert.deepEqual([player.rate, player.playing], [0, false]);
});

test("a step in a film goes to the start of the next act, or of the one before, and plays on", () => {
  const { player, track, pass } = made();
  player.direct([0, 2, 4].map((from) => ({ from, to: from + 2, ms: 400, rate: () => 1, shape: evenly })));
  pass(208);
  player.action("ArrowRight")();
  assert.deepEqual([track.position, player.playing], [2, true]);
  [1, 1, 1].forEach(() => player.action("ArrowLeft")());
  assert.equal(track.position, 0);
  [1, 1, 1].forEach(() => player.action("ArrowRight")());
  assert.deepEqual([track.position, player.playing], [6, true]); // and then it plays on
});

test("what plays waits while nobody sees it", () => {
  const { player, track, pass, sleep } = made();
  player.direct([{ from: 0, to: 8, ms: 4000, rate: () => 20, shape: evenly }]);
  sleep(3000);
  pass(16);
  assert.ok(track.position < 1);
});

test("a glide over many tiles begins slowly and is seen as fast as it is", () => {
  const { player, track, pass } = made();
  track.tilesBetween = (from, to) => Math.abs(to - from);
  track.shapeOf = () => (part) => Math.min(1, part) ** 2;
  player.glide(10, 1000);
  pass(192);
  assert.ok(track.position < 1);
  const early = player.rate;
  pass(608);
  assert.ok(early > 0 && player.rate > 3 * early);
  pass(400);
  assert.deepEqual([track.position, player.rate, player.playing], [10, 0, false]);
});
