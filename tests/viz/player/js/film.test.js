import assert from "node:assert/strict";
import { test } from "node:test";
import { shotsOf } from "../../../../viz/player/js/save/film.js";
import { isNear } from "./given.js";

// The shots of a player that stands at 3 and plays up to 40.
function shots(speed, from, to, { changing = -1, ticks = 1 } = {}) {
  const track = { position: 3, ticksPerStep: 1, played: () => Math.min(track.position + ticks, 40) };
  const owner = {
    transport: { track, speed },
    get transitionMs() {
      return changing === track.position ? 500 / speed : 0;
    },
  };
  const made = shotsOf(owner, from, to);
  assert.equal(track.position, 3); // the player is where it was
  const [positions, times] = ["position", "time"].map((name) => made.shots.map((shot) => shot[name]));
  return { ...made, positions, times };
}

test("each step has its time and the last one stands", () => {
  const { positions, times, duration } = shots(4, 2, 6);
  assert.deepEqual(positions, [2, 3, 4, 5, 6]);
  assert.deepEqual(times, [0, 250, 500, 750, 1000]);
  assert.equal(duration, 2000);
  assert.equal(shots(0.5, 0, 1).duration, 4000);
  assert.deepEqual([shots(8, 5, 5).positions, shots(8, 5, 5).duration], [[5], 1000]); // a picture that stands
});

test("the span ends where it was asked to although a tick goes further", () => {
  assert.deepEqual(shots(1, 0, 7, { ticks: 3 }).positions, [0, 3, 6, 7]);
});

test("steps that are too fast for a screen are left out but never the last", () => {
  const { positions, times, duration } = shots(256, 0, 40);
  assert.ok(times.every((time, i) => i === 0 || time - times[i - 1] >= 1000 / 60 - 1e-3));
  assert.ok(positions[0] < 5);
  assert.equal(positions.at(-1), 40);
  assert.ok(isNear(duration, (40 * 1000) / 256 + 1000));
});

test("a step that changes over time has a shot for each moment", () => {
  const made = shots(2, 0, 3, { changing: 2 }).shots;
  const changing = made.filter(({ position }) => position === 2);
  const tweens = changing.map(({ tween }) => tween);
  assert.ok(changing.length > 5);
  assert.deepEqual(tweens, [...new Set(tweens)].toSorted());
  assert.deepEqual([tweens[0], tweens.at(-1)], [0, 1]);
  assert.deepEqual([changing[0].time, changing.at(-1).time], [1000, 1250]);
  assert.ok(made.every(({ position, tween }) => position === 2 || tween === 1));
});
