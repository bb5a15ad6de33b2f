// Numbers as people read them. A quota with weights has a scale of its own, `unit`, from its smallest weight to its
// largest; the others are shares of time.

const MINUS = "\u2212";
export const EXACT = 1e-9; // a share this close to its bound meets it exactly

const signless = (text) => text.replace("-", MINUS);

export function ends(quota) {
  return quota.unit ?? [0, 1];
}

export function span(unit) {
  return unit ? unit[1] - unit[0] : 1;
}

export function gainText(value) {
  if (value === null || value === undefined) return "\u2013";
  return signless(Math.abs(value) < 1000 ? value.toFixed(6) : value.toPrecision(9));
}

export function shareText(value, digits = 2) {
  if (value === null || value === undefined) return "\u2013";
  return `${signless((100 * value).toFixed(digits))}\u202f%`;
}

export function valueText(value, unit) {
  if (!unit || value === null || value === undefined) return shareText(value);
  return signless(inUnits(value, unit));
}

function inUnits(value, unit) {
  const size = Math.log10(span(unit));
  return size > -4 && size < 9 ? value.toFixed(Math.max(0, 4 - Math.floor(size))) : value.toPrecision(6);
}

export function slackText(value, unit = null) {
  if (value === null || value === undefined) return "\u2013";
  if (Math.abs(value) <= EXACT * span(unit)) return "0";
  const sign = value > 0 ? "+" : MINUS;
  if (unit) return `${sign}${inUnits(Math.abs(value), unit)}`;
  const size = 100 * Math.abs(value);
  return `${sign}${size >= 0.005 ? size.toFixed(2) : size.toExponential(1)}\u202f%`;
}

// What one percentage point more of a share costs, or one unit more of a mean.
export function priceText(value, unit = null) {
  if (value === null || value === undefined || Math.abs(value) * span(unit) <= EXACT) return "\u2013";
  const price = unit ? value : value / 100;
  return signless(Math.abs(price) < 0.01 ? price.toPrecision(3) : price.toFixed(4));
}

export function askedText(quota) {
  const [low, high] = ends(quota);
  const capped = quota.at_most !== null && quota.at_most < high;
  const parts = quota.at_least > low || !capped ? [`\u2265 ${bound(quota.at_least ?? low, quota.unit)}`] : [];
  if (capped) parts.push(`\u2264 ${bound(quota.at_most, quota.unit)}`);
  return parts.join(", ");
}

export function bound(value, unit = null) {
  return unit ? signless(String(Number(value.toPrecision(9)))) : `${Number((100 * value).toFixed(4))}\u202f%`;
}

// Texts of the ticks of an axis, which are a step apart: all with as many digits.
export function tickTexts(values, step, percent) {
  if (percent) return tickTexts(values.map((value) => 100 * value), 100 * step).map((text) => `${text}\u202f%`);
  const digits = -Math.floor(Math.log10(step) + 1e-9);
  const size = Math.floor(Math.log10(Math.max(...values.map(Math.abs))));
  const text = size > 6 || digits > 6 ? (value) => value.toExponential(Math.max(0, size + digits)) : (value) => value.toFixed(Math.max(0, digits));
  return values.map((value) => (value === 0 ? "0" : signless(text(value))));
}

// The smallest of 1, 2, 5, 10, 20... that is not below a number.
export function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return tidy([1, 2, 5, 10].find((part) => part * power >= least * (1 - 1e-9)) * power);
}

export function tidy(value, digits = 12) {
  return Number(value.toPrecision(digits)); // without the digits that rounding left
}

export function countText(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

export function shortened(text, length = 22) {
  const letters = [...text];
  return letters.length > length ? `${letters.slice(0, length - 1).join("")}\u2026` : text;
}
