import assert from "node:assert/strict";
import { test } from "node:test";
import {
  cell,
  fileName,
  formatBytes,
  formatKib,
  formatMs,
  formatNumber,
  formatSteady,
} from "../../../../viz/player/js/run/formats.js";
import { given } from "./given.js";

const { notFinite, ...asPython } = given("formats");
const FORMATS = { fileName, formatBytes, formatKib, formatMs, formatNumber };

for (const [name, pairs] of Object.entries(asPython)) {
  test(`${name} writes as Python does`, () => {
    const written = pairs.map(([value]) => [value, FORMATS[name](value)]);
    assert.deepEqual(written, pairs);
  });
}

test("what is not a number is written as Python writes it", () => {
  assert.deepEqual(
    [NaN, Infinity, -Infinity].map((value) => formatNumber(value)),
    notFinite,
  );
});

test("zeros at the end are kept where numbers stand below each other, and from 10 on one digit more", () => {
  const written = [1.9996, 1, -0.5, 0.03004, 0, 12345.6].map(formatSteady);
  assert.deepEqual(written, ["2.00", "1", "−0.500", "0.0300", "0", "12,350"]);
  assert.deepEqual([-1.3742, 1, 0.00996, -4e-5].map(cell), ["−1.37", "1", "0.010", "≈ 0"]);
});
