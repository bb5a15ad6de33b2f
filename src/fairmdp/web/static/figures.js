// Shares, frontier and policy with the words that belong to them, from the documents of the server. Blue is what a
// policy does, green what stands exactly where it was asked to, orange what is owed or paid for it, red what may not or
// cannot be; rings and dashes are without quotas.
import { el, fill } from "./dom.js";
import { askedText, ends, EXACT, gainText, shareText, shortened, slackText, span, tickTexts, toldApart, valueText } from "./format.js";
import { across, fitted, fittedAll, ink, line, mark, OUTLINED, picture, put, scale, shape, ticks, upward, wide, widest, words } from "./plot.js";

const MOST_BARS = 40;
const HEIGHT = 190; // px of a frontier, within its axes
const AXIS = 34; // px below the rows of one unit, for their ticks
const NUMBER = 30; // px that a cell of a policy needs for its number
const NIGHT = "#1d2127"; // legible on half of the blue, in light and dark

export function shownQuotas(quotas) {
  if (quotas.length <= MOST_BARS) return quotas;
  const room = (q) => (q.slack ?? Infinity) / span(q.unit);
  return [...quotas].sort((a, b) => room(a) - room(b)).slice(0, MOST_BARS);
}

export function weighs(answer) {
  return answer.quotas.some((q) => q.unit);
}

function legend(part, keys) {
  fill(part.more, el("ul", { class: "legend" },
    ...keys.map(([kind, text]) => el("li", {}, el("span", { class: `key ${kind}`, "aria-hidden": "true" }), text))));
}

// ---- shares

export function drawShares(part, answer) {
  const shown = shownQuotas(answer.quotas);
  part.note.textContent = shown.length < answer.quotas.length
    ? `The ${shown.length} tightest of ${answer.quotas.length} quotas.` : "";
  legend(part, [["bar", weighs(answer) ? "share of time, or mean of weights" : "share of time"], ["bar tight", "exactly at its bound"], ["owed", "owed"],
    ...(shown.some((q) => q.at_most < ends(q)[1]) ? [["owed most", "allowed"]] : []), ["ring", "without quotas"]]);
  part.figure.setAttribute("aria-label", `Shares: ${shown.slice(0, 12)
    .map((q) => `${q.name} ${valueText(q.share, q.unit)}, asked ${askedText(q)}`).join("; ")}.`);
  const row = Math.min(56, Math.max(20, 280 / shown.length));
  const kinds = [...new Set(shown.map((q) => JSON.stringify(q.unit)))].sort((a, b) => (b === "null") - (a === "null"));
  const panels = kinds.map((kind) => shown.filter((q) => JSON.stringify(q.unit) === kind)); // one axis for each unit
  put(part.figure, (width) => {
    const texts = fittedAll(shown.map((q) => q.name), 0.4 * width, 22);
    const names = new Map(shown.map((q, k) => [q, texts[k]]));
    const left = widest([...names.values()]) + 12;
    const right = width - widest(shown.map((q) => valueText(q.share, q.unit))) - 18;
    let top = 4;
    const parts = panels.flatMap((panel) => {
      const bottom = top + row * panel.length;
      const [low, high] = sharesRange(panel);
      const at = scale(low, high, left, right);
      const zero = at(Math.min(high, Math.max(low, 0)));
      const axis = ticks(low, high, right - left, (values, step) => tickTexts(values, step, !panel[0].unit));
      const rows = panel.map((q, k) => bar(q, names.get(q), at, zero, top + row * (k + 0.5), row, width));
      top = bottom + AXIS;
      return [...across(axis, at, bottom - row * panel.length, bottom), ...rows,
        line(zero, bottom - row * panel.length, zero, bottom, "muted")];
    });
    return picture(width, top - 6, ...parts);
  });
}

function bar(q, name, at, zero, y, row, width) {
  const half = Math.min(13, 0.3 * row);
  const colour = { binding: "fair", broken: "bad" }[q.state] ?? "accent";
  const [low, high] = ends(q);
  const end = at(q.share ?? low);
  const round = Math.sign(end - zero) * Math.min(3, Math.abs(end - zero));
  const bound = (value, paint, kind) => [line(at(value), y - half - 5, at(value), y + half + 5, "surface", { "stroke-width": 6 }),
    line(at(value), y - half - 4, at(value), y + half + 4, paint, { "stroke-width": 3, class: kind })];
  const text = `${q.name}\n${q.unit ? "mean" : "share"} ${valueText(q.share, q.unit)}, asked ${askedText(q)}, slack ${slackText(q.slack, q.unit)}`
    + `\nwithout quotas ${valueText(q.free_share, q.unit)}`;
  return mark(text, [end, y - half],
    shape("rect", { x: 0, y: y - row / 2, width, height: row, class: "hit" }),
    shape("path", { fill: ink(colour), class: `bar ${q.state}`,
      d: `M${zero} ${y - half}H${end - round}q${round} 0 ${round} 3V${y + half - 3}q0 3 ${-round} 3H${zero}Z` }),
    ...(q.at_least > low ? bound(q.at_least, "cost", "owed") : []),
    ...(q.at_most !== null && q.at_most < high ? bound(q.at_most, "bad", "allowed") : []),
    ...(q.free_share === null ? [] : [shape("circle", { cx: at(q.free_share), cy: y, r: 5, fill: ink("surface"),
      stroke: ink("ink"), "stroke-width": 2, class: "free" })]),
    words(name, 0, y, { class: "y-tick" }),
    words(valueText(q.share, q.unit), width - 4, y, { "text-anchor": "end", fill: ink(colour === "accent" ? "ink" : colour) }));
}

function sharesRange(panel) {
  const [low, high] = ends(panel[0]);
  const seen = panel.flatMap((q) => [q.share ?? low, q.free_share ?? low, q.at_least, q.at_most < high ? q.at_most : low]);
  if (!panel[0].unit) return [0, Math.min(1, 1.06 * Math.max(0.01, ...seen))];
  const zero = Math.min(high, Math.max(low, 0)); // where bars begin
  const [first, last] = [Math.min(zero, ...seen), Math.max(zero, ...seen)];
  const room = 0.06 * (last - first || high - low);
  return [Math.max(low, first - room), Math.min(high, last + room)];
}

// ---- frontier

// Where the curve begins, how far it is drawn, and where what can be met ends.
function extent(curve, point) {
  const [low, high] = ends(curve);
  const [first, far] = curve.bound === "at_most" ? [high, low] : [low, high];
  const end = curve.last_feasible;
  const beyond = [1.18 * (end - first), 1.05 * (point.value - first), 0.02 * (far - first)].map(Math.abs);
  const edge = first + Math.sign(far - first) * Math.min(Math.abs(far - first), Math.max(...beyond));
  return { first, end, edge, closed: Math.abs(far - end) <= 1e-9 * (high - low) }; // closed: the scale ends first
}

function limitText(curve) {
  const cap = curve.bound === "at_most";
  const limit = valueText(curve.own_limit ? curve.last_feasible : curve.limit ?? curve.last_feasible, curve.unit);
  return curve.own_limit ? `${limit} is ${cap ? "owed" : "allowed"}` : `no policy meets ${cap ? "less" : "more"} than ${limit}`;
}

export function drawFrontier(part, curve, point, message = "") {
  const [every, few] = curve?.bound === "at_most" ? ["every cap", "a few caps"]
    : curve?.unit ? ["every mean that may be owed", "a few means that may be owed"]
      : ["every share that may be owed", "a few shares that may be owed"];
  part.note.textContent = message || (curve.exact
    ? `The best gain for ${every}, exactly: all its breakpoints.`
    : `The best gain at ${few}; ${curve.concave ? "between the dots the curve lies on or above the line" : "between the dots it may jump, as runs can end differently"}.`);
  part.figure.hidden = !curve;
  part.more.hidden = !curve;
  if (!curve) return;
  legend(part, [...(point.gain === null ? [["owed most", "asked for now"]] : [["dot", "here"], ["owed", `${curve.bound === "at_most" ? "allowed" : "owed"} now`]]),
    ["shade", "what fairness costs"], ["dash", "without this quota"]]);
  const [nothing, last] = curve.bound === "at_most" ? [`${curve.quota} has no cap`, "lowest cap"] : [`nothing is owed to ${curve.quota}`, "most"];
  part.figure.setAttribute("aria-label", `Best gain falls from ${gainText(curve.gains[0])} when ${nothing}`
    + ` to ${gainText(curve.gains.findLast((gain) => gain !== null))} at ${valueText(curve.last_feasible, curve.unit)}, the ${last} that can be met.`);
  const cap = curve.bound === "at_most";
  const met = curve.values.map((_, k) => k).filter((k) => curve.gains[k] !== null);
  const most = curve.gains[met[0]];
  const least = Math.min(...met.map((k) => curve.gains[k]));
  const tall = most - least > 1e-9 * Math.abs(most) ? most - least : Math.abs(most) || 1;
  const { first, end, edge, closed } = extent(curve, point);
  const title = curve.unit ? (name) => `${name}, at ${cap ? "most" : "least"}` : (name) => `share ${cap ? "allowed" : "owed"} to ${name}`;
  const told = (value, gain, slack) =>
    `${cap ? "at most" : "owed"} ${valueText(value, curve.unit)}\ngain ${gainText(gain)}, worst slack ${slackText(slack)}`;
  put(part.figure, (width) => {
    const [low, high] = [least - 0.08 * tall, most + 0.1 * tall];
    const gains = ticks(low, high, HEIGHT, (values, step) => tickTexts(values, step), 16);
    const [left, right] = [widest(gains.texts) + 12, width - 20];
    const x = cap ? scale(edge, first, left, right) : scale(first, edge, left, right);
    const limit = closed ? "" : limitText(curve);
    const crowded = limit && (cap ? x(end) : x(end) - wide(limit)) < 72; // the two texts on top need a line each
    const top = crowded ? 46 : 28;
    const bottom = top + HEIGHT;
    const y = scale(low, high, bottom, top);
    const values = ticks(Math.min(first, edge), Math.max(first, edge), right - left, (at, step) => tickTexts(at, step, !curve.unit));
    const dots = met.map((k) => [x(curve.values[k]), y(curve.gains[k])]);
    const path = curve.concave ? dots.map(([px, py]) => `${px} ${py}`).join("L") : steps(dots);
    const shown = told(point.value, point.gain, point.worst_slack);
    return picture(width, bottom + 50,
      words("best gain", 0, crowded ? 10 : top - 12, { fill: ink("muted") }),
      words(title(fitted(curve.quota, right - left - wide(title("")), 30)), (left + right) / 2, bottom + 40, { fill: ink("muted"), "text-anchor": "middle", class: "x-title" }),
      ...across(values, x, top, bottom), ...upward(gains, y, left, right),
      ...(closed ? [] : [
        shape("rect", { x: Math.min(x(end), x(edge)), y: top, width: Math.abs(x(edge) - x(end)), height: bottom - top,
          fill: ink("bad"), "fill-opacity": 0.08, class: "beyond" }),
        line(x(end), top, x(end), bottom, "bad", { "stroke-width": 1.5, "stroke-dasharray": "2 3" }),
        words(limit, cap ? Math.min(x(end), width - wide(limit)) : Math.max(x(end), wide(limit)), top - 12, { fill: ink("bad"), "text-anchor": cap ? "start" : "end", class: "limit" })]),
      shape("path", { d: `M${dots[0][0]} ${y(most)}L${path}V${y(most)}Z`, fill: ink("cost"), "fill-opacity": 0.14, class: "cost" }),
      line(dots[0][0], y(most), dots.at(-1)[0], y(most), "ink", { "stroke-dasharray": "5 4" }),
      shape("path", { d: `M${path}`, fill: "none", stroke: ink("accent"), "stroke-width": 2.5, "stroke-linejoin": "round", class: "curve" }),
      ...met.map((k, n) => breakpoint(told(curve.values[k], curve.gains[k], curve.worst_slacks[k]), dots, n, top, bottom)),
      ...(point.gain === null
        ? [mark(`here\n${shown}`, [x(point.value), top], line(x(point.value), top, x(point.value), bottom, "bad", { "stroke-width": 2, class: "here" }))]
        : [line(x(point.value), top, x(point.value), bottom, "cost", { "stroke-width": 2, class: "present" }), ...here(`here: ${shown}`, gainText(point.gain), [x(point.value), y(point.gain)], cap, left, right, bottom)]));
  });
}

// As much as dots prove of a curve that falls: until the next one it is no lower than there.
function steps(dots) {
  return dots.map(([px, py], n) => n === 0 ? `${px} ${py}` : `${dots[n - 1][0]} ${py}L${px} ${py}`).join("L");
}

// A dot, which speaks for everything that is nearer to it than to the next.
function breakpoint(text, dots, n, top, bottom) {
  const [from, to] = [dots[n - 1] ?? dots[n], dots[n + 1] ?? dots[n]].map(([x]) => (x + dots[n][0]) / 2);
  return mark(text, dots[n],
    shape("rect", { x: Math.min(from, to), y: top, width: Math.max(2, Math.abs(to - from)), height: bottom - top, class: "hit" }),
    shape("circle", { cx: dots[n][0], cy: dots[n][1], r: dots.length > 24 ? 2 : 3, fill: ink("accent"), class: "breakpoint" }));
}

// Where the slider stands; its gain is written where the curve, which is concave, leaves room.
function here(text, gain, [x, y], cap, left, right, bottom) {
  const long = wide(gain);
  const at = cap ? Math.min(x + 10, right - long) : Math.max(x - 10, left + 4 + long);
  return [mark(text, [x, y - 6], shape("circle", { cx: x, cy: y, r: 7.5, fill: ink("fair"), stroke: ink("surface"), "stroke-width": 2.5, class: "here" })),
    words(gain, at, Math.min(y + 20, bottom - 10), { "text-anchor": cap ? "start" : "end", "font-weight": 600, fill: ink("fair"), ...OUTLINED })];
}

// ---- policy

export function drawPolicy(part, policy) {
  const cut = [];
  if (policy.states.length < policy.of_states) cut.push(`the ${policy.states.length} most visited of ${policy.of_states.toLocaleString("en")} states`);
  if (policy.actions.length < policy.of_actions) cut.push(`${policy.actions.length} of ${policy.of_actions} actions`);
  part.note.textContent = `How often each action is taken, in percent${cut.length ? `: ${cut.join(", ")}` : ""}.`;
  const random = policy.chances.filter((row) => row.filter((p) => p > EXACT).length > 1).length;
  part.figure.setAttribute("aria-label", `Policy over ${policy.states.length} states and ${policy.actions.length} actions; random in ${random} of them.`);
  const { states, actions, chances } = policy;
  const many = states.length > 20;
  const row = many ? 18 : Math.min(56, Math.max(28, 210 / states.length));
  const size = many ? 11 : 13;
  put(part.figure, (width) => {
    const names = fittedAll(states, 0.35 * width, 18, size);
    const heads = toldApart(actions, (name) => shortened(name, 18));
    const left = widest(names, size) + 10;
    const steep = widest(heads) + 8 > (width - left) / actions.length;
    const right = width - (steep ? 0.6 * wide(heads.at(-1)) : 2);
    const top = steep ? 0.82 * widest(heads) + 22 : 26;
    const column = (right - left) / actions.length;
    const head = (name, a) => {
      const [x, y] = [left + column * (a + 0.5), top - 10];
      return words(name, x, y, { class: "x-tick", "text-anchor": steep ? "start" : "middle", ...(steep ? { transform: `rotate(-55 ${x} ${y})` } : {}) });
    };
    const cell = (p, s, a) => {
      const [x, y] = [left + column * a, top + row * s];
      const box = { x: x + 1, y: y + 1, width: column - 2, height: row - 2, rx: 2 };
      const number = p >= 5e-4 && column >= NUMBER ? [words(`${Number((100 * p).toFixed(1))}`, x + column / 2, y + row / 2,
        { "text-anchor": "middle", "font-size": 12, fill: p > 0.8 ? ink("surface") : p > 0.55 ? NIGHT : ink("ink") })] : [];
      return mark(`${states[s]}: ${actions[a]} ${shareText(p)}\nvisited ${shareText(policy.visitation[s])} of the time`, [x + column / 2, y],
        shape("rect", { ...box, fill: ink("line"), class: "cell" }),
        ...(p > 0 ? [shape("rect", { ...box, fill: ink("accent"), "fill-opacity": p, class: "chance" })] : []), ...number);
    };
    return picture(width, top + row * states.length + 2, ...heads.map(head),
      ...names.map((name, s) => words(name, left - 8, top + row * (s + 0.5), { "text-anchor": "end", "font-size": size, class: "y-tick" })),
      ...chances.flatMap((own, s) => own.flatMap((p, a) => (p === null ? [] : [cell(p, s, a)]))));
  });
}
