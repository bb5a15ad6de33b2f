// A policy that somebody brought, judged under the quotas as they stand, and the least change that mends it.
import { ask, sendFile } from "./api.js";
import { el, fill, table } from "./dom.js";
import { boundsText, gainText, shareText, slackText, span, valueText } from "./format.js";

const MOST_ROWS = 40;
const MOST_CHANGES = 12;
const NARROW = 1e-6; // an interval that is narrower is a number
const WORDS = { fair: ["Fair", "Every quota is met, whatever a run comes to."],
  "not fair": ["Not fair", "It breaks "], undecided: ["Undecided", "It could not be proved either way."] };
const POLICIES = /(\.json|\.txt|\.adv|^[^.]*)$/i;

// Whether a file holds a policy and not a problem: by its ending or, of a table, by its columns.
export async function holdsPolicy(file) {
  if (!/\.csv$/i.test(file.name)) return POLICIES.test(file.name);
  const columns = (await file.slice(0, 4096).text()).split(/\r?\n/)[0].toLowerCase().split(/[,;\t]/).map((name) => name.replaceAll("\"", "").trim());
  const has = (name) => columns.includes(name);
  return has("state") && has("action") && !has("next") && !has("reward");
}

export class Audit {
  constructor(question, failed, begun) {
    this.question = question; // what is open, and where its bounds stand
    this.failed = failed;
    this.begun = begun; // what was said before is not said any more
    this.result = el("div", {});
    this.file = el("input", { id: "policy-file", type: "file", accept: ".csv,.json,.txt,.adv",
      on: { change: () => { if (this.file.files.length) this.open(this.file.files[0]); this.file.value = ""; } } });
    this.section = el("section", { id: "audit", class: "card wide", "aria-labelledby": "audit-title" },
      el("div", { class: "card-head" }, el("h2", { id: "audit-title" }, "Judge a policy of your own")),
      el("p", { class: "muted small note" }, "A table with columns state, action and probability, a solution, a strategy of PRISM or a"
        + " scheduler of Storm: choose its file, or drop it on the page. It is judged under the quotas as they stand."),
      el("div", { class: "buttons" }, el("label", { for: "policy-file", class: "hidden" }, "File of a policy"), this.file), this.result);
    this.forget();
  }

  forget() {
    this.policy = null;
    this.key = "";
    this.section.classList.remove("judged");
    fill(this.result);
  }

  async open(file) {
    this.begun();
    try {
      this.policy = { name: file.name, handle: await sendFile(file) };
      this.key = "";
      await this.follow();
      this.section.scrollIntoView({ block: "nearest" });
    } catch (error) {
      this.failed(error);
    }
  }

  // Judge again where the bounds have moved.
  async follow() {
    if (!this.policy) return;
    const question = { task: "audit", policy: this.policy.handle, ...this.question() };
    const key = JSON.stringify(question);
    if (key === this.key) return;
    this.key = key;
    this.result.classList.add("stale");
    try {
      const seen = await ask(question);
      if (key === this.key) this.draw(seen);
    } catch (error) {
      if (key === this.key) this.forget();
      this.failed(error);
    }
  }

  draw(seen) {
    this.result.classList.remove("stale");
    this.section.classList.add("judged");
    const broken = seen.quotas.filter((row) => row.verdict === "not fair").map((row) => row.quota);
    const [word, sentence] = WORDS[seen.verdict];
    const rows = [...seen.quotas].sort((a, b) => b.short - a.short).slice(0, MOST_ROWS).map((row) => [
      row.quota, interval(row.low, row.high, (value) => valueText(value, row.unit)), boundsText(row.asked, row.unit),
      row.verdict === "not fair" ? slackText(-row.short, row.unit) : "\u2013", row.verdict === "fair" ? "met" : row.verdict === "not fair" ? "not met" : "undecided"]);
    fill(this.result,
      el("p", { class: "status-line" }, el("span", { id: "verdict", class: `pill ${seen.verdict === "fair" ? "optimal" : "infeasible"}` }, word),
        el("span", {}, `${this.policy.name}: ${sentence}${broken.length ? `${listed(broken)}.` : ""}`)),
      el("p", { id: "audit-gain" }, `Gain ${interval(...seen.mean_gain, gainText)}, worst slack ${slackText(seen.worst_slack)}. ${beside(seen)}`),
      ...(rows.length ? [table(["Quota", "Share", "Asked", "Short", "Status"], rows, "Quotas under this policy")] : []),
      ...(seen.mended ? mendedPart(seen.mended) : []),
      ...seen.notes.map((note) => el("p", { class: "muted small" }, `${note}.`)));
  }
}

function interval(low, high, text) {
  return high - low < NARROW ? text((low + high) / 2) : `${text(low)} to ${text(high)}`;
}

function listed(names) {
  return names.length <= 4 ? names.join(", ") : `${names.slice(0, 3).join(", ")} and ${names.length - 3} more`;
}

function beside({ best, behind }) {
  if (!behind) return best.status === "infeasible" ? "No policy meets the quotas." : "No policy was proved fair.";
  const more = (behind[0] + behind[1]) / 2;
  const words = Math.abs(more) < NARROW ? "as much" : `${gainText(Math.abs(more))} ${more > 0 ? "more" : "less"}`;
  return `The best fair policy earns ${words}: ${gainText(best.gain)}, worst slack ${slackText(best.worst_slack)}.`;
}

function mendedPart(mended) {
  const changes = mended.changes.slice(0, MOST_CHANGES).map(({ state, action, before, after }) => [state, action, shareText(before), shareText(after)]);
  const left = mended.changes.length - changes.length;
  return [el("h3", {}, "What would mend it"),
    el("p", { id: "mended" }, `Moving ${shareText(mended.moved)} of the time makes it fair, which is proved: gain ${gainText(mended.gain)}, worst slack ${slackText(mended.worst_slack)}.`
      + `${left > 0 ? ` The ${changes.length} largest of ${mended.changes.length} changes:` : ""}`),
    table(["In state", "Action", "Taken now", "Fair"], changes, "Changes that make it fair")];
}
