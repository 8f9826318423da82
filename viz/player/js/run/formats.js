// Numbers in words. viz/shared/formats.py has the same functions; a test holds these against them.

export const BYTES = { TB: 1e12, GB: 1e9, MB: 1e6, kB: 1e3 };
export const TIMES = { s: 1e3, ms: 1, µs: 1e-3, ns: 1e-6 };

function inUnits(value, units) {
  const all = Object.entries(units);
  const [unit, size] = all.find(([, each]) => value >= 0.9995 * each) ?? all.at(-1);
  return `${significant(value / size)} ${unit}`;
}

export const formatBytes = (count) => (count < 999.5 ? `${Math.round(count)} B` : inUnits(count, BYTES));

export const formatKib = (count) => `${significant(count / 1024, 4)} KiB`;

export const formatMs = (milliseconds) => inUnits(milliseconds, TIMES);

export function formatNumber(value, digits = 3) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  const plain = value === 0 || (size >= 1e-3 && size < 1e6);
  const text = plain ? significant(value, digits) : scientific(value, digits);
  return text.replaceAll("-", "−");
}

// `digits` significant digits without an exponent; zeros at the end are left out.
export function significant(number, digits = 3) {
  if (number === 0) return "0";
  const rounded = Number(number.toPrecision(digits));
  const whole = Math.abs(rounded) >= 10 ** (digits - 1);
  return whole ? Math.round(rounded).toLocaleString("en-US") : String(rounded);
}

// A power of ten with a sign and at least two digits, as in 4.54e-05.
function scientific(number, digits) {
  const [mantissa, exponent] = number.toExponential(digits - 1).split("e");
  return `${mantissa}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`;
}

// Words as the name of a file, without its ending: "64 × 64, head_dim 32" is 64x64-head-dim-32.
export function fileName(words) {
  return words
    .toLowerCase()
    .replaceAll(" × ", "x")
    .replace(/[^a-z0-9.]+/g, "-")
    .replace(/^-|-$/g, "");
}

// So many significant digits, with the zeros at the end that formatNumber leaves out: 2.00 is not 2.
export function inDigits(value, digits) {
  const plain = !Number.isInteger(value) && Math.abs(value) >= 1e-3 && Math.abs(value) < 1e3;
  return plain ? value.toPrecision(digits).replaceAll("-", "−") : formatNumber(value, digits);
}

const steady = (value, digits) => inDigits(value, Math.abs(value) < 10 ? digits : digits + 1);
export const formatSteady = (value) => steady(value, 3);

const MOST_DIGITS = 7;

// The digits, `least` or more, with which numbers give the result that is shown to whoever counts again.
export function digitsFor(numbers, count, least = 3) {
  const given = (digits) => numbers.map((each) => Number(each.toPrecision(digits)));
  const isRight = (digits) => steady(count(...given(digits)), least) === steady(count(...numbers), least);
  let digits = least;
  while (digits < MOST_DIGITS && !isRight(digits)) digits++;
  return digits;
}

// "−3.53 − (−2.41)"
export const difference = (a, b, digits = 3) => `${inDigits(a, digits)} − ${subtracted(b, digits)}`;

export const subtracted = (value, digits) =>
  value < 0 ? `(${inDigits(value, digits)})` : inDigits(value, digits);

const MEANS = { Q: "queries", K: "keys", V: "values", O: "outputs", S: "scores", P: "weights" };

// "K keys"
export const meant = (name, as = name) => (MEANS[name] ? `${as} ${MEANS[name]}` : as);
