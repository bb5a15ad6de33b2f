// Elements from data. Text is always set as text: names come from files and may hold anything.

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// A table; where the page is narrow its rows become blocks, whose cells say what they are.
export function table(head, rows, label) {
  const cell = (content, column) => el(column === 0 ? "th" : "td", { "data-label": head[column],
    ...(column === 0 ? { scope: "row", role: "rowheader" } : { role: "cell" }) }, el("span", {}, ...[content].flat()));
  return el("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" },
    el("table", { role: "table" },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...head.map((text) => el("th", { scope: "col", role: "columnheader" }, text)))),
      el("tbody", { role: "rowgroup" }, ...rows.map((row) => el("tr", { role: "row" }, ...row.map(cell))))));
}
