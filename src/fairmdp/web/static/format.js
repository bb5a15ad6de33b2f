// Numbers as people read them.

const MINUS = "\u2212";
export const EXACT = 1e-9; // a share this close to its bound meets it exactly

const signless = (text) => text.replace("-", MINUS);

export function gainText(value) {
  if (value === null || value === undefined) return "\u2013";
  return signless(Math.abs(value) < 1000 ? value.toFixed(6) : value.toPrecision(9));
}

export function shareText(value, digits = 2) {
  if (value === null || value === undefined) return "\u2013";
  return `${signless((100 * value).toFixed(digits))}\u202f%`;
}

export function slackText(value) {
  if (value === null || value === undefined) return "\u2013";
  if (Math.abs(value) <= EXACT) return "0";
  const sign = value > 0 ? "+" : MINUS;
  const size = 100 * Math.abs(value);
  return `${sign}${size >= 0.005 ? size.toFixed(2) : size.toExponential(1)}\u202f%`;
}

export function priceText(value) {
  if (value === null || value === undefined || Math.abs(value) <= EXACT) return "\u2013";
  return signless(value.toFixed(4));
}

export function askedText(quota) {
  const low = quota.at_least > 0 || quota.at_most >= 1 || quota.at_most === null;
  const parts = low ? [`\u2265 ${bound(quota.at_least ?? 0)}`] : [];
  if (quota.at_most !== null && quota.at_most < 1) parts.push(`\u2264 ${bound(quota.at_most)}`);
  return parts.join(", ");
}

export function bound(value) {
  return `${Number((100 * value).toFixed(4))}\u202f%`;
}

export function countText(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

export function shortened(text, length = 22) {
  const letters = [...text];
  return letters.length > length ? `${letters.slice(0, length - 1).join("")}\u2026` : text;
}
