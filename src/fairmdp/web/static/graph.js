// The states of a small model on a circle, with arrows as wide as the long-run flow between them.
import { shareText } from "./format.js";
import { fittedAll, ink, mark, OUTLINED, picture, put, shape, widest, words } from "./plot.js";

const WIDEST = 520; // px
const MANY = 12; // states, from which on they are smaller

export function drawGraph(part, graph) {
  part.note.textContent = "Circles grow with the share of time, arrows with the flow along them.";
  part.figure.setAttribute("aria-label", `Graph of ${graph.states.length} states: ${graph.states
    .map((name, s) => `${name} ${shareText(graph.shares[s])}`).join(", ")}.`);
  put(part.figure, (width) => {
    const { places, height } = spread(graph, width);
    const most = Math.max(...graph.edges.map((edge) => edge.flow), 1e-12);
    return picture(width, height, ...graph.edges.map((edge) => arrow(edge, places, most, graph)),
      ...graph.states.map((name, s) => state(name, places[s], graph, s)));
  });
}

// Where the states stand: on an ellipse that leaves room for the names beside it, and for loops all around.
function spread(graph, width) {
  const count = graph.states.length;
  const many = count > MANY;
  const radii = graph.shares.map((share) => (many ? 0.62 : 1) * (13 + 26 * Math.sqrt(share)));
  const angles = graph.states.map((_, s) => (2 * Math.PI * s) / count - Math.PI / 2);
  const sides = angles.map((angle) => (Math.abs(Math.cos(angle)) < 0.3 ? "middle" : Math.cos(angle) > 0 ? "start" : "end"));
  const texts = fittedAll(graph.states, 0.24 * width, 16);
  const labels = texts.map((text, s) => ([...text].length <= 3 && radii[s] > 15 ? "" : text));
  const room = Math.max(many ? 40 : 56, 2.2 * Math.max(...radii) + 12);
  const across = count === 1 ? 0 : Math.min(width, WIDEST) / 2 - Math.max(56, widest(labels.filter((_, s) => sides[s] !== "middle")) + Math.max(...radii) + 12);
  const down = Math.max((many ? 0.94 : 0.8) * across, count === 1 ? 0 : Math.min(150, 22 * count));
  const places = angles.map((angle, s) => ({ x: width / 2 + across * Math.cos(angle), y: room + down * (1 + Math.sin(angle)),
    angle, radius: radii[s], label: labels[s], side: sides[s], inside: !labels[s] }));
  return { places, height: Math.max(...places.map((place) => place.y)) + room };
}

function state(name, place, graph, s) {
  const out = place.radius + 8;
  const label = place.inside ? words(name, place.x, place.y, { "text-anchor": "middle", "font-weight": 600 })
    : words(place.label, place.x + out * Math.cos(place.angle), place.y + (out + 6) * Math.sin(place.angle),
      { "text-anchor": place.side, "font-weight": 600, ...OUTLINED });
  return mark(`${name}\n${shareText(graph.shares[s])} of the time`, [place.x, place.y - place.radius],
    shape("circle", { cx: place.x, cy: place.y, r: place.radius, fill: ink("accent-soft"), stroke: ink("accent"), "stroke-width": 2, class: "state" }), label);
}

function arrow(edge, places, most, graph) {
  const [from, to] = [places[edge.from], places[edge.to]];
  const part = edge.flow / most;
  const width = 1 + (graph.states.length > MANY ? 6 : 8) * part;
  const { path, tip, base, middle } = edge.from === edge.to ? loop(from, width) : bow(from, to, width);
  return mark(`${graph.states[edge.from]} to ${graph.states[edge.to]}\n${shareText(edge.flow)} of all steps`, [middle.x, middle.y],
    shape("path", { d: path, fill: "none", stroke: ink("muted"), "stroke-width": width, opacity: 0.25 + 0.75 * part, class: "flow" }),
    shape("path", { d: head(base, tip, width), fill: ink("muted"), opacity: 0.25 + 0.75 * part }),
    shape("path", { d: path, fill: "none", stroke: "transparent", "stroke-width": Math.max(10, width), "pointer-events": "stroke" }));
}

function bow(from, to, width) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const middle = { x: (from.x + to.x) / 2 - 0.16 * dy, y: (from.y + to.y) / 2 + 0.16 * dx };
  const start = towards(from, middle, from.radius + 2);
  const tip = towards(to, middle, to.radius + 3);
  const base = towards(to, middle, to.radius + 6 + width);
  const half = { x: (start.x + 2 * middle.x + base.x) / 4, y: (start.y + 2 * middle.y + base.y) / 4 };
  return { path: `M${start.x} ${start.y}Q${middle.x} ${middle.y} ${base.x} ${base.y}`, tip, base, middle: half };
}

function loop(at, width) {
  const angle = at.angle - (at.inside ? 0 : 1.45); // beside the name, which stands outside
  const corner = (turn, reach) => ({ x: at.x + reach * Math.cos(angle + turn), y: at.y + reach * Math.sin(angle + turn) });
  const [start, tip, base] = [corner(-0.5, at.radius + 2), corner(0.5, at.radius + 3), corner(0.55, at.radius + 6 + width)];
  const [one, two] = [corner(-0.75, 2.6 * at.radius + 8), corner(0.75, 2.6 * at.radius + 8)];
  return { path: `M${start.x} ${start.y}C${one.x} ${one.y} ${two.x} ${two.y} ${base.x} ${base.y}`, tip, base, middle: corner(0, 2 * at.radius + 6) };
}

function towards(from, to, distance) {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  return { x: from.x + ((to.x - from.x) * distance) / length, y: from.y + ((to.y - from.y) * distance) / length };
}

function head(base, tip, width) {
  const [dx, dy] = [tip.x - base.x, tip.y - base.y];
  const half = (3 + 0.8 * width) / (Math.hypot(dx, dy) || 1);
  return `M${base.x - dy * half} ${base.y + dx * half}L${tip.x} ${tip.y}L${base.x + dy * half} ${base.y - dx * half}Z`;
}
