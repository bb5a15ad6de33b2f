// A quota added, renamed, bounded otherwise or removed: one dialog, whose mistakes are said in it.
import { el, fill } from "./dom.js";
import { countText, ends } from "./format.js";

const REST = 150; // ms without typing, after which states are looked for

export class QuotaEditor {
  constructor(dialog, { find, save }) {
    this.dialog = dialog;
    this.find = find; // text -> states that it chooses
    this.save = save; // (row or null for none, number of the quota or null for a new one) -> promise
  }

  add(suggested) {
    this.picked = new Map(); // number of a state -> its name
    this.named = false; // by hand
    this.open({ k: null, title: "Add a quota", name: "", unit: null, at_least: suggested, at_most: null });
    this.look("");
  }

  change(k, quota, bounds) {
    this.picked = null;
    this.open({ k, title: `Change ${quota.name}`, name: quota.name, unit: quota.unit, fixed: quota.fixed, ...bounds });
  }

  open({ k, title, name, unit, fixed, at_least, at_most }) {
    this.unit = unit;
    this.name = el("input", { id: "quota-name", value: name, required: true, maxlength: 200, autocomplete: "off",
      on: { input: () => { this.named = true; } } });
    this.bounds = { at_least: this.number("at_least", at_least), at_most: this.number("at_most", at_most) };
    this.said = el("p", { id: "quota-said", class: "down", role: "alert" });
    const field = (id, label, ...inputs) => el("div", {}, el("label", { for: id }, label), ...inputs);
    const more = unit ? "" : ", in percent";
    const cancel = el("button", { type: "button", on: { click: () => this.dialog.close() } }, "Cancel");
    const remove = k === null ? null
      : el("button", { id: "quota-remove", type: "button", on: { click: () => this.finish(null, k) } }, "Remove it");
    fill(this.dialog, el("h2", { id: "editor-title" }, title),
      el("form", { novalidate: true, on: { submit: (event) => { event.preventDefault(); this.finish(this.row(fixed), k); } } },
        ...(this.picked ? [this.picker()] : []),
        field("quota-name", "Name", this.name),
        fixed ? el("p", { class: "muted small" }, "Its bound is on a part of some of the time, and stands in the problem.")
          : el("div", { class: "fields" }, field("quota-at_least", `At least${more}`, this.bounds.at_least),
            field("quota-at_most", `At most${more}`, this.bounds.at_most)),
        this.said,
        el("div", { class: "buttons" }, el("button", { type: "submit", class: "primary" }, k === null ? "Add it" : "Change it"), remove, cancel)));
    this.dialog.showModal();
  }

  number(side, value) {
    const [low, high] = this.unit ?? [0, 100];
    const shown = value === null ? "" : this.unit ? value : Number((100 * value).toFixed(8));
    return el("input", { id: `quota-${side}`, type: "number", step: "any", min: low, max: high, value: shown, placeholder: "none" });
  }

  row(fixed) {
    const value = ({ valueAsNumber: typed }) => (Number.isNaN(typed) ? null : this.unit ? typed : Math.round(1e10 * typed) / 1e12);
    const row = { name: this.name.value.trim(), at_least: value(this.bounds.at_least), at_most: value(this.bounds.at_most) };
    if (fixed) Object.assign(row, { at_least: null, at_most: null });
    if (this.picked) row.states = [...this.picked.keys()].sort((a, b) => a - b);
    return row;
  }

  async finish(row, k) {
    this.said.textContent = this.wrong(row);
    if (this.said.textContent) return;
    try {
      await this.save(row, k);
      this.dialog.close();
    } catch (error) {
      this.said.textContent = error.message;
    }
  }

  wrong(row) {
    if (!row) return "";
    if (row.states && !row.states.length) return "Tick at least one state.";
    if (!row.name) return "Give it a name.";
    const [low, high] = ends({ unit: this.unit });
    for (const [side, words] of [["at_least", "At least"], ["at_most", "At most"]]) {
      if (row[side] !== null && !(row[side] >= low && row[side] <= high)) {
        return `${words} is to be between ${this.unit ? `${low} and ${high}` : "0 and 100 percent"}.`;
      }
    }
    return row.at_least !== null && row.at_most !== null && row.at_least > row.at_most ? "At least is more than at most." : "";
  }

  // ---- which states

  picker() {
    this.search = el("input", { id: "quota-states", type: "search", autocomplete: "off", spellcheck: "false", placeholder: "a part of their names, or \"home\" & x>=2",
      on: { input: () => this.typed() } });
    this.list = el("ul", { class: "states", "aria-label": "States", tabindex: "0" });
    this.all = el("button", { id: "quota-all", type: "button", class: "quiet tiny", on: { click: () => this.tickAll(true) } });
    this.none = el("button", { id: "quota-none", type: "button", class: "quiet tiny", on: { click: () => this.tickAll(false) } }, "Tick none");
    this.count = el("span", { id: "quota-count", class: "muted small", role: "status" });
    return el("div", {}, el("label", { for: "quota-states" }, "Which states share it"), this.search, this.list,
      el("div", { class: "card-head" }, this.count, el("span", {}, this.all, this.none)));
  }

  typed() {
    this.asked = this.search.value; // what is still on its way is of older words
    this.all.disabled = true;
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.look(this.search.value), REST);
  }

  async look(text) {
    this.asked = text;
    try {
      const found = await this.find(text);
      if (this.asked !== text) return;
      this.found = found;
      this.said.textContent = "";
    } catch (error) {
      if (this.asked === text && error.message) this.said.textContent = error.message;
      return;
    }
    this.show();
  }

  show() {
    const { states, names, count } = this.found;
    const row = (name, n) => {
      const k = states[n];
      const box = el("input", { type: "checkbox", id: `pick-${k}`, on: { change: () => { this.tick(k, name, box.checked); this.say(); } } });
      box.checked = this.picked.has(k);
      return el("li", {}, el("label", { for: `pick-${k}` }, box, ` ${name}`));
    };
    fill(this.list, ...names.map(row),
      count > names.length ? el("li", { class: "muted" }, `and ${(count - names.length).toLocaleString("en")} more`) : null);
    this.all.textContent = count === 1 ? "Tick it" : `Tick all ${count.toLocaleString("en")}`;
    this.all.disabled = !count || count > states.length;
    this.say();
  }

  tick(k, name, on) {
    if (on) this.picked.set(k, name ?? `${k}`);
    else this.picked.delete(k);
  }

  tickAll(on) {
    if (on) this.found.states.forEach((k, n) => this.tick(k, this.found.names[n], true));
    else this.picked.clear();
    this.show();
  }

  say() {
    const picks = [...this.picked.values()];
    this.count.textContent = `${countText(picks.length, "state")} ticked, ${this.found.count.toLocaleString("en")} found`;
    if (!this.named) this.name.value = picks.length === 1 ? picks[0] : picks.length ? this.search.value.replaceAll("\"", "").trim() : "";
  }
}
