import assert from "node:assert/strict";
import { test } from "node:test";
import { shotsOf } from "../../../../viz/player/js/save/film.js";
import { isNear } from "./given.js";

// The shots of a player that stands at 3 and plays up to 40.
function shots(speed, from, to) {
  const track = { position: 3, played: (units) => Math.min(track.position + units, 40) };
  const made = shotsOf({ transport: { track, speed } }, [from, to]);
  assert.equal(track.position, 3); // the player is where it was
  const [positions, times] = ["position", "time"].map((name) => made.shots.map((shot) => shot[name]));
  return { ...made, positions, times };
}

test("a film has 30 pictures a second from its start to its end, and the last one stands", () => {
  const { positions, times, duration } = shots(4, 2, 6);
  assert.deepEqual([positions[0], positions.at(-1)], [2, 6]);
  positions.slice(1).forEach((each, i) => assert.ok(each > positions[i]));
  assert.ok(isNear(positions[15], 2 + 4 * 0.5));
  assert.ok(times.every((time, i) => isNear(time, (i * 1000) / 30)));
  assert.ok(Math.abs(duration - 2000) < 1000 / 30);
  assert.deepEqual([shots(8, 5, 5).positions, shots(8, 5, 5).duration], [[5], 1000]); // a picture that stands
  assert.equal(shots(256, 0, 40).positions.at(-1), 40);
});
