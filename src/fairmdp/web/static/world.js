// The page of a world: sliders for capacities and for what all are owed alike, and what its clients get, by density.
import { ask, Refused, Stale, start } from "./api.js";
import { drawCurve, drawPayers, drawShares } from "./densities.js";
import { el, fill, table } from "./dom.js";
import { gainText, priceText, roundStep, shareText, slackText, tidy } from "./format.js";
import { card } from "./sections.js";

const PAUSE = 200; // ms of rest before the sliders' place is asked for
const STATUS = { optimal: "Optimal", feasible: "Feasible", infeasible: "Infeasible", undecided: "Undecided" };

const $ = (id) => document.getElementById(id);
const parts = { shares: card("shares", "Who gets what"), payers: card("payers", "Who pays"),
  frontier: card("frontier", "What it is worth"), prices: card("prices", "Prices", true) };
const sideChoice = el("select", { "aria-label": "Quota whose shares are drawn", on: { change: drawChosen } });
const source = { kind: "given" };
let movers = []; // what a slider moves: name, value or null while it has not moved, and its controls
let focus = 0;
let answer = null;
let running = null;
let timer = 0;

function mover(k, { name, capacity, asked, group }, resources) {
  const stated = capacity ?? tidy(asked[1], 3);
  const max = capacity !== undefined ? 2 * capacity || 1 : group ? 2 * asked[2] || 1 : 1;
  const step = roundStep(max / 400);
  const id = `move-${k}`;
  const slider = el("input", { id, type: "range", min: 0, max: tidy(Math.ceil(max / step) * step), step, class: "unknown", "aria-describedby": `note-${id}`,
    on: { input: () => move(k, slider.valueAsNumber) } });
  const number = el("input", { type: "number", min: 0, step: "any", id: `number-${id}`, "aria-label": `${name}, as a number`,
    on: { change: () => (number.valueAsNumber >= 0 ? move(k, number.valueAsNumber) : place(movers[k])) } });
  const note = el("span", { class: "reach muted small", id: `note-${id}` });
  const words = k < resources ? "in a step" : group ? "together, at least" : "at least, all alike";
  const node = el("li", { class: "quota" }, el("div", { class: "quota-head" }, el("span", { class: "name" }, name)),
    el("div", { class: "control" }, el("label", { for: id, class: "small muted" }, words, el("span", { class: "hidden" }, ` for ${name}`)),
      el("span", { class: "field" }, number), slider, note));
  const told = capacity !== undefined || asked[0] === asked[2] ? `stated: ${tidy(stated, 6)}` : `stated: from ${tidy(asked[0], 3)} to ${tidy(asked[2], 3)}`;
  return { name, stated, value: null, slider, number, note, node, told };
}

function place({ value, stated, slider, number, note, told }) {
  slider.value = number.value = tidy(value ?? stated, 10);
  note.textContent = told;
  slider.setAttribute("aria-valuetext", `${slider.value}, ${told}`);
}

function move(k, value) {
  movers[k].value = value;
  focus = k;
  place(movers[k]);
  clearTimeout(timer);
  timer = setTimeout(solve, PAUSE);
}

const question = (task, more = {}) => ({ task, source, values: movers.map(({ value }) => value), ...more });

async function solve() {
  running?.abort();
  const mine = running = new AbortController();
  const began = performance.now();
  const slow = setInterval(() => {
    if (running === mine) busy("Solving", (performance.now() - began) / 1000, mine.row);
  }, 150);
  try {
    const found = await ask(question("world-solve"), { signal: mine.signal, progress: (row) => { mine.row = row; } });
    if (running !== mine) return;
    answer = found;
    draw();
    follow();
  } catch (error) {
    if (running === mine) failed(error);
  } finally {
    clearInterval(slow);
    if (running === mine) {
      running = null;
      busy("");
    }
  }
}

async function follow() {
  if (!movers.length) return;
  const { name } = movers[focus];
  parts.frontier.figure.classList.add("stale");
  parts.frontier.note.textContent = "Working out the curve\u2026";
  try {
    const { curve, message } = await ask(question("world-frontier", { quota: name }));
    if (movers[focus].name === name) drawCurve(parts.frontier, curve, movers[focus].value ?? movers[focus].stated, message ?? "");
  } catch (error) {
    failed(error);
  }
  parts.frontier.figure.classList.remove("stale");
}

function draw() {
  const found = answer.value !== null;
  const number = (id, label, value, below) => el("div", { class: "number" }, el("dt", {}, label), el("dd", { id, class: "large" }, value), el("dd", { class: "muted small" }, below));
  const cost = found && answer.without_quotas !== null ? Math.max(0, answer.without_quotas - answer.upper) : null;
  fill($("hero"),
    el("p", { class: "status-line" }, el("span", { id: "status", class: `pill ${answer.status}`, "data-status": answer.status }, STATUS[answer.status]),
      el("span", { class: "muted" }, `${answer.meaning[0].toUpperCase()}${answer.meaning.slice(1)}.`),
      found ? el("button", { id: "proof-button", type: "button", class: "quiet", on: { click: proof } }, "Proof") : null),
    el("dl", { class: "numbers" },
      number("gain", "Proved ceiling a step", gainText(answer.upper), found ? "no joint policy that meets the quotas gains more" : "no policy meets the quotas"),
      number("cost", "Price of fairness", gainText(cost), cost === null ? "" : `${answer.without_quotas > 0 ? `${((100 * cost) / answer.without_quotas).toFixed(1)}\u202f% ` : ""}of ${gainText(answer.without_quotas)} without quotas`),
      number("slack", "Worst slack of the plan", slackText(answer.worst_slack), found ? "in the mean; what a policy gains is measured: fairmdp simulate" : "")));
  $("conflict").hidden = !answer.infeasible;
  if (answer.infeasible) fill($("conflict"), el("p", { class: "headline" }, answer.infeasible[0]), ...answer.infeasible.slice(1).map((text) => el("p", { class: "small" }, text.trim())));
  $("command").textContent = answer.command;
  $("live").textContent = found ? `${answer.status}, ceiling ${gainText(answer.upper)}, worst slack ${slackText(answer.worst_slack)}` : answer.infeasible?.[0] ?? answer.meaning;
  const drawn = answer.quotas.filter((quota) => quota.density && quota.rows);
  parts.shares.section.hidden = !drawn.length;
  parts.payers.section.hidden = !answer.payers;
  parts.frontier.section.classList.toggle("wide", Boolean(drawn.length) === Boolean(answer.payers));
  const chosen = Math.max(0, sideChoice.selectedIndex);
  fill(sideChoice, ...drawn.map(({ name, side }) => el("option", {}, `${name}${side === "at_most" ? ", at most" : ""}`)));
  sideChoice.hidden = drawn.length < 2;
  sideChoice.selectedIndex = Math.min(chosen, drawn.length - 1);
  drawChosen();
  if (answer.payers) drawPayers(parts.payers, answer.payers);
  prices(found);
}

function drawChosen() {
  const drawn = answer.quotas.filter((quota) => quota.density && quota.rows);
  if (drawn.length) drawShares(parts.shares, drawn[Math.max(0, sideChoice.selectedIndex)]);
}

function prices(found) {
  const amount = (value) => (value === null ? "\u2013" : String(tidy(value, 6)));
  const rows = [
    ...answer.resources.map((each) => [each.name, amount(each.capacity), amount(each.used), gainText(each.price)]),
    ...answer.groups.map((each) => [each.name, amount(each.asked), amount(each.had), gainText(each.price)]),
    ...answer.quotas.filter((each) => each.rows).map((each) => [each.name, `${shareText(each.asked[2])} (median)`, `${shareText(each.had[2])} (median)`,
      each.binding ? `up to ${gainText(each.prices[4])}` : priceText(0)]),
  ];
  parts.prices.section.hidden = !found || !rows.length;
  parts.prices.note.textContent = "What one more unit of capacity earns, and what one more unit of a quota costs everyone.";
  fill(parts.prices.more, table(["What", "There is, or asked", "Used, or had", "Price of a unit"], rows, "Prices of capacity and quotas"));
}

async function proof() {
  const dialog = $("proof");
  const body = el("div", {}, el("p", { class: "muted" }, "Checking\u2026"));
  fill(dialog, el("h2", { id: "proof-title" }, "Proof"), body,
    el("div", { class: "buttons" }, el("button", { type: "button", on: { click: () => dialog.close() } }, "Close")));
  dialog.showModal();
  try {
    const verdict = await ask(question("world-proof"));
    fill(body, el("p", {}, "The ceiling was derived anew from the data of all clients, the prices and one policy of each; no solver was called."),
      table(["Claim", "What was found"], [["Ceiling", gainText(verdict.upper)], ["Confirmed", verdict.ok ? "yes" : "no"], ["Status", verdict.status],
        ...verdict.messages.map((text) => ["Wrong", text])], "Proof"));
  } catch (error) {
    dialog.close();
    failed(error);
  }
}

function busy(what, seconds = 0, row = null) {
  $("busy").hidden = !what;
  $("answer").setAttribute("aria-busy", what ? "true" : "false");
  const known = row && Number.isFinite(row.upper) ? `: ${row.rows.toLocaleString("en")} rows, at most ${gainText(row.upper)}` : "";
  $("busy").textContent = what ? `${what}\u2026 ${seconds >= 1 ? `${seconds.toFixed(0)} s` : ""}${known}` : "";
}

function notice(text) {
  $("notice").hidden = !text;
  fill($("notice"), el("p", {}, text), el("button", { type: "button", class: "quiet", on: { click: () => notice("") } }, "Dismiss"));
}

function failed(error) {
  if (error instanceof Stale) return;
  notice(error instanceof Refused ? error.message : "The server does not answer. It may have been stopped; start it again.");
}

async function begin() {
  for (const part of Object.values(parts)) $("sections").append(part.section);
  parts.prices.figure.remove();
  parts.shares.tools.append(sideChoice);
  $("reset").addEventListener("click", () => {
    for (const each of movers) each.value = null;
    movers.forEach(place);
    solve();
  });
  $("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText($("command").textContent);
    $("copy").textContent = "Copied";
    setTimeout(() => { $("copy").textContent = "Copy"; }, 1500);
  });
  busy("Opening");
  try {
    $("version").textContent = (await start()).version;
    const world = await ask({ task: "world", source });
    $("title").textContent = world.name;
    document.title = `${world.name} \u00b7 fairmdp`;
    $("size").textContent = world.size;
    movers = [...world.resources, ...world.quotas].map((each, k) => mover(k, each, world.resources.length));
    fill($("sliders"), ...movers.map(({ node }) => node));
    movers.forEach(place);
    await solve();
  } catch (error) {
    busy("");
    failed(error);
  }
}

begin();
