// One slider per bound of a quota, with the range that can be met marked on its track.
import { el, fill } from "./dom.js";
import { bound, shareText } from "./format.js";

const MOST = 40; // quotas on the page at a time; more are found by name
const SCALES = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1];
const STEPS = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005];

export class Sliders {
  constructor(list, filter, moved) {
    this.list = list;
    this.filter = filter;
    this.moved = moved; // called with (k, side, value)
    this.rows = new Map();
  }

  open(problem, ranges) {
    this.quotas = problem.quotas;
    this.ranges = new Map(ranges.map((range) => [range.k, range]));
    this.values = { at_least: problem.quotas.map((q) => q.at_least ?? 0), at_most: problem.quotas.map((q) => q.at_most ?? 1) };
    this.scales = problem.quotas.map((q, k) => this.scaleOf(q, k));
    const many = problem.quotas.length > MOST;
    this.filter.hidden = !many;
    if (many) {
      const input = el("input", { id: "find", type: "search", on: { input: () => this.show(input.value) } });
      fill(this.filter, el("label", { for: "find", class: "small muted" }, `Find one of ${problem.quotas.length} quotas`), input);
    }
    this.show("");
  }

  scaleOf(quota, k) {
    if (quota.at_most !== null) return 1;
    const most = Math.max(quota.at_least ?? 0, this.ranges.get(k)?.most ?? 1);
    return SCALES.find((scale) => scale >= Math.min(1, 1.15 * most));
  }

  show(words) {
    const wanted = words.toLowerCase();
    const shown = this.quotas.map((_, k) => k).filter((k) => this.quotas[k].name.toLowerCase().includes(wanted)).slice(0, MOST);
    this.rows.clear();
    fill(this.list, ...shown.map((k) => this.row(k)));
    if (!shown.length) fill(this.list, el("li", { class: "muted" }, this.quotas.length ? "No quota has such a name." : "This problem has no quotas."));
    this.update();
  }

  row(k) {
    const quota = this.quotas[k];
    const sides = [...(quota.at_least !== null ? ["at_least"] : []), ...(quota.at_most !== null ? ["at_most"] : [])];
    const got = el("span", { class: "got", id: `got-${k}` });
    const controls = sides.map((side) => this.control(k, side));
    this.rows.set(k, { got, controls });
    return el("li", { class: "quota" },
      el("div", { class: "quota-head" }, el("span", { class: "name" }, quota.name), got),
      quota.counts === `state ${quota.name}` ? null : el("span", { class: "counts muted small" }, quota.counts),
      ...controls.map((control) => control.node));
  }

  control(k, side) {
    const name = this.quotas[k].name;
    const words = side === "at_least" ? "at least" : "at most";
    const scale = this.scales[k];
    const step = STEPS.find((size) => size >= scale / 200) ?? 0.005;
    const id = `${side}-${k}`;
    const slider = el("input", { id, type: "range", min: 0, max: scale, step, "aria-describedby": `reach-${id}`,
      on: { input: () => this.move(k, side, slider.valueAsNumber) } });
    const number = el("input", { type: "number", min: 0, max: 100, step: "any", id: `number-${id}`, inputmode: "decimal",
      "aria-label": `${name}, ${words}, in percent`,
      on: { change: () => {
        const value = Number.isNaN(number.valueAsNumber) ? this.values[side][k] : number.valueAsNumber / 100;
        this.move(k, side, Math.round(1e12 * Math.min(1, Math.max(0, value))) / 1e12);
      } } });
    const reach = el("span", { class: "reach muted small", id: `reach-${id}` });
    const node = el("div", { class: "control" },
      el("label", { for: id, class: "small muted" }, words, el("span", { class: "hidden" }, ` for ${name}`)),
      el("span", { class: "field" }, number, el("span", { "aria-hidden": "true" }, "%")), slider, reach);
    return { k, side, node, slider, number, reach };
  }

  move(k, side, value) {
    const other = side === "at_least" ? "at_most" : "at_least";
    this.values[side][k] = value;
    if (this.values.at_least[k] > this.values.at_most[k]) this.values[other][k] = value;
    this.update();
    this.moved(k, side);
  }

  set(atLeast, atMost) {
    this.values = { at_least: [...atLeast], at_most: [...atMost] };
    this.update();
  }

  setRanges(ranges) {
    for (const range of ranges) this.ranges.set(range.k, range);
    this.update();
  }

  setShares(quotas) {
    for (const [k, { got }] of this.rows) got.textContent = quotas[k]?.share == null ? "" : `gets ${shareText(quotas[k].share)}`;
  }

  update() {
    for (const { controls } of this.rows.values()) for (const control of controls) this.place(control);
  }

  place({ k, side, slider, number, reach }) {
    const value = this.values[side][k];
    const range = this.ranges.get(k);
    const limit = side === "at_least" ? range?.most : range?.least;
    const ok = limit == null || (side === "at_least" ? value <= limit + 1e-9 : value >= limit - 1e-9);
    slider.value = value;
    number.value = Number((100 * value).toFixed(8));
    const words = limit == null ? (range ? "the other quotas cannot be met" : "")
      : side === "at_least" ? `up to ${shareText(limit)} can be met` : `not below ${shareText(limit)}`;
    reach.textContent = words;
    reach.classList.toggle("beyond", !ok);
    slider.setAttribute("aria-valuetext", `${bound(value)}${words ? `, ${words}` : ""}`);
    const part = limit == null ? 0 : Math.min(1, Math.max(0, limit / this.scales[k]));
    slider.style.setProperty("--from", side === "at_least" ? "0%" : `${100 * part}%`);
    slider.style.setProperty("--to", side === "at_least" && limit != null ? `${100 * part}%` : "100%");
    slider.classList.toggle("unknown", limit == null);
  }
}
