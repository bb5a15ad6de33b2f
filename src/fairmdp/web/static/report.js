// A report: one document, drawn once, by the code of the page.
import { el, fill, table } from "./dom.js";
import { drawFrontier } from "./figures.js";
import { countText, ends, shortened, toldApart } from "./format.js";
import { drawAnswer, drawHero, makeSections, proofRows } from "./sections.js";

const report = JSON.parse(document.getElementById("document").textContent);
const sections = makeSections(document.getElementById("sections"));

function conflictPart(why) {
  const place = document.getElementById("conflict");
  place.hidden = !why;
  if (!why) return;
  fill(place, el("p", { class: "headline" }, `${why.headline}.`),
    el("ul", {}, ...why.lines.map((line) => el("li", {}, line))),
    ...(why.nearest.length ? [el("p", {}, `Nearest quotas that can be met: ${why.nearest.join(", ")}.`)] : []));
}

function curvesPart() {
  const { answer, curves, problem } = report;
  const choices = curves.map(({ quota, bound }) => (bound === "at_most" ? `${quota}, at most` : quota));
  const texts = toldApart(choices, (name) => shortened(name, 20));
  const choice = el("select", { "aria-label": "Quota that moves along the curve", on: { change: show } },
    ...choices.map((value, k) => el("option", { value, title: value }, texts[k])));
  function show() {
    const curve = curves[choice.selectedIndex];
    const asked = problem.quotas.find((quota) => quota.name === curve.quota);
    const value = asked[curve.bound] ?? ends(curve)[curve.bound === "at_most" ? 1 : 0];
    const point = { value, gain: answer.gain, worst_slack: answer.worst_slack };
    drawFrontier(sections.frontier, curve, point);
  }
  if (curves.length > 1) sections.frontier.tools.append(choice);
  sections.frontier.section.hidden = curves.length === 0;
  if (curves.length) show();
}

function facts(id, rows) {
  fill(document.getElementById(id), table(["What", "Value"], rows, `${id} in detail`));
}

function drawReport() {
  const { problem, answer, verdict, provenance } = report;
  document.getElementById("byline").textContent = report.byline;
  document.getElementById("briefing").textContent = report.briefing.join(" ");
  document.getElementById("title").textContent = problem.name;
  document.title = `${problem.name} \u00b7 fairmdp`;
  document.getElementById("size").textContent = [countText(problem.states, "state"), countText(problem.pairs, "state-action pair"),
    countText(problem.transitions, "transition"), countText(problem.quotas.length, "quota")].join(", ");
  drawHero(document.getElementById("hero"), answer, null, report.unit);
  conflictPart(answer.infeasible);
  facts("certificate", [...proofRows(verdict), ...answer.notes.map((note) => ["Note", note])]);
  facts("provenance", Object.entries(provenance));
  drawAnswer(sections, answer);
  curvesPart();
}

drawReport();
