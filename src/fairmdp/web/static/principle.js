// A principle of fairness instead of numbers: what it prefers under the quotas as they stand, beside their answer.
import { ask, Stale } from "./api.js";
import { el, fill, table } from "./dom.js";
import { gainText, priceText, slackText, valueText } from "./format.js";

const NONE = "none: quotas alone";
const CHOICES = [["nash", "proportional fairness (Nash)"], ["alpha=2", "least total delay (alpha 2)"],
  ["gini", "the mean, less inequality (Gini)"], ["leximin", "the worst-off first, then the next (leximin)"],
  ["max-min", "nobody worse off than need be (max-min)"], ["utilitarian", "as much as possible in total (utilitarian)"]];
const CLAIMS = { optimal: "No policy that meets the quotas has more welfare.", feasible: "Every quota is met; a better policy may exist.",
  undecided: "Not proved." };
const MOST_ROWS = 40;

export class Principle {
  constructor(question, failed) {
    this.question = question; // what is open, and where its bounds stand
    this.failed = failed;
    this.result = el("div", {});
    this.choice = el("select", { id: "principle-choice", on: { change: () => this.follow() } },
      el("option", { value: "" }, NONE), ...CHOICES.map(([value, text]) => el("option", { value }, text)));
    this.section = el("section", { id: "principle", class: "card wide", "aria-labelledby": "principle-title" },
      el("div", { class: "card-head" }, el("h2", { id: "principle-title" }, "Fair without numbers")),
      el("p", { class: "muted small note" }, "Where nobody knows what is owed, choose a principle. It judges what the groups get in the long"
        + " run; the quotas hold as they stand above, so lower those that are not meant."),
      el("div", { class: "buttons" }, el("label", { for: "principle-choice" }, "Principle"), this.choice), this.result);
    this.forget();
  }

  forget() {
    this.key = "";
    this.choice.value = "";
    this.clear();
  }

  clear() {
    this.section.classList.remove("chosen");
    this.result.classList.remove("stale");
    fill(this.result);
  }

  // Ask again where the principle or the bounds have moved.
  async follow() {
    const question = { task: "welfare", text: this.choice.value, ...this.question() };
    const key = JSON.stringify(question);
    if (key === this.key) return;
    this.key = key;
    if (!question.text) {
      this.clear();
      return;
    }
    this.result.classList.add("stale");
    try {
      const fair = await ask(question);
      if (key === this.key) this.draw(fair);
    } catch (error) {
      if (key !== this.key || error instanceof Stale) return;
      this.forget();
      this.failed(error);
    }
  }

  draw(fair) {
    this.result.classList.remove("stale");
    this.section.classList.add("chosen");
    if (fair.status === "infeasible") {
      fill(this.result, el("p", { id: "principle-answer" }, fair.why));
      return;
    }
    const rows = [...fair.groups].sort((a, b) => a.utility - b.utility).slice(0, MOST_ROWS)
      .map(({ name, utility, marginal, unit }) => [name, valueText(utility, unit), priceText(marginal, unit)]);
    const left = fair.groups.length - rows.length;
    fill(this.result,
      el("p", { id: "principle-answer" }, `Gain ${gainText(fair.gain)}, worst slack ${slackText(fair.worst_slack)}. ${CLAIMS[fair.status]}`),
      table(["Group", "Gets", "A point more is worth"], rows, "What each group gets"),
      ...(left > 0 ? [el("p", { class: "muted small" }, `${left} groups get more.`)] : []),
      el("p", { class: "muted small" }, "What a point more is worth is a part of the proof, in units of the welfare; where it is 0, the principle does not mind."),
      ...(fair.command ? [el("div", { class: "command" }, el("code", { id: "principle-command", tabindex: "0" }, fair.command))] : []));
  }
}
