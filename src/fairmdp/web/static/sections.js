// The answer in large type, and the sections below it: the same on the page and in a report.
import { el, fill, table } from "./dom.js";
import { drawPolicy, drawShares, shownQuotas, weighs } from "./figures.js";
import { askedText, chanceText, EXACT, gainText, priceText, shareText, slackText, span, valueText } from "./format.js";
import { drawGraph } from "./graph.js";

const MOST_SHARES = 4;
const STATUS = { optimal: "Optimal", feasible: "Fair", infeasible: "Infeasible", undecided: "Undecided" };

export function card(id, title, wide = false) {
  const figure = el("div", { class: "figure", role: "figure" });
  const note = el("p", { class: "muted small note" });
  const more = el("div", { class: "more" });
  const tools = el("div", { class: "tools" });
  const section = el("section", { id, class: `card${wide ? " wide" : ""}`, "aria-labelledby": `${id}-title` },
    el("div", { class: "card-head" }, el("h2", { id: `${id}-title` }, title), tools), note, figure, more);
  return { section, figure, note, more, tools };
}

export function makeSections(container) {
  const parts = {
    shares: card("shares", "Who gets what"),
    ends: card("ends", "Where runs end", true),
    frontier: card("frontier", "What fairness costs"),
    prices: card("prices", "Prices, who gains and who pays", true),
    policy: card("policy", "The policy"),
    graph: card("graph", "Where time flows"),
    compare: card("compare", "Beside the unconstrained optimum", true),
  };
  for (const part of Object.values(parts)) container.append(part.section);
  for (const name of ["prices", "compare", "ends"]) parts[name].figure.remove();
  parts.policy.choice = el("select", { "aria-label": "Policy of the mixture" });
  parts.policy.tools.append(parts.policy.choice);
  return parts;
}

export function drawHero(node, answer, proofButton, unit = "") {
  const tight = answer.quotas.filter((q) => q.state === "binding").map((q) => q.name);
  const broken = answer.quotas.filter((q) => q.state === "broken").map((q) => q.name);
  const known = answer.gain !== null && answer.gain !== undefined;
  const percent = known && answer.cost !== null && answer.free_gain > 0
    ? `${((100 * answer.cost) / answer.free_gain).toFixed(1)}\u202f% of the ` : "of the ";
  const number = (id, label, value, below) => el("div", { class: "number" },
    el("dt", {}, label), el("dd", { id, class: "large" }, value), el("dd", { class: "muted small" }, below));
  const slackBelow = !known ? "no policy meets the quotas" : broken.length ? `not met: ${names(broken)}`
    : tight.length ? `${names(tight)} ${tight.length === 1 ? "stands exactly at its bound" : "stand exactly at their bounds"}`
      : answer.worst_slack === null || answer.worst_slack === undefined ? "nothing is owed"
        : `room to spare everywhere${weighs(answer) ? "; weights count in parts of their range" : ""}`;
  fill(node,
    el("p", { class: "status-line" },
      el("span", { id: "status", class: `pill ${answer.status}`, "data-status": answer.status }, STATUS[answer.status]),
      el("span", { class: "muted" }, `${answer.meaning[0].toUpperCase()}${answer.meaning.slice(1)}.`), proofButton),
    el("dl", { class: "numbers" },
      number("gain", unit ? `Long-run gain, ${unit}` : `Long-run gain${answer.per ? ` per ${answer.per}` : ""}`, gainText(answer.gain),
        known ? `no fair policy exceeds ${gainText(answer.upper)}` : "there is no fair policy"),
      number("cost", "Price of fairness", gainText(answer.cost),
        answer.free_gain === null ? "" : !known ? `${gainText(answer.free_gain)} is earned without quotas` : `${percent}${gainText(answer.free_gain)} earned without quotas`),
      number("slack", "Worst slack", slackText(answer.worst_slack), slackBelow)));
}

function names(list) {
  return list.length <= 3 ? list.join(", ") : `${list.slice(0, 2).join(", ")} and ${list.length - 2} more`;
}

export function drawAnswer(parts, answer) {
  const known = answer.gain !== null && answer.gain !== undefined;
  for (const name of ["shares", "prices"]) parts[name].section.hidden = !known || answer.quotas.length === 0;
  parts.policy.section.hidden = !answer.policies.length;
  parts.ends.section.hidden = !answer.ends;
  parts.graph.section.hidden = !answer.graph;
  parts.compare.section.hidden = !answer.compare;
  parts.policy.section.classList.toggle("wide", !answer.graph);
  parts.frontier.section.classList.toggle("wide", parts.shares.section.hidden);
  if (known && answer.quotas.length) {
    drawShares(parts.shares, answer);
    pricesPart(parts.prices, answer);
  }
  if (answer.ends) endsPart(parts.ends, answer.ends, answer.quotas);
  if (answer.policies.length) policiesPart(parts.policy, answer.policies);
  if (answer.graph) drawGraph(parts.graph, answer.graph);
  if (answer.compare) comparePart(parts.compare, answer.compare, weighs(answer));
}

// Where runs end, and what they earn and give there; of a mixture, by which of its policies.
function endsPart(part, ends, quotas) {
  const mixed = ends.mixture !== null;
  const away = ends.of_classes - ends.classes.length;
  part.note.textContent = (ends.of_classes === 1 ? "Every run ends in the same states and stays there." : "A run ends in one of these sets of states and stays there.")
    + `${mixed ? ` It draws one of ${ends.mixture.length} policies at its start, and keeps it.` : ""}`
    + `${ends.classes.some((end) => end.shares.some((row) => !row.met)) ? " A quota on the mean over runs may be missed by runs that end in one of them: \u2717." : ""}`
    + `${away ? ` ${away.toLocaleString("en")} more sets have ${chanceText(ends.elsewhere)}.` : ""}`;
  const unit = new Map(quotas.map((q) => [q.name, q.unit]));
  const share = (row) => `${row.name}${row.share === null ? "" : ` ${valueText(row.share, unit.get(row.name) ?? null)}`}${row.met ? "" : " \u2717"}`;
  fill(part.more, table(["Ends in", "Chance", ...(mixed ? ["Policy"] : []), "Gain", "Shares there, the tightest first"],
    ends.classes.map((end) => [end.place, chanceText(end.probability), ...(mixed ? [`${end.policy + 1}`] : []), gainText(end.gain),
      end.shares.slice(0, MOST_SHARES).map(share).join(", ")]), "Where runs end"));
}

// A policy; of a mixture the one that is chosen.
function policiesPart(part, policies) {
  part.choice.hidden = policies.length === 1;
  part.choice.onchange = () => drawPolicy(part, policies[part.choice.selectedIndex]);
  fill(part.choice, ...policies.map((policy, m) => el("option", {}, `${m + 1}: ${chanceText(policy.weight)} of runs`)));
  drawPolicy(part, policies[0]);
}

function pricesPart(part, answer) {
  const shown = shownQuotas(answer.quotas);
  part.note.textContent = `The price is the gain given up for one more percentage point of share${weighs(answer) ? ", or unit of the mean" : ""}`
    + `${shown.some((q) => q.price < 0) ? "; that of a cap is negative, as one more allowed pays" : ""}. The last two`
    + ` columns compare with the policy without quotas.${shown.length < answer.quotas.length ? ` The ${shown.length} tightest of ${answer.quotas.length}.` : ""}`;
  const rows = shown.map((q) => {
    const change = q.free_share === null ? null : q.share - q.free_share;
    const way = change === null || Math.abs(change) <= EXACT * span(q.unit) ? "" : change > 0 ? "up" : "down";
    const mark = { up: "\u25b2 ", down: "\u25bc ", "": "" }[way];
    return [q.name, valueText(q.share, q.unit), askedText(q), slackText(q.slack, q.unit), priceText(q.price, q.unit),
      q.state === "binding" ? "binding" : q.state === "broken" ? "not met" : "met", valueText(q.free_share, q.unit),
      el("span", { class: way }, `${mark}${change === null ? "\u2013" : slackText(change, q.unit)}`)];
  });
  fill(part.more, table(["Quota", weighs(answer) ? "Share or mean" : "Share", "Asked", "Slack", "Price of a point", "Status", "Without quotas", "Change"], rows, "Prices of the quotas"));
}

function comparePart(part, rows, weighted) {
  part.note.textContent = "A gain is worth nothing without its worst slack: what the unconstrained policy earns more, it takes from the quotas it breaks."
    + `${weighted ? " Slack of a mean is in parts of the range of its weights." : ""}`;
  const groups = rows.every((row) => row.least_name !== undefined); // weights alone make none
  const spread = (row) => [`${shareText(row.least)} (${row.least_name})`, shareText(row.difference), row.jain.toFixed(4)];
  fill(part.more, table(
    ["Policy", "Gain", "Worst slack", ...(groups ? ["Smallest share", "Largest difference", "Jain's index"] : []), "Breaks"],
    rows.map((row) => [row.policy, gainText(row.gain), slackText(row.worst_slack), ...(groups ? spread(row) : []),
      row.broken.length ? names(row.broken) : "nothing"]),
    "The two policies side by side"));
}

export function proofRows(verdict) {
  const interval = verdict.gain && verdict.gain[0] !== null;
  return [
    ["Verdict", verdict.ok ? "confirmed from the data alone" : "NOT confirmed"],
    ["Arithmetic", verdict.exact ? "rational numbers, no rounding at all" : "floating point, every rounding error counted outward"],
    ["Proved", `${verdict.status}: ${verdict.meaning}`],
    ...(interval ? [["Gain of the policy", `between ${verdict.gain[0].toPrecision(12)} and ${verdict.gain[1].toPrecision(12)}`],
      ["Any fair policy", `at most ${verdict.upper.toPrecision(12)}`],
      ["Worst proven slack", `${verdict.worst_slack === null ? "nothing is owed" : verdict.worst_slack.toExponential(1).replace(/^-/, "\u2212")}`
        + ` (met means not below \u2212${verdict.fair_tol})`]] : []),
    ...verdict.messages.map((message) => ["Wrong", message]),
  ];
}
