// Many clients at once: how many have how much. Bars are counts in equal parts of an axis, however many clients there are.
import { el, fill } from "./dom.js";
import { countText, gainText, shareText, tickTexts, tidy } from "./format.js";
import { across, ink, line, mark, picture, put, scale, shape, ticks, upward, widest, words } from "./plot.js";

const HEIGHT = 96; // px of one side of a density
const LINE = 190; // px of a curve, within its axes

function legend(part, keys) {
  fill(part.more, el("ul", { class: "legend" },
    ...keys.map(([kind, text]) => el("li", {}, el("span", { class: `key ${kind}`, "aria-hidden": "true" }), text))));
}

// One step of a density from the axis upwards, or downwards.
function step(at, k, value, y0, y1, colour, kind) {
  return shape("rect", { x: at(k) + 0.5, y: Math.min(y0, y1), width: Math.max(1, at(k + 1) - at(k) - 1), height: value ? Math.max(1, Math.abs(y1 - y0)) : 0, fill: ink(colour), class: kind });
}

// What clients have of a quota above the axis, and what they are owed below it.
export function drawShares(part, quota) {
  const { ends: [low, high], had, asked } = quota.density;
  const word = quota.side === "at_least" ? "owed" : "allowed";
  const many = asked.reduce((sum, count) => sum + count, 0);
  part.note.textContent = `${countText(many, "client")} ${many === 1 ? "is" : "are"} ${word} a share of ${quota.name}; the quotas of `
    + `${countText(quota.binding, "row")} bind. Half of all have ${shareText(quota.had[2])} or less.`;
  legend(part, [["bar", "have"], ["paid", word]]);
  part.figure.setAttribute("aria-label", `Shares of ${quota.name}: had ${quantiles(quota.had)}; ${word} ${quantiles(quota.asked)}.`);
  const top = Math.max(...had, ...asked, 1);
  put(part.figure, (width) => {
    const [left, right, middle] = [4, width - 28, HEIGHT + 10];
    const x = scale(low, high, left, right);
    const at = scale(0, had.length, left, right);
    const values = ticks(low, high, right - left, (list, size) => tickTexts(list, size, true));
    const tall = (count) => HEIGHT * Math.sqrt(count / top); // a root, so that few are seen beside many
    return picture(width, 2 * HEIGHT + 60,
      ...across(values, x, middle - HEIGHT, middle + HEIGHT),
      ...had.map((count, k) => {
        const [from, to] = [k, k + 1].map((n) => shareText(low + ((high - low) * n) / had.length, 1));
        return mark(`${from} to ${to}\n${countText(count, "client")} have it, ${asked[k].toLocaleString("en")} are ${word} it`, [at(k + 0.5), middle - tall(count)],
          shape("rect", { x: at(k), y: middle - HEIGHT, width: at(k + 1) - at(k), height: 2 * HEIGHT, class: "hit" }),
          step(at, k, count, middle, middle - tall(count), "accent", "had"), step(at, k, asked[k], middle, middle + tall(asked[k]), "cost", "asked"));
      }),
      line(left, middle, right, middle, "muted"),
      words(`share of ${quota.name}`, (left + right) / 2, 2 * HEIGHT + 50, { fill: ink("muted"), "text-anchor": "middle", class: "x-title" }));
  });
}

function quantiles(list) {
  return list ? `median ${shareText(list[2])}, nine in ten from ${shareText(list[1])} to ${shareText(list[3])}` : "by nobody";
}

// How much less or more clients earn than without quotas.
export function drawPayers(part, payers) {
  const { ends: [low, high], change, same } = payers.density;
  part.note.textContent = `${countText(payers.lower, "client")} earn${payers.lower === 1 ? "s" : ""} less than without quotas, ${gainText(-payers.lower_by)} a step together; `
    + `${payers.higher.toLocaleString("en")} earn more, ${gainText(payers.higher_by)}. For ${same.toLocaleString("en")} nothing changes.`;
  legend(part, [["most", "pay"], ["tight", "gain"]]);
  part.figure.setAttribute("aria-label", part.note.textContent);
  const top = Math.max(...change, 1);
  put(part.figure, (width) => {
    const [left, right, bottom] = [4, width - 20, 2 * HEIGHT + 12];
    const x = scale(low, high, left, right);
    const at = scale(0, change.length, left, right);
    const values = ticks(low, high, right - left, (list, size) => tickTexts(list, size));
    const tall = (count) => 2 * HEIGHT * Math.sqrt(count / top);
    const zero = Math.min(right, Math.max(left, x(0)));
    return picture(width, bottom + 50, ...across(values, x, 12, bottom),
      ...change.map((count, k) => {
        const [from, to] = [k, k + 1].map((n) => low + ((high - low) * n) / change.length);
        return mark(`${gainText(from)} to ${gainText(to)}\n${countText(count, "client")}`, [at(k + 0.5), bottom - tall(count)],
          shape("rect", { x: at(k), y: 12, width: at(k + 1) - at(k), height: bottom - 12, class: "hit" }),
          step(at, k, count, bottom, bottom - tall(count), (from + to) / 2 < 0 ? "bad" : "fair", "change"));
      }),
      line(zero, 12, zero, bottom, "ink", { "stroke-dasharray": "5 4" }),
      words("reward of a client, less that without quotas", (left + right) / 2, bottom + 40, { fill: ink("muted"), "text-anchor": "middle", class: "x-title" }));
  });
}

// Ceilings against what moves.
export function drawCurve(part, curve, value, message) {
  const points = curve?.points.filter((point) => point.upper !== null) ?? [];
  const none = curve?.points.filter((point) => point.status === "infeasible") ?? [];
  part.note.textContent = message || (curve ? `The proved ceiling against ${curve.moves === "capacity" ? `how many ${curve.name} there are` : `what all are owed of ${curve.name}`}.`
    + (none.length ? ` The quotas cannot be met ${none.length > 1 ? `from ${tidy(none[0].value, 6)} to` : "at"} ${tidy(none.at(-1).value, 6)}.` : "") : "");
  part.figure.hidden = points.length < 2;
  if (part.figure.hidden) return;
  part.figure.setAttribute("aria-label", `Ceiling from ${gainText(points[0].upper)} at ${points[0].value} to ${gainText(points.at(-1).upper)} at ${points.at(-1).value}.`);
  const all = points.map((point) => point.upper);
  const spread = Math.max(...all) - Math.min(...all) || 1;
  const [low, high] = [Math.min(...all) - 0.08 * spread, Math.max(...all) + 0.08 * spread];
  const [first, last] = [curve.points[0].value, curve.points.at(-1).value];
  put(part.figure, (width) => {
    const gains = ticks(low, high, LINE, (list, size) => tickTexts(list, size), 16);
    const [left, right, top, bottom] = [widest(gains.texts) + 12, width - 20, 14, 14 + LINE];
    const [x, y] = [scale(first, last, left, right), scale(low, high, bottom, top)];
    const values = ticks(first, last, right - left, (list, size) => tickTexts(list, size));
    return picture(width, bottom + 50, ...across(values, x, top, bottom), ...upward(gains, y, left, right),
      shape("path", { d: `M${points.map((point) => `${x(point.value)} ${y(point.upper)}`).join("L")}`, fill: "none", stroke: ink("accent"), "stroke-width": 2.5, class: "curve" }),
      ...points.map((point) => mark(`${curve.name} ${point.value}\nceiling ${gainText(point.upper)}`, [x(point.value), y(point.upper)],
        shape("circle", { cx: x(point.value), cy: y(point.upper), r: 9, class: "hit" }),
        point.value === value ? shape("circle", { cx: x(value), cy: y(point.upper), r: 7.5, fill: ink("fair"), stroke: ink("surface"), "stroke-width": 2.5, class: "here" })
          : shape("circle", { cx: x(point.value), cy: y(point.upper), r: 3.5, fill: ink("accent"), class: "breakpoint" }))),
      words(curve.moves === "capacity" ? curve.name : `owed to all alike, ${curve.name}`, (left + right) / 2, bottom + 40, { fill: ink("muted"), "text-anchor": "middle", class: "x-title" }));
  });
}
