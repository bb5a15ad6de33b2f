// Opening another problem: a ready-made one with its parameters, a file, chosen or dropped, or rules in Python.
import { el, fill } from "./dom.js";

const FILES = ".toml,.npz,.csv,.tsv,.parquet,.tra,.drn,.umb";

export function showChooser(dialog, { scenarios, modules }, open, openFile) {
  const fields = el("div", { class: "fields" });
  const story = el("p", { class: "muted" });
  const choice = el("select", { id: "scenario", on: { change: () => describe(scenarios[choice.selectedIndex]) } },
    ...scenarios.map((scenario) => el("option", {}, scenario.name)));
  let inputs = [];
  function describe(scenario) {
    story.textContent = `${scenario.story[0].toUpperCase()}${scenario.story.slice(1)}.`;
    inputs = Object.entries(scenario.params).map(([key, value]) => [key, value,
      el("input", { id: `param-${key}`, value, autocomplete: "off", spellcheck: "false" })]);
    fill(fields, ...inputs.map(([key, , input]) => el("div", {}, el("label", { for: input.id }, key.replaceAll("_", " ")), input)));
  }
  function opened(event) {
    event.preventDefault();
    const changed = inputs.filter(([, value, input]) => input.value.trim() !== value).map(([key, , input]) => [key, input.value.trim()]);
    dialog.close();
    open({ kind: "scenario", name: scenarios[choice.selectedIndex].name, params: Object.fromEntries(changed) });
  }
  const file = el("input", { id: "file", type: "file", accept: FILES,
    on: { change: () => { if (file.files.length) { dialog.close(); openFile(file.files[0]); } } } });
  fill(dialog, el("h2", { id: "chooser-title" }, "Open a problem"),
    el("form", { on: { submit: opened } },
      el("label", { for: "scenario" }, "A ready-made one"), choice, story, fields,
      el("div", { class: "buttons" }, el("button", { type: "submit", class: "primary" }, "Open it"),
        el("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel"))),
    el("hr"), el("label", { for: "file" }, "Or a file of your own: a table of transitions (.csv, .parquet; columns state, action, next, probability and reward),"
      + " .toml, .npz, .tra, .drn or .umb. You can also drop it anywhere on the page."), file,
    ...(modules ? [el("hr"), rules(dialog, open)] : []));
  describe(scenarios[0]);
  dialog.showModal();
}

function rules(dialog, open) {
  const name = el("input", { id: "module", autocomplete: "off", spellcheck: "false", placeholder: "shop:model", required: true, pattern: "[^:]+:[^:]+" });
  const opened = (event) => {
    event.preventDefault();
    dialog.close();
    open({ kind: "module", name: name.value.trim() });
  };
  return el("form", { on: { submit: opened } },
    el("label", { for: "module" }, "Or a model that Python makes, module:function, in the folder where fairmdp explore was started"),
    el("div", { class: "command" }, name, el("button", { type: "submit" }, "Make it")));
}

export function acceptDrops(overlay, openFile) {
  let depth = 0;
  const carries = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragenter", (event) => { if (carries(event)) { depth += 1; overlay.hidden = false; } });
  addEventListener("dragleave", () => { depth = Math.max(0, depth - 1); overlay.hidden = depth === 0; });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    overlay.hidden = true;
    if (event.dataTransfer.files.length) openFile(event.dataTransfer.files[0]);
  });
}
