// Shares, frontier and policy, drawn by plotly from the documents of the server.
import { ends, gainText, shareText, shortened, slackText, span, valueText } from "./format.js";

const QUIET = { displayModeBar: false, responsive: true, doubleClick: "reset" };
const MOST_BARS = 40;
const TICKS = 40; // px between bars of one unit and those of the next
const MOST_LABELLED = 150; // cells of a policy that carry their number

function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "muted", "line", "surface", "accent", "accent-soft", "fair", "cost", "cost-soft", "bad",
    "bad-soft"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// plotly reads tags and entities in its texts; a name is none of them.
function asText(name) {
  return name.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function layout(colour, extra) {
  const axis = {
    gridcolor: colour.line, linecolor: colour.line, zeroline: false, fixedrange: true, automargin: true,
    ticks: "", tickfont: { color: colour.muted }, title: { font: { color: colour.muted, size: 13 }, standoff: 12 },
  };
  const axes = Object.entries(extra).filter(([name]) => /^[xy]axis/.test(name))
    .map(([name, own]) => [name, { ...axis, ...own, title: { ...axis.title, ...own.title } }]);
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, dragmode: false,
    margin: { l: 12, r: 16, t: 8, b: 12 },
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour.ink },
    hoverlabel: { bgcolor: colour.surface, bordercolor: colour.line, font: { color: colour.ink, size: 13 }, align: "left" },
    ...extra, ...Object.fromEntries(axes),
  };
}

export function shownQuotas(quotas) {
  if (quotas.length <= MOST_BARS) return quotas;
  const room = (q) => (q.slack ?? Infinity) / span(q.unit);
  return [...quotas].sort((a, b) => room(a) - room(b)).slice(0, MOST_BARS);
}

// A figure whose place has become wider or narrower since it was drawn keeps its size, unless it is told.
async function put(node, traces, look) {
  await globalThis.Plotly.react(node, traces, look, QUIET);
  if (node.querySelector(".main-svg").clientWidth !== node.clientWidth) await globalThis.Plotly.Plots.resize(node);
}

function rowHeight(rows) {
  return Math.min(64, Math.max(34, 230 / rows));
}

export function drawShares(node, quotas) {
  const colour = colours();
  const shown = shownQuotas(quotas);
  const row = rowHeight(shown.length);
  const kinds = [...new Set(shown.map((q) => JSON.stringify(q.unit)))].sort((a, b) => (b === "null") - (a === "null"));
  const panels = kinds.map((kind) => shown.filter((q) => JSON.stringify(q.unit) === kind)); // one axis for each unit
  const inside = row * Math.max(shown.length, 2) + TICKS * (panels.length - 1);
  node.style.height = `${52 + inside}px`;
  const traces = [];
  const axes = {};
  let top = 1;
  panels.forEach((panel, n) => {
    const number = n ? n + 1 : "";
    const bottom = n === panels.length - 1 ? 0 : top - (row * panel.length) / inside;
    const rows = panel.map((_, k) => k);
    traces.push(...bars(colour, panel, rows).map((trace) => ({ ...trace, xaxis: `x${number}`, yaxis: `y${number}` })));
    axes[`xaxis${number}`] = { ...sharesRange(panel), nticks: 6, anchor: `y${number}` };
    axes[`yaxis${number}`] = { tickvals: rows, ticktext: panel.map((q) => asText(shortened(q.name))), showgrid: false,
      range: [rows.length - 0.4, -0.6], tickfont: { color: colour.ink }, domain: [bottom, top] };
    top = bottom - TICKS / inside;
  });
  return put(node, traces, layout(colour, axes));
}

function bars(colour, panel, rows) {
  const paint = { binding: colour.fair, broken: colour.bad, met: colour.accent };
  const hover = panel.map((q) => `${asText(q.name)}<br>${q.unit ? "mean" : "share"} ${valueText(q.share, q.unit)}`
    + `, slack ${slackText(q.slack, q.unit)}<br>without quotas ${valueText(q.free_share, q.unit)}`);
  const marks = (values, marker, text) => ({
    type: "scatter", mode: "markers", x: values, y: rows, marker, cliponaxis: false, hoverinfo: "text", hovertext: text,
  });
  const mark = { symbol: "line-ns", size: 22, line: { width: 3, color: colour.cost } };
  return [
    { type: "bar", orientation: "h", x: panel.map((q) => q.share), y: rows, width: 0.56,
      marker: { color: panel.map((q) => paint[q.state] ?? colour.accent), cornerradius: 3 },
      hoverinfo: "text", hovertext: hover },
    marks(panel.map((q) => q.free_share), { symbol: "circle-open", size: 10, color: colour.ink,
      line: { width: 2, color: colour.ink } }, hover),
    marks(panel.map((q) => (q.at_least > ends(q)[0] ? q.at_least : null)), mark,
      panel.map((q) => `${asText(q.name)} is owed ${valueText(q.at_least, q.unit)}`)),
    marks(panel.map((q) => (q.at_most < ends(q)[1] ? q.at_most : null)),
      { ...mark, line: { width: 3, color: colour.bad } },
      panel.map((q) => `${asText(q.name)} may have ${valueText(q.at_most, q.unit)}`)),
  ];
}

function sharesRange(panel) {
  const [low, high] = ends(panel[0]);
  const seen = panel.flatMap((q) => [q.share ?? low, q.free_share ?? low, q.at_least, q.at_most < high ? q.at_most : low]);
  if (!panel[0].unit) return { range: [0, Math.min(1.02, 1.08 * Math.max(0.05, ...seen))], tickformat: ".0%" };
  const zero = Math.min(high, Math.max(low, 0)); // where bars begin
  const [left, right] = [Math.min(zero, ...seen), Math.max(zero, ...seen)];
  const room = 0.08 * (right - left || high - low);
  const edge = 0.02 * (high - low);
  return { range: [Math.max(low - edge, left - room), Math.min(high + edge, right + room)], zeroline: true };
}

export function drawFrontier(node, curve, point) {
  const colour = colours();
  const [low, high] = ends(curve);
  const cap = curve.bound === "at_most";
  const met = curve.values.map((_, k) => k).filter((k) => curve.gains[k] !== null);
  const x = met.map((k) => curve.values[k]);
  const y = met.map((k) => curve.gains[k]);
  const top = y[0];
  const end = curve.last_feasible;
  const [first, far] = cap ? [high, low] : [low, high];
  const beyond = [1.18 * (end - first), 1.05 * (point.value - first), 0.02 * (far - first)].map((way) => first + way);
  const edge = cap ? Math.max(far, Math.min(...beyond)) : Math.min(far, Math.max(...beyond));
  const closed = Math.abs(far - end) <= 1e-9 * (high - low); // the scale ends before what can be met does
  const least = Math.min(...y);
  const height = top - least || Math.abs(top) || 1;
  const asked = cap ? "at most" : "owed";
  const told = (value, gain, slack) => `${asked} ${valueText(value, curve.unit)}<br>gain ${gainText(gain)}, worst slack ${slackText(slack)}`;
  const traces = [
    { type: "scatter", mode: "lines", x, y: y.map(() => top), line: { color: colour.muted, width: 1, dash: "dash" },
      hoverinfo: "skip" },
    { type: "scatter", mode: "lines", x, y, fill: "tonexty", fillcolor: colour["cost-soft"],
      line: { width: 0 }, hoverinfo: "skip" },
    { type: "scatter", mode: "lines+markers", x, y, line: { color: colour.accent, width: 2.5 },
      marker: { size: 6, color: colour.accent }, cliponaxis: false, hoverinfo: "text",
      hovertext: met.map((k) => told(curve.values[k], curve.gains[k], curve.worst_slacks[k])) },
  ];
  if (point.gain !== null) {
    traces.push({ type: "scatter", mode: "markers", x: [point.value], y: [point.gain],
      marker: { size: 15, color: colour.fair, line: { width: 3, color: colour.surface } }, cliponaxis: false, hoverinfo: "text",
      hovertext: [`here: ${told(point.value, point.gain, point.worst_slack)}`] });
  }
  const line = (value, stroke, dash) => ({ type: "line", x0: value, x1: value, y0: 0, y1: 1, yref: "paper",
    line: { color: stroke, width: 1.5, dash } });
  const name = asText(shortened(curve.quota, 30));
  const limit = valueText(curve.own_limit ? end : curve.limit ?? end, curve.unit);
  const why = curve.own_limit ? `${limit} is ${cap ? "owed" : "allowed"}` : `no policy meets ${cap ? "less" : "more"} than ${limit}`;
  const title = curve.unit ? `${name}, at ${cap ? "most" : "least"}` : `share ${cap ? "allowed" : "owed"} to ${name}`;
  node.style.height = "300px";
  return put(node, traces, layout(colour, {
    xaxis: { range: cap ? [edge, first] : [first, edge], nticks: 7, title: { text: title },
      ...(curve.unit ? {} : { tickformat: ".0%" }) },
    yaxis: { title: { text: "best gain" }, range: [least - 0.08 * height, top + 0.1 * height], nticks: 6 },
    shapes: [
      ...(closed ? [] : [{ type: "rect", x0: end, x1: edge, y0: 0, y1: 1, yref: "paper", fillcolor: colour["bad-soft"],
        line: { width: 0 }, layer: "below" }, line(end, colour.bad, "dot")]),
      ...(point.gain === null ? [line(point.value, colour.bad, "solid")] : []),
    ],
    annotations: closed ? [] : [{ x: end, y: 1, yref: "paper", xanchor: cap ? "left" : "right", yanchor: "bottom",
      showarrow: false, font: { size: 12, color: colour.bad }, text: why }],
    margin: { l: 12, r: 16, t: 28, b: 12 },
  }));
}

export function drawPolicy(node, policy) {
  const colour = colours();
  const { states, actions, chances } = policy;
  const cells = states.length * actions.length;
  const rows = states.map((_, s) => s);
  const columns = actions.map((_, a) => a);
  const room = (node.clientWidth - 8 * Math.min(16, Math.max(...states.map((s) => s.length)))) / actions.length;
  const steep = 8 * Math.min(18, Math.max(...actions.map((a) => a.length))) > room;
  node.style.height = `${110 + (states.length > 20 ? 17 : rowHeight(states.length)) * states.length}px`;
  return put(node, [{
    type: "heatmap", x: columns, y: rows, z: chances, zmin: 0, zmax: 1, showscale: false, xgap: 2, ygap: 2,
    colorscale: [[0, colour.line], [1, colour.accent]], hoverinfo: "text", hoverongaps: false,
    hovertext: chances.map((row, s) => row.map((p, a) => (p === null ? "" :
      `${asText(states[s])}: ${asText(actions[a])} ${shareText(p)}<br>visited ${shareText(policy.visitation[s])} of the time`))),
  }], layout(colour, {
    xaxis: { tickvals: columns, ticktext: actions.map((a) => asText(shortened(a, 18))), side: "top", showgrid: false,
      tickangle: steep ? -55 : 0, ticklabeloverflow: "allow", tickfont: { color: colour.ink } },
    yaxis: { tickvals: rows, ticktext: states.map((s) => asText(shortened(s, 16))), showgrid: false,
      autorange: "reversed", tickfont: { color: colour.ink, size: states.length > 20 ? 10 : 13 } },
    margin: { l: 12, r: steep ? 40 : 16, t: 8, b: 12 },
    annotations: cells > MOST_LABELLED ? [] : chances.flatMap((row, s) => row.flatMap((p, a) => (
      p === null || p < 5e-4 ? [] : [{ x: a, y: s, text: `${Number((100 * p).toFixed(1))}`, showarrow: false,
        font: { size: 12, color: p > 0.45 ? colour.surface : colour.ink } }]))),
  }));
}

export async function figureFile(node, format) {
  const box = node.getBoundingClientRect();
  const size = { width: Math.max(480, box.width), height: box.height, scale: 2 };
  const address = await globalThis.Plotly.toImage(node, { format, ...size });
  if (format === "svg") {
    const text = decodeURIComponent(address.slice(address.indexOf(",") + 1));
    return new Blob([text], { type: "image/svg+xml" });
  }
  const bytes = Uint8Array.from(atob(address.split(",")[1]), (letter) => letter.charCodeAt(0));
  return new Blob([bytes], { type: "image/png" });
}
