import assert from "node:assert/strict";
import { test } from "node:test";
import { Span, tickWords, ticksOf } from "../../../../viz/player/js/lanes/span.js";

test("the seen span stays within the run and zooms about a time", () => {
  const seen = new Span(1000);
  seen.zoom(0.5, 250);
  assert.deepEqual([seen.from, seen.to], [125, 625]);
  seen.pan(5000);
  assert.deepEqual([seen.from, seen.to], [500, 1000]);
  seen.reveal(10, 20);
  assert.ok(seen.from <= 10 && seen.to >= 20);
  seen.zoom(100);
  assert.deepEqual([seen.from, seen.to], [0, 1000]);
});

// Blocks stay marked for long at the start of a run: a view three times as long would hide the zoom.
for (const [begin, end] of [
  [0, 100],
  [500, 2600],
  [9000, 9700],
]) {
  test(`${begin} to ${end} is seen whole and fills most of the view`, () => {
    const seen = new Span(10000);
    seen.show(begin, end);
    assert.ok(seen.from <= begin && end <= seen.to);
    assert.ok(end - begin > 0.8 * seen.length);
  });
}

test("the axis has round times, as many as fit, in the unit that suits them", () => {
  assert.deepEqual(ticksOf({ from: 90, to: 510 }, 5), { step: 100, times: [100, 200, 300, 400, 500] });
  assert.equal(tickWords(300, 100, 510), "300 ns");
  assert.equal(tickWords(3000, 1000, 9000), "3 µs");
});
