// Numbers in words. viz/shared/formats.py has the same functions; a test holds these against them.

const BYTES = { TB: 1e12, GB: 1e9, MB: 1e6, kB: 1e3 };
const TIMES = { s: 1e3, ms: 1, µs: 1e-3, ns: 1e-6 };
const MOST_DIGITS = 7;
const digitsOf = (value, least) => least + Number(Math.abs(value) >= 10);

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

// So many significant digits, one more from 10 on, with the zeros at the end that formatNumber leaves out.
export function inDigits(value, least) {
  const [size, digits] = [Math.abs(value), digitsOf(value, least)];
  const plain = !Number.isInteger(value) && size >= 1e-3 && size < 1e3;
  return plain ? value.toPrecision(digits).replaceAll("-", "−") : formatNumber(value, digits);
}

export const formatSteady = (value) => inDigits(value, 3);

// The same with three decimals at most, as in a cell: all numbers of a matrix fit at one size.
export function cell(value) {
  const words = value.toFixed(3).replace("-", "−");
  return value && Math.abs(value) < 1 ? words.replace(/^−?0\.000/, "≈ 0") : formatSteady(value);
}

// The digits, `least` or more, with which numbers give the result that is shown to whoever counts again.
export function digitsFor(numbers, count, least = 3) {
  const given = (digits) => numbers.map((each) => Number(each.toPrecision(digitsOf(each, digits))));
  const isRight = (digits) => inDigits(count(...given(digits)), least) === inDigits(count(...numbers), least);
  let digits = least;
  while (digits < MOST_DIGITS && !isRight(digits)) digits++;
  return digits;
}

// "−3.53 − (−2.41)"
export const difference = (a, b, say = formatSteady) => `${say(a)} − ${b < 0 ? `(${say(b)})` : say(b)}`;

const MEANS = { Q: "queries", K: "keys", V: "values", O: "outputs", S: "scores", P: "weights" };

// "K keys"
export const meant = (name, as = name) => (MEANS[name] ? `${as} ${MEANS[name]}` : as);
