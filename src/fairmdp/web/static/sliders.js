// One slider per bound of a quota, with the range that can be met marked on its track.
import { el, fill } from "./dom.js";
import { bound, ends, roundStep, span, tidy, valueText } from "./format.js";

const MOST = 40; // quotas on the page at a time; more are found by name
const SCALES = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1];
const STEPS = [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005];

export function sides(quota) {
  return ["at_least", "at_most"].filter((side) => quota[side] !== null);
}

// Bounds of all quotas, in their units; one that is not there is the end of its scale.
export function asked(quotas) {
  return { at_least: quotas.map((q) => q.at_least ?? ends(q)[0]), at_most: quotas.map((q) => q.at_most ?? ends(q)[1]) };
}

export class Sliders {
  constructor(list, filter, moved, change) {
    this.list = list;
    this.filter = filter;
    this.moved = moved; // called with (k, side)
    this.change = change; // called with k, where a quota is to be changed by more than its bounds
    this.rows = new Map();
  }

  open(problem, ranges) {
    this.quotas = problem.quotas;
    this.ranges = new Map(ranges.map((range) => [range.k, range]));
    this.values = asked(problem.quotas);
    this.scales = problem.quotas.map((q, k) => this.scaleOf(q, k));
    const many = problem.quotas.length > MOST;
    this.filter.hidden = !many;
    if (many) {
      const input = el("input", { id: "find", type: "search", on: { input: () => this.show(input.value) } });
      fill(this.filter, el("label", { for: "find", class: "small muted" }, `Find one of ${problem.quotas.length} quotas`), input);
    }
    this.show("");
  }

  // Where a slider begins and ends, and its step. Weights rarely begin at a round number, the slider does.
  scaleOf(quota, k) {
    if (quota.unit) {
      const step = roundStep(span(quota.unit) / 200);
      const [min, max] = [Math.floor(quota.unit[0] / step), Math.ceil(quota.unit[1] / step)];
      return { min: tidy(min * step), max: tidy(max * step), step };
    }
    const most = quota.at_most !== null ? 1 : Math.max(quota.at_least ?? 0, this.ranges.get(k)?.most ?? 1);
    const max = SCALES.find((scale) => scale >= Math.min(1, 1.15 * most));
    return { min: 0, max, step: STEPS.find((size) => size >= max / 200) };
  }

  show(words) {
    const wanted = words.toLowerCase();
    const shown = this.quotas.map((_, k) => k).filter((k) => this.quotas[k].name.toLowerCase().includes(wanted)).slice(0, MOST);
    this.rows.clear();
    fill(this.list, ...shown.map((k) => this.row(k)));
    if (!shown.length && this.quotas.length) fill(this.list, el("li", { class: "muted" }, "No quota has such a name."));
    this.update();
  }

  row(k) {
    const quota = this.quotas[k];
    const got = el("span", { class: "got", id: `got-${k}` });
    const controls = (quota.fixed ? [] : sides(quota)).map((side) => this.control(k, side));
    this.rows.set(k, { got, controls });
    return el("li", { class: "quota" },
      el("div", { class: "quota-head" }, el("span", { class: "name" }, quota.name), got),
      quota.counts === `state ${quota.name}` ? null : el("span", { class: "counts muted small" }, quota.counts),
      ...controls.map((control) => control.node),
      el("button", { type: "button", class: "quiet tiny change", "aria-label": `Change ${quota.name}`, on: { click: () => this.change(k) } }, "Change"));
  }

  // The bounds of a quota that stand on the page, without those that it has not.
  standing(k) {
    const has = sides(this.quotas[k]);
    return Object.fromEntries(["at_least", "at_most"].map((side) => [side, has.includes(side) ? this.values[side][k] : null]));
  }

  control(k, side) {
    const { name, unit } = this.quotas[k];
    const [low, high] = ends(this.quotas[k]);
    const words = side === "at_least" ? "at least" : "at most";
    const { min, max, step } = this.scales[k];
    const id = `${side}-${k}`;
    const within = (value) => Math.min(high, Math.max(low, value));
    const slider = el("input", { id, type: "range", min, max, step, "aria-describedby": `reach-${id}`,
      on: { input: () => this.move(k, side, within(slider.valueAsNumber)) } });
    const field = unit ? { min: low, max: high, "aria-label": `${name}, ${words}` }
      : { min: 0, max: 100, inputmode: "decimal", "aria-label": `${name}, ${words}, in percent` };
    const number = el("input", { type: "number", step: "any", id: `number-${id}`, ...field,
      on: { change: () => {
        const typed = number.valueAsNumber;
        if (Number.isNaN(typed)) this.update();
        else this.move(k, side, within(unit ? typed : Math.round(1e10 * typed) / 1e12));
      } } });
    const reach = el("span", { class: "reach muted small", id: `reach-${id}` });
    const node = el("div", { class: "control" },
      el("label", { for: id, class: "small muted" }, words, el("span", { class: "hidden" }, ` for ${name}`)),
      el("span", { class: "field" }, number, unit ? null : el("span", { "aria-hidden": "true" }, "%")), slider, reach);
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
    for (const [k, { got }] of this.rows) got.textContent = quotas[k]?.share == null ? "" : `${quotas[k].unit ? "has" : "gets"} ${valueText(quotas[k].share, quotas[k].unit)}`;
  }

  update() {
    for (const { controls } of this.rows.values()) for (const control of controls) this.place(control);
  }

  place({ k, side, slider, number, reach }) {
    const value = this.values[side][k];
    const { unit } = this.quotas[k];
    const { min, max } = this.scales[k];
    const tiny = 1e-9 * span(unit);
    const range = this.ranges.get(k);
    const limit = side === "at_least" ? range?.most : range?.least;
    const ok = limit == null || (side === "at_least" ? value <= limit + tiny : value >= limit - tiny);
    slider.value = value;
    number.value = unit ? Number(value.toPrecision(12)) : Number((100 * value).toFixed(8));
    const words = limit == null ? (range ? "the other quotas cannot be met" : "")
      : side === "at_least" ? `up to ${valueText(limit, unit)} can be met` : `not below ${valueText(limit, unit)}`;
    reach.textContent = words;
    reach.classList.toggle("beyond", !ok);
    slider.setAttribute("aria-valuetext", `${bound(value, unit)}${words ? `, ${words}` : ""}`);
    const part = limit == null ? 0 : Math.min(1, Math.max(0, (limit - min) / (max - min)));
    slider.style.setProperty("--from", side === "at_least" ? "0%" : `${100 * part}%`);
    slider.style.setProperty("--to", side === "at_least" && limit != null ? `${100 * part}%` : "100%");
    slider.classList.toggle("unknown", limit == null);
  }
}
