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

// A probability that is neither 0 nor 1 does not look so.
export function chanceText(value) {
  if (value > 0 && value < 5e-4) return `below ${shareText(1e-3, 1)}`;
  return value < 1 && value >= 0.9995 ? `above ${shareText(0.999, 1)}` : shareText(value, 1);
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
  return boundsText([quota.at_least > low || !capped ? quota.at_least ?? low : null, capped ? quota.at_most : null], quota.unit);
}

// Bounds of which either may be missing.
export function boundsText([low, high], unit = null) {
  const parts = [["\u2265", low], ["\u2264", high]].filter(([, value]) => value !== null);
  return parts.map(([sign, value]) => `${sign} ${bound(value, unit)}`).join(", ");
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

// Long names lose their middle: beginnings are often the same, and ends say which is which.
export function shortened(text, length = 22) {
  const letters = [...text];
  if (letters.length <= length) return text;
  const end = Math.floor((length - 1) / 2);
  return `${letters.slice(0, length - 1 - end).join("").trimEnd()}\u2026${end ? letters.slice(-end).join("").trimStart() : ""}`;
}

// Names with less of what they begin with in common, where their short forms are the same.
export function toldApart(names, short) {
  const texts = names.map((name) => short(name));
  for (const text of new Set(texts)) {
    const same = texts.map((_, k) => k).filter((k) => texts[k] === text);
    const [first, ...others] = [...new Set(same.map((k) => names[k]))];
    if (!others.length) continue;
    let common = [...first].findIndex((letter, at) => others.some((other) => other[at] !== letter));
    while (common > 0 && /[\p{L}\p{N}]/u.test(first[common - 1])) common -= 1; // whole words
    if (common < 2) continue;
    const without = (k, head) => `${names[k].slice(0, head).trimEnd()}\u2026${names[k].slice(common)}`;
    let head = common - 1; // others may differ in what is left out here alone, so as much of it stays as fits
    while (head > 0 && same.some((k) => short(without(k, head)) !== without(k, head))) head -= 1;
    for (const k of same) texts[k] = short(without(k, head));
  }
  return texts;
}
