// The states of a small model on a circle, with arrows as wide as the long-run flow between them.
import { shareText, shortened } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDE = 560;
const ROOM = 90; // above and below the states, for labels and loops

function shape(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function drawGraph(node, graph) {
  const places = spread(graph);
  const most = Math.max(...graph.edges.map((edge) => edge.flow), 1e-12);
  const edges = graph.edges.map((edge) => arrow(edge, places, most, graph));
  const states = graph.states.map((name, s) => state(name, places[s], graph, s));
  const down = places.map((place) => place.y);
  const [top, bottom] = [Math.min(...down) - ROOM, Math.max(...down) + ROOM];
  node.replaceChildren(shape("svg", { viewBox: `0 ${top} ${WIDE} ${bottom - top}`, class: "graph", "aria-hidden": "true" },
    ...edges, ...states));
}

function spread(graph) {
  const count = graph.states.length;
  const size = count > 12 ? 0.7 : 1;
  return graph.states.map((name, s) => {
    const angle = (2 * Math.PI * s) / count - Math.PI / 2;
    const reach = count === 1 ? 0 : 1;
    const radius = size * (13 + 26 * Math.sqrt(graph.shares[s]));
    return { x: WIDE / 2 + reach * 185 * Math.cos(angle), y: reach * 132 * Math.sin(angle), angle, radius,
      inside: [...name].length <= 3 && radius > 17 };
  });
}

function state(name, place, graph, s) {
  const out = place.radius + 8;
  const side = Math.abs(Math.cos(place.angle)) < 0.3 ? "middle" : Math.cos(place.angle) > 0 ? "start" : "end";
  const label = place.inside
    ? { x: place.x, y: place.y, "text-anchor": "middle", "dominant-baseline": "central", class: "inside" }
    : { x: place.x + out * Math.cos(place.angle), y: place.y + (out + 6) * Math.sin(place.angle),
      "text-anchor": side, "dominant-baseline": "central" };
  return shape("g", {},
    shape("title", {}, `${name}: ${shareText(graph.shares[s])} of the time`),
    shape("circle", { cx: place.x, cy: place.y, r: place.radius, class: "state" }),
    shape("text", label, shortened(name, 14)));
}

function arrow(edge, places, most, graph) {
  const from = places[edge.from];
  const to = places[edge.to];
  const width = 1 + 9 * (edge.flow / most);
  const title = shape("title", {},
    `${graph.states[edge.from]} to ${graph.states[edge.to]}: ${shareText(edge.flow)} of all steps`);
  const line = edge.from === edge.to ? loop(from, width) : bow(from, to, width);
  return shape("g", { class: "flow", opacity: 0.35 + 0.65 * (edge.flow / most) }, title,
    shape("path", { d: line.path, "stroke-width": width, fill: "none" }), shape("path", { d: line.head, class: "head" }));
}

function bow(from, to, width) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy);
  const [nx, ny] = [-dy / length, dx / length];
  const bend = 0.16 * length;
  const middle = { x: (from.x + to.x) / 2 + nx * bend, y: (from.y + to.y) / 2 + ny * bend };
  const start = towards(from, middle, from.radius + 2);
  const tip = towards(to, middle, to.radius + 3);
  const end = towards(to, middle, to.radius + 6 + width);
  return { path: `M${start.x} ${start.y} Q${middle.x} ${middle.y} ${end.x} ${end.y}`, head: head(end, tip, width) };
}

function loop(at, width) {
  const angle = at.angle - (at.inside ? 0 : 1.45); // beside the name, which stands outside
  const corner = (turn, reach) => ({ x: at.x + reach * Math.cos(angle + turn), y: at.y + reach * Math.sin(angle + turn) });
  const start = corner(-0.5, at.radius + 2);
  const tip = corner(0.5, at.radius + 3);
  const end = corner(0.55, at.radius + 6 + width);
  const [one, two] = [corner(-0.75, at.radius + 52), corner(0.75, at.radius + 52)];
  return { path: `M${start.x} ${start.y} C${one.x} ${one.y} ${two.x} ${two.y} ${end.x} ${end.y}`, head: head(end, tip, width) };
}

function towards(from, to, distance) {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  return { x: from.x + ((to.x - from.x) * distance) / length, y: from.y + ((to.y - from.y) * distance) / length };
}

function head(base, tip, width) {
  const [dx, dy] = [tip.x - base.x, tip.y - base.y];
  const length = Math.hypot(dx, dy) || 1;
  const half = 3 + 0.8 * width;
  const [nx, ny] = [(-dy / length) * half, (dx / length) * half];
  return `M${base.x + nx} ${base.y + ny} L${tip.x} ${tip.y} L${base.x - nx} ${base.y - ny} Z`;
}
