// What figures are made of: SVG, axes with round ticks, and marks that say what they are when they are pointed at or
// reached by keyboard. Colours are variables of app.css, so that light, dark and print need no second drawing.
import { el } from "./dom.js";
import { roundStep, shortened, tidy, toldApart } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const BETWEEN = 14; // px between two labels of an axis
const LEAST = 480; // px of a saved figure's width
const PAPER = [400, 850]; // px of a figure that is printed in half a page's width, or in all of it
const WAYS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };

const ruler = document.createElement("canvas").getContext("2d");
const tip = el("div", { class: "tip", "aria-hidden": "true", hidden: true });
const drawings = new Map(); // a figure's place -> how it is drawn for a width
const widths = new WeakMap(); // and how wide it was then
const watch = new ResizeObserver((entries) => requestAnimationFrame(() => entries.forEach(({ target }) => {
  if (target.clientWidth !== widths.get(target)) redraw(target);
})));
addEventListener("beforeprint", () => drawings.forEach((_, node) => redraw(node, PAPER[Number(node.closest(".wide") !== null)])));
addEventListener("afterprint", () => drawings.forEach((_, node) => redraw(node)));

// ---- shapes

export function shape(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    node.setAttribute(name, typeof value === "number" ? tidy(value, 6) : value);
  }
  node.append(...children);
  return node;
}

export const ink = (name) => `var(--${name})`;

export function line(x1, y1, x2, y2, colour, more = {}) {
  return shape("line", { x1, y1, x2, y2, stroke: ink(colour), ...more });
}

// Words, centred upon their height; more says where they begin, and what else is special about them.
export function words(text, x, y, more = {}) {
  return shape("text", { x, y, dy: "0.35em", fill: ink("ink"), ...more }, text);
}

export const OUTLINED = { "paint-order": "stroke", stroke: ink("surface"), "stroke-width": 4, "stroke-linejoin": "round" };

export function wide(text, size = 13) {
  ruler.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return ruler.measureText(text).width;
}

export function widest(texts, size) {
  return Math.max(0, ...texts.map((text) => wide(text, size)));
}

export function fitted(text, room, length, size) {
  while (length > 2 && wide(shortened(text, length), size) > room) length -= 1;
  return shortened(text, length);
}

// Names as long as there is room for; those that differ look different.
export function fittedAll(names, room, length, size) {
  return toldApart(names, (name) => fitted(name, room, length, size));
}

// Shapes that stand for one thing: its name and numbers, line by line, and the point they are shown at.
export function mark(label, [x, y], ...shapes) {
  return shape("g", { role: "img", class: "mark", tabindex: "-1", "aria-label": label, "data-at": `${x} ${y}` }, ...shapes);
}

// ---- axes

export function scale(from, to, first, last) {
  return (value) => first + ((value - from) / (to - from)) * (last - first);
}

// Round values from low to high as many as there is room for, which needs their texts; down an axis all are as high.
export function ticks(low, high, room, text, height = 0) {
  for (let most = Math.min(8, Math.max(2, Math.floor(room / 24))); ; most -= 1) {
    const step = roundStep((high - low) / most);
    const first = Math.ceil(low / step - 1e-9);
    const count = Math.floor(high / step + 1e-9) - first + 1;
    const values = Array.from({ length: count }, (_, k) => tidy((first + k) * step));
    const texts = text(values, step);
    if (most <= 2 || (height || widest(texts)) + BETWEEN <= (room * step) / (high - low)) return { values, texts };
  }
}

export function across({ values, texts }, at, top, bottom) {
  return values.flatMap((value, k) => [line(at(value), top, at(value), bottom, "line"),
    words(texts[k], at(value), bottom + 15, { fill: ink("muted"), "text-anchor": "middle", class: "x-tick" })]);
}

export function upward({ values, texts }, at, left, right) {
  return values.flatMap((value, k) => [line(left, at(value), right, at(value), "line"),
    words(texts[k], left - 8, at(value), { fill: ink("muted"), "text-anchor": "end", class: "y-tick" })]);
}

// ---- on the page

export function picture(width, height, ...parts) {
  return shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "font-size": 13 }, ...parts);
}

// Draw into a figure's place, by a function of its width, again whenever that changes.
export function put(node, draw) {
  if (!drawings.has(node)) listen(node);
  drawings.set(node, draw);
  redraw(node);
}

function redraw(node, width = node.clientWidth) {
  if (!node.clientWidth) return; // hidden; it is told when it is not any more
  tip.hidden = true;
  widths.set(node, node.clientWidth);
  node.replaceChildren(drawings.get(node)(width));
  node.querySelector(".mark")?.setAttribute("tabindex", "0"); // one stop of the tab key, arrows go on from there
}

function listen(node) {
  watch.observe(node);
  node.addEventListener("pointerover", ({ target }) => show(target.closest(".mark")));
  node.addEventListener("pointerleave", () => show(null));
  node.addEventListener("focusin", ({ target }) => show(target));
  node.addEventListener("focusout", () => show(null));
  node.addEventListener("keydown", (event) => {
    if (event.key === "Escape") show(null);
    const next = WAYS[event.key] && nearest([...node.querySelectorAll(".mark")], event.target, WAYS[event.key]);
    if (!next) return;
    event.preventDefault();
    event.target.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}

const place = (node) => node.dataset.at.split(" ").map(Number);

function nearest(marks, from, [right, down]) {
  const [x, y] = place(from);
  const far = marks.map((node) => {
    const [dx, dy] = [place(node)[0] - x, place(node)[1] - y];
    const ahead = right * dx + down * dy;
    return ahead > 0 ? ahead + 3 * Math.abs(right * dy + down * dx) : Infinity;
  });
  const least = Math.min(...far);
  return least < Infinity ? marks[far.indexOf(least)] : null;
}

function show(node) {
  tip.hidden = !node;
  if (!node) return;
  document.body.append(tip);
  tip.textContent = node.getAttribute("aria-label");
  const svg = node.ownerSVGElement;
  const box = svg.getBoundingClientRect();
  const [x, y] = place(node).map((value) => (value * box.width) / svg.viewBox.baseVal.width);
  const left = Math.min(box.left + x - tip.offsetWidth / 2, document.body.clientWidth - tip.offsetWidth - 8);
  const above = box.top + y - tip.offsetHeight - 12;
  tip.style.left = `${scrollX + Math.max(8, left)}px`;
  tip.style.top = `${scrollY + (above < 8 ? box.top + y + 16 : above)}px`;
}

// ---- as a file

export async function figureFile(node, format) {
  const svg = drawings.get(node)(Math.max(LEAST, node.clientWidth));
  const [width, height] = [svg.viewBox.baseVal.width, svg.viewBox.baseVal.height];
  svg.prepend(shape("rect", { width, height, fill: ink("surface") }));
  svg.setAttribute("font-family", getComputedStyle(document.body).fontFamily);
  const look = getComputedStyle(document.documentElement);
  for (const part of svg.querySelectorAll("*")) {
    for (const name of ["fill", "stroke"]) {
      const variable = part.getAttribute(name)?.match(/^var\((.*)\)$/);
      if (variable) part.setAttribute(name, look.getPropertyValue(variable[1]).trim());
    }
  }
  const file = new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
  if (format === "svg") return file;
  const image = new Image();
  image.src = URL.createObjectURL(file);
  await image.decode();
  URL.revokeObjectURL(image.src);
  const canvas = el("canvas", { width: 2 * width, height: 2 * height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}
