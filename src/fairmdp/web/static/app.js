// The page: what is open, where the sliders stand, and what the server says about it.
import { ask, Lost, Refused, sendFile, Stale, start } from "./api.js";
import { Audit, holdsPolicy } from "./audit.js";
import { acceptDrops, showChooser } from "./chooser.js";
import { el, fill, table } from "./dom.js";
import { QuotaEditor } from "./editor.js";
import { drawFrontier } from "./figures.js";
import { countText, ends, gainText, shortened, slackText, span, toldApart, valueText } from "./format.js";
import { figureFile } from "./plot.js";
import { Principle } from "./principle.js";
import { drawAnswer, drawHero, makeSections, proofRows } from "./sections.js";
import { asked, sides, Sliders } from "./sliders.js";

const PAUSE = 200; // ms of rest after which a stale solve is given up for a newer one
const SLOW = 150; // ms after which a solve shows its progress
const SUGGESTED = 0.1; // least share of a new quota
const FOLLOW = 120; // ms of rest after which ranges and frontier follow
const EXPORTS = [["solution.json", "Solution"], ["policy.csv", "Policy"], ["quotas.csv", "Shares and prices"],
  ["problem.toml", "Problem"], ["problem.npz", "Problem"]];

const QUOTAS = "The least or the most that each may have. Below each slider stands how far it can go while the others stay where they are.";
const START = "This model has no quotas yet. Say which states are to get a share of the time, and see what that costs.";

const $ = (id) => document.getElementById(id);
const parts = makeSections($("sections"));
const sliders = new Sliders($("sliders"), $("filter"), moved, (k) => editor.change(k, now.problem.quotas[k], sliders.standing(k)));
const editor = new QuotaEditor($("editor"), { find: (text) => ask({ task: "states", source: now.source, text }), save: edit });
const audit = new Audit(bounds, failed, () => notice(""));
const principle = new Principle(bounds, failed);
const proofButton = el("button", { id: "proof-button", type: "button", class: "quiet", on: { click: showProof } }, "Proof");
const quotaChoice = el("select", { id: "quota-choice", "aria-label": "Quota that moves along the curve",
  on: { change: () => { Object.assign(now, now.bounds[quotaChoice.selectedIndex]); followSoon(0); } } });
const nothing = { answer: null, curve: null, curveMessage: "", curveKey: "", rangesKey: "" };
const now = { source: null, rows: null, problem: null, bounds: [], focus: 0, side: "at_least", ...nothing }; // the curve is of one side of one quota
const onItsWay = { ranges: null, curve: null }; // what has been asked and not yet answered
let opening = 0;
let running = null; // the solve in flight
let movedAt = null; // when a slider moved that has not been answered yet
let waiting = false; // whether the sliders have moved since
let pauseTimer = 0;
let followTimer = 0;
let offered = null; // what can be opened

// ---- opening

async function open(source) {
  const turn = ++opening;
  busy("Opening");
  try {
    const opened = await ask({ task: "open", source }, { progress: progressed });
    if (turn !== opening) return;
    audit.forget();
    principle.forget();
    adopt(source, null, opened);
    await solve();
    focusOnDearest();
    followSoon(0);
  } catch (error) {
    failed(error);
  } finally {
    if (turn === opening) busy("");
  }
}

// Show a problem with quotas of its own, or with those that the page has made of them.
function adopt(source, rows, { problem, ranges }) {
  running?.abort.abort();
  Object.assign(now, { source, rows, problem, ...nothing });
  $("title").textContent = problem.name;
  document.title = `${problem.name} \u00b7 fairmdp`;
  $("size").textContent = [countText(problem.states, "state"), countText(problem.pairs, "state-action pair"),
    countText(problem.quotas.length, "quota")].join(", ");
  $("quotas-note").textContent = problem.quotas.length ? QUOTAS : START;
  $("add").classList.toggle("primary", !problem.quotas.length);
  $("reset").hidden = !problem.quotas.length && !rows;
  sliders.open(problem, ranges);
  now.bounds = problem.quotas.flatMap((q, focus) => sides(q).map((side) => ({ focus, side })));
  Object.assign(now, now.bounds.find(({ focus, side }) => side === "at_least"
    && problem.quotas[focus].at_least > ends(problem.quotas[focus])[0]) ?? now.bounds[0]);
  const choices = now.bounds.map(({ focus, side }) => `${problem.quotas[focus].name}${side === "at_most" ? ", at most" : ""}`);
  const texts = toldApart(choices, (name) => shortened(name, 20));
  fill(quotaChoice, ...choices.map((value, k) => el("option", { value, title: value }, texts[k])));
  notice("");
}

// Add a quota (k is null), change one, or remove it (row is null); the others stand where they are.
async function edit(row, k) {
  const { source } = now;
  const rows = now.problem.quotas.map((quota, n) => ({ ...(now.rows?.[n] ?? { was: quota.name }), name: quota.name, ...sliders.standing(n) }));
  if (k === null) rows.push(row);
  else if (row) Object.assign(rows[k], row);
  else rows.splice(k, 1);
  adopt(source, rows, await ask({ task: "open", source, rows }));
  const mine = row && now.bounds.find(({ focus }) => focus === (k ?? rows.length - 1));
  if (mine) Object.assign(now, mine);
  await solve();
}

function focusOnDearest() {
  const prices = now.answer?.quotas.map((q) => (q.price ?? 0) * span(q.unit)) ?? [];
  const k = prices.reduce((best, price, at) => (Math.abs(price) > Math.abs(prices[best] ?? 0) ? at : best), -1);
  if (k >= 0) Object.assign(now, { focus: k, side: prices[k] < 0 ? "at_most" : "at_least" });
}

async function openFile(file) {
  try {
    if (now.problem && await holdsPolicy(file)) {
      await audit.open(file);
      return;
    }
    if (file.size > 2 ** 25) throw new Refused(`${file.name} has ${(file.size / 2 ** 20).toFixed(0)} MiB, the limit is 32 MiB`);
    await open({ kind: "file", name: await sendFile(file) });
  } catch (error) {
    failed(error);
  }
}

// ---- solving

function bounds() {
  return { source: now.source, rows: now.rows, at_least: sliders.values.at_least, at_most: sliders.values.at_most };
}

function moved(k, side) {
  movedAt = performance.now();
  Object.assign(now, { focus: k, side });
  drawCurve();
  if (!running) {
    solve();
    return;
  }
  waiting = true;
  clearTimeout(pauseTimer);
  pauseTimer = setTimeout(() => { running?.abort.abort(); solve(); }, PAUSE);
}

async function solve() {
  clearTimeout(pauseTimer);
  waiting = false;
  const mine = running = { abort: new AbortController(), since: movedAt };
  const began = performance.now();
  const slow = setInterval(() => {
    if (running === mine) busy("Solving", (performance.now() - began) / 1000, mine.row);
  }, SLOW);
  try {
    const answer = await ask({ task: "solve", ...bounds() },
      { signal: mine.abort.signal, progress: (row) => { mine.row = row; } });
    if (running !== mine) return;
    now.answer = answer;
    drawAnswer(parts, answer);
    drawAround(answer);
    if (mine.since !== null) shown(mine.since);
  } catch (error) {
    if (running === mine) failed(error);
  } finally {
    clearInterval(slow);
    if (running === mine) {
      running = null;
      busy("");
      if (waiting) solve();
      else followSoon();
    }
  }
}

function shown(since) {
  movedAt = movedAt === since ? null : movedAt;
  requestAnimationFrame(() => setTimeout(() => performance.measure("slider to picture", { start: since }))); // the frame is out
}

function progressed(row) {
  busy("Opening", row.seconds, row);
}

function followSoon(delay = FOLLOW) {
  clearTimeout(followTimer);
  followTimer = setTimeout(follow, delay);
}

function curveQuestion() {
  const { focus, side } = now;
  const quota = now.problem.quotas[focus];
  const question = bounds();
  const own = ends(quota)[side === "at_least" ? 0 : 1]; // where it stands does not matter
  return { task: "frontier", quota: quota.name, bound: side, ...question,
    [side]: question[side].map((value, k) => (k === focus ? own : value)) };
}

function follow() {
  if (!now.problem || running) return;
  audit.follow();
  principle.section.hidden = !now.problem.quotas.some((quota) => !quota.unit);
  if (!now.problem.quotas.length) return;
  principle.follow();
  quotaChoice.selectedIndex = now.bounds.findIndex(({ focus, side }) => focus === now.focus && side === now.side);
  followRanges();
  followCurve();
}

// Ranges change with every move, so the question on its way is let finish and the next one asked then.
async function followRanges() {
  const question = { task: "ranges", quota: now.problem.quotas[now.focus].name, ...bounds() };
  const key = JSON.stringify(question);
  if (key === now.rangesKey || (onItsWay.ranges && onItsWay.ranges === now.source)) return;
  onItsWay.ranges = now.source;
  try {
    const { ranges } = await ask(question);
    if (question.source === now.source) sliders.setRanges(ranges);
  } catch (error) {
    if (!(error instanceof Refused)) {
      onItsWay.ranges = null;
      failed(error);
      return;
    }
  }
  now.rangesKey = key;
  onItsWay.ranges = null;
  followSoon();
}

async function followCurve() {
  const question = curveQuestion();
  const key = JSON.stringify(question);
  if (key === onItsWay.curve) return;
  if (key === now.curveKey) {
    drawCurve();
    return;
  }
  onItsWay.curve = key;
  try {
    const { curve, message } = await ask(question);
    Object.assign(now, { curve, curveMessage: message ?? "", curveKey: key });
  } catch (error) {
    if (error instanceof Refused) Object.assign(now, { curve: null, curveMessage: error.message, curveKey: key });
    else failed(error);
  }
  if (onItsWay.curve === key) onItsWay.curve = null;
  drawCurve();
}

// ---- drawing

function drawAround(answer) {
  drawHero($("hero"), answer, proofButton);
  proofButton.hidden = answer.command === null;
  drawConflict(answer.infeasible);
  sliders.setShares(answer.quotas);
  $("command").textContent = answer.command ?? "";
  $("take").hidden = answer.command === null;
  $("live").textContent = answer.gain == null ? `Infeasible. ${answer.infeasible?.headline ?? answer.meaning}`
    : `${answer.status}, gain ${gainText(answer.gain)}, worst slack ${slackText(answer.worst_slack)}`;
  drawCurve();
}

function drawCurve() {
  if (!now.answer) return;
  parts.frontier.section.hidden = !now.problem.quotas.length;
  if (parts.frontier.section.hidden) return;
  const fresh = now.curveKey === JSON.stringify(curveQuestion());
  parts.frontier.figure.classList.toggle("stale", !fresh);
  const point = { value: sliders.values[now.side][now.focus], gain: now.answer.gain ?? null, worst_slack: now.answer.worst_slack };
  if (fresh) drawFrontier(parts.frontier, now.curve, point, now.curveMessage);
  else if (!now.curve) drawFrontier(parts.frontier, null, null, "Working out the curve\u2026");
}

function drawConflict(why) {
  $("conflict").hidden = !why;
  if (!why) return;
  const { focus, side } = now;
  const { name, unit } = now.problem.quotas[focus];
  const [limit, way] = side === "at_least" ? [sliders.ranges.get(focus)?.most, 1] : [sliders.ranges.get(focus)?.least, -1];
  const fine = 10 ** (9 - Math.floor(Math.log10(span(unit))));
  const back = limit != null && way * (sliders.values[side][focus] - limit) > 0 ? el("button", { id: "back", type: "button",
    on: { click: () => sliders.move(focus, side, (way * Math.floor(way * fine * limit)) / fine) } },
  `Only ${way > 0 ? "lower" : "raise"} ${name}, to ${valueText(limit, unit)}`) : null;
  const accept = el("button", { id: "accept", type: "button", class: "primary",
    on: { click: () => { sliders.set(why.at_least, why.at_most); moved(now.focus, now.side); $("controls").focus({ preventScroll: true }); } } },
  "Use the nearest quotas that can be met");
  fill($("conflict"),
    el("p", { class: "headline" }, `${why.headline}.`),
    ...(why.lines.length ? [el("ul", {}, ...why.lines.map((line) => el("li", {}, line)))] : []),
    el("p", { class: "small muted" }, `In conflict: ${why.conflict.slice(0, 8).join(", ")}${why.conflict.length > 8 ? " and others" : ""}.`
      + (why.nearest.length ? ` Nearest that can be met: ${why.nearest.slice(0, 8).join(", ")}${why.nearest.length > 8 ? " and others" : ""}.` : "")),
    el("div", { class: "buttons" }, ...(why.nearest.length ? [accept] : []), ...(back ? [back] : [])));
}

function busy(what, seconds = 0, row = null) {
  $("busy").hidden = !what;
  $("answer").setAttribute("aria-busy", what ? "true" : "false");
  const known = row && Number.isFinite(row.lower) && Number.isFinite(row.upper)
    ? `: gain between ${gainText(row.lower)} and ${gainText(row.upper)}, worst slack ${slackText(row.worst_slack)}` : "";
  $("busy").textContent = what ? `${what}\u2026 ${seconds >= 1 ? `${seconds.toFixed(0)} s` : ""}${known}` : "";
}

// ---- notices

function notice(text, ...more) {
  $("notice").hidden = !text;
  fill($("notice"), el("p", {}, text), ...more);
}

function failed(error) {
  if (error instanceof Stale) return;
  if (error instanceof Lost) lost(error.message);
  else if (error instanceof Refused) {
    notice(error.message, el("button", { type: "button", class: "quiet", on: { click: () => notice("") } }, "Dismiss"));
  } else {
    notice(`A mistake of ours, not yours: ${error.message}`);
    throw error;
  }
}

let asking = 0;

function lost(how) {
  const again = now.answer?.command ? [el("pre", { tabindex: "0" }, now.answer.command.replace("fairmdp solve", "fairmdp explore"))] : [];
  const words = how === "gone" ? "The server does not answer. It may have been stopped; start it again to go on from here:"
    : "The server was started again and has a new address. Open the one that it printed, or go on from here with:";
  notice(again.length ? words : words.replace(/[;,] (start|or)[^:]*:$/, "."), ...again);
  clearTimeout(asking);
  if (how !== "gone") return;
  asking = setTimeout(() => start().then(() => { notice(""); if (now.source) solve(); }, (error) => lost(error.message)), 1500);
}

// ---- proof, exports

async function showProof() {
  const dialog = $("proof");
  const close = el("button", { type: "button", on: { click: () => dialog.close() } }, "Close");
  const body = el("div", {}, el("p", { class: "muted" }, "Checking\u2026"));
  fill(dialog, el("h2", { id: "proof-title" }, "Proof"), body, el("div", { class: "buttons" }, close));
  dialog.showModal();
  try {
    const verdict = await ask({ task: "proof", ...bounds() });
    const rows = proofRows(verdict);
    fill(body,
      el("p", {}, "Every number below was derived anew from the problem; the check calls no solver."),
      table(["Claim", "What was found"], rows, "Proof"),
      el("p", { class: "muted small" }, `${now.answer.method}. Problem ${now.problem.digest.slice(0, 12)}\u2026`),
      ...now.answer.notes.map((note) => el("p", { class: "small" }, note)));
  } catch (error) {
    dialog.close();
    failed(error);
  }
}

function save(name, blob) {
  const address = URL.createObjectURL(blob);
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

async function exportFile(kind) {
  try {
    const { name, content } = await ask({ task: "export", kind, ...bounds() });
    save(name, new Blob([Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0))]));
  } catch (error) {
    failed(error);
  }
}

function figureTools() {
  for (const [name, part] of Object.entries(parts)) {
    if (!part.figure.isConnected) continue;
    for (const format of ["svg", "png"]) {
      part.tools.append(el("button", { type: "button", class: "quiet tiny", "aria-label": `Save the figure ${name} as ${format}`,
        on: { click: async () => save(`${name}.${format}`, await figureFile(part.figure, format)) } }, format.toUpperCase()));
    }
  }
  parts.frontier.tools.prepend(quotaChoice);
}

async function copyCommand() {
  await navigator.clipboard.writeText($("command").textContent);
  $("copy").textContent = "Copied";
  setTimeout(() => { $("copy").textContent = "Copy"; }, 1500);
}

async function begin() {
  figureTools();
  acceptDrops($("drop"), openFile);
  fill($("exports"), ...EXPORTS.map(([kind, label]) => el("button", { type: "button", "data-kind": kind,
    on: { click: () => exportFile(kind) } }, `${label} `, el("span", { class: "muted" }, kind.slice(kind.indexOf("."))))));
  $("sections").append(principle.section, audit.section);
  $("open").addEventListener("click", () => showChooser($("chooser"), offered, open, openFile));
  $("add").addEventListener("click", () => editor.add(SUGGESTED));
  $("copy").addEventListener("click", copyCommand);
  $("reset").addEventListener("click", () => {
    if (now.rows) {
      open(now.source);
      return;
    }
    const { at_least, at_most } = asked(now.problem.quotas);
    sliders.set(at_least, at_most);
    moved(now.focus, now.side);
  });
  try {
    const first = await start();
    offered = first;
    $("version").textContent = first.version;
    await open({ kind: "given" });
  } catch (error) {
    failed(error);
  }
}

begin();
