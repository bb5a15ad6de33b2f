// Shares, frontier and policy, drawn by plotly from the documents of the server.
import { gainText, shareText, slackText, shortened } from "./format.js";

const QUIET = { displayModeBar: false, responsive: true, doubleClick: "reset" };
const MOST_BARS = 40;
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
  const { xaxis, yaxis, ...rest } = extra;
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, dragmode: false,
    margin: { l: 12, r: 16, t: 8, b: 12 },
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour.ink },
    hoverlabel: { bgcolor: colour.surface, bordercolor: colour.line, font: { color: colour.ink, size: 13 }, align: "left" },
    xaxis: { ...axis, ...xaxis, title: { ...axis.title, ...xaxis?.title } },
    yaxis: { ...axis, ...yaxis, title: { ...axis.title, ...yaxis?.title } },
    ...rest,
  };
}

export function shownQuotas(quotas) {
  if (quotas.length <= MOST_BARS) return quotas;
  return [...quotas].sort((a, b) => (a.slack ?? Infinity) - (b.slack ?? Infinity)).slice(0, MOST_BARS);
}

function rowHeight(rows) {
  return Math.min(64, Math.max(34, 230 / rows));
}

export function drawShares(node, quotas) {
  const colour = colours();
  const shown = shownQuotas(quotas);
  const rows = shown.map((_, k) => k);
  const paint = { binding: colour.fair, broken: colour.bad, met: colour.accent };
  const hover = shown.map((q) => `${asText(q.name)}<br>share ${shareText(q.share)}, slack ${slackText(q.slack)}`
    + `<br>without quotas ${shareText(q.free_share)}`);
  const marks = (values, marker, text) => ({
    type: "scatter", mode: "markers", x: values, y: rows, marker, hoverinfo: "text", hovertext: text,
  });
  const top = Math.max(0.05, ...shown.flatMap((q) => [q.share ?? 0, q.free_share ?? 0, q.at_least,
    q.at_most < 1 ? q.at_most : 0]));
  const mark = { symbol: "line-ns", size: 22, line: { width: 3, color: colour.cost } };
  node.style.height = `${52 + rowHeight(shown.length) * Math.max(shown.length, 2)}px`;
  return globalThis.Plotly.react(node, [
    { type: "bar", orientation: "h", x: shown.map((q) => q.share), y: rows, width: 0.56,
      marker: { color: shown.map((q) => paint[q.state] ?? colour.accent), cornerradius: 3 },
      hoverinfo: "text", hovertext: hover },
    marks(shown.map((q) => q.free_share), { symbol: "circle-open", size: 10, color: colour.ink,
      line: { width: 2, color: colour.ink } }, hover),
    marks(shown.map((q) => (q.at_least > 0 ? q.at_least : null)), mark,
      shown.map((q) => `${asText(q.name)} is owed ${shareText(q.at_least)}`)),
    marks(shown.map((q) => (q.at_most < 1 ? q.at_most : null)),
      { ...mark, line: { width: 3, color: colour.bad } },
      shown.map((q) => `${asText(q.name)} may have ${shareText(q.at_most)}`)),
  ], layout(colour, {
    xaxis: { range: [0, Math.min(1.02, 1.08 * top)], tickformat: ".0%", nticks: 6 },
    yaxis: { tickvals: rows, ticktext: shown.map((q) => asText(shortened(q.name))), showgrid: false,
      range: [rows.length - 0.4, -0.6], tickfont: { color: colour.ink } },
  }), QUIET);
}

export function drawFrontier(node, curve, point) {
  const colour = colours();
  const met = curve.values.map((_, k) => k).filter((k) => curve.gains[k] !== null);
  const x = met.map((k) => curve.values[k]);
  const y = met.map((k) => curve.gains[k]);
  const top = y[0];
  const end = curve.last_feasible;
  const right = Math.min(1, Math.max(end * 1.18, point.value * 1.05, 0.02));
  const low = Math.min(...y);
  const span = top - low || Math.abs(top) || 1;
  const traces = [
    { type: "scatter", mode: "lines", x, y: y.map(() => top), line: { color: colour.muted, width: 1, dash: "dash" },
      hoverinfo: "skip" },
    { type: "scatter", mode: "lines", x, y, fill: "tonexty", fillcolor: colour["cost-soft"],
      line: { width: 0 }, hoverinfo: "skip" },
    { type: "scatter", mode: "lines+markers", x, y, line: { color: colour.accent, width: 2.5 },
      marker: { size: 6, color: colour.accent }, hoverinfo: "text",
      hovertext: met.map((k) => `owed ${shareText(curve.values[k])}<br>gain ${gainText(curve.gains[k])}, worst slack `
        + `${slackText(curve.worst_slacks[k])}`) },
  ];
  if (point.gain !== null) {
    traces.push({ type: "scatter", mode: "markers", x: [point.value], y: [point.gain],
      marker: { size: 15, color: colour.fair, line: { width: 3, color: colour.surface } }, hoverinfo: "text",
      hovertext: [`here: owed ${shareText(point.value)}<br>gain ${gainText(point.gain)}, worst slack `
        + `${slackText(point.worst_slack)}`] });
  }
  const line = (value, stroke, dash) => ({ type: "line", x0: value, x1: value, y0: 0, y1: 1, yref: "paper",
    line: { color: stroke, width: 1.5, dash } });
  node.style.height = "300px";
  return globalThis.Plotly.react(node, traces, layout(colour, {
    xaxis: { range: [0, right], tickformat: ".0%", nticks: 7, title: { text: `share owed to ${asText(shortened(curve.quota, 30))}` } },
    yaxis: { title: { text: "best gain" }, range: [low - 0.08 * span, top + 0.1 * span], nticks: 6 },
    shapes: [
      { type: "rect", x0: end, x1: right, y0: 0, y1: 1, yref: "paper", fillcolor: colour["bad-soft"],
        line: { width: 0 }, layer: "below" },
      line(end, colour.bad, "dot"),
      ...(point.gain === null ? [line(point.value, colour.bad, "solid")] : []),
    ],
    annotations: [{ x: end, y: 1, yref: "paper", xanchor: "right", yanchor: "bottom", showarrow: false,
      text: `no policy meets more than ${shareText(curve.limit ?? end)}`, font: { size: 12, color: colour.bad } }],
    margin: { l: 12, r: 16, t: 28, b: 12 },
  }), QUIET);
}

export function drawPolicy(node, policy) {
  const colour = colours();
  const { states, actions, chances } = policy;
  const cells = states.length * actions.length;
  const rows = states.map((_, s) => s);
  const columns = actions.map((_, a) => a);
  const steep = actions.length > 6 || Math.max(...actions.map((a) => a.length)) > 12;
  node.style.height = `${110 + (states.length > 20 ? 17 : rowHeight(states.length)) * states.length}px`;
  return globalThis.Plotly.react(node, [{
    type: "heatmap", x: columns, y: rows, z: chances, zmin: 0, zmax: 1, showscale: false, xgap: 2, ygap: 2,
    colorscale: [[0, colour.line], [1, colour.accent]], hoverinfo: "text", hoverongaps: false,
    hovertext: chances.map((row, s) => row.map((p, a) => (p === null ? "" :
      `${asText(states[s])}: ${asText(actions[a])} ${shareText(p)}<br>visited ${shareText(policy.visitation[s])} of the time`))),
  }], layout(colour, {
    xaxis: { tickvals: columns, ticktext: actions.map((a) => asText(shortened(a, 18))), side: "top", showgrid: false,
      tickangle: steep ? -40 : 0, tickfont: { color: colour.ink } },
    yaxis: { tickvals: rows, ticktext: states.map((s) => asText(shortened(s, 16))), showgrid: false,
      autorange: "reversed", tickfont: { color: colour.ink, size: states.length > 20 ? 10 : 13 } },
    annotations: cells > MOST_LABELLED ? [] : chances.flatMap((row, s) => row.flatMap((p, a) => (
      p === null || p < 5e-4 ? [] : [{ x: a, y: s, text: `${Number((100 * p).toFixed(1))}`, showarrow: false,
        font: { size: 12, color: p > 0.45 ? colour.surface : colour.ink } }]))),
  }), QUIET);
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
