// The list of runs.

import { drawSparkline, mixtureBar } from "./chart.js";
import { ago, byId, count, data, el, keyed, pathOf, score as digits, scoreName, setBadge, setHidden, setText } from "./dom.js";

const REFRESH_INTERVAL = 2000;
const MAX_COMPARED = 12;
let runs = [];

function make(run) {
  const box = el("input", { type: "checkbox", name: "run", value: run.name, "aria-label": `Compare ${run.name}` });
  box.addEventListener("change", updateSelection);
  const cell = (label, kind, ...inside) => el("td", { class: kind, "data-label": label }, ...inside);
  return el("tr", {}, cell("", "select", box),
    el("th", { scope: "row" }, el("a", { href: `/run/${pathOf(run.name)}` }, run.name === "." ? run.study || "This run" : run.name), el("span", { class: "quiet objective" })),
    cell("Status", "state-cell", el("span", { class: "badge" })), cell("Samples", "samples-cell", el("span"), el("span", { class: "bar-of", "aria-hidden": "true" }, el("span"))),
    cell("Score", "score"), cell("", "sparkline-cell"), cell("", "weights"), cell("Last update", "last-write"));
}

function update(row, run) {
  const [, name, status, samples, score, sparkline, weights, lastWrite] = row.cells;
  setBadge(status.firstChild, run.status.name);
  status.title = run.status.reason ?? "";
  const isReadable = run.samples !== undefined;
  setText(name.querySelector(".objective"), isReadable ? run.objective : run.status.reason);
  setHidden(samples.lastChild, !run.budget?.samples);
  setText(lastWrite, ago(run.last_write));
  if (!isReadable) return;
  const budget = run.budget.samples;
  setText(samples.firstChild, count(run.samples) + (budget ? ` of ${count(budget)}` : ""));
  samples.lastChild.firstChild.style.width = `${Math.min(100, (100 * run.samples) / (budget || 1))}%`;
  setText(score, digits(run.score?.pooled));
  score.dataset.of = run.score ? "score" : "";
  score.title = run.score ? scoreName(run.score) : "";
  redraw(sparkline, run.sparkline, () => drawSparkline(run.sparkline, run.sparkline.length ? `${run.score.name}, from ${digits(run.sparkline[0][1])} to ${digits(run.sparkline.at(-1)[1])}` : "no scores yet"));
  redraw(weights, run.weights, () => mixtureBar(run.weights));
}

function redraw(cell, content, draw) {
  const now = JSON.stringify(content);
  if (cell.dataset.drawn === now) return;
  cell.dataset.drawn = now;
  cell.replaceChildren(draw());
}

function show() {
  keyed(byId("list").tBodies[0], runs, (run) => run.name, make, update);
  setHidden(byId("empty"), runs.length > 0);
  setHidden(byId("form"), runs.length === 0);
  filter();
  updateSelection();
}

function filter() {
  const wanted = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of byId("list").tBodies[0].rows) {
    const text = `${row.cells[1].textContent} ${row.cells[2].textContent}`.toLowerCase();
    const matches = wanted.every((word) => text.includes(word));
    setHidden(row, !matches);
    shown += matches;
  }
  setText(byId("shown-count"), `${count(shown)} ${shown === 1 ? "run" : "runs"}`);
}

function updateSelection() {
  const selected = document.querySelectorAll("input[name=run]:checked").length;
  byId("compare").disabled = selected < 2 || selected > MAX_COMPARED;
  setText(byId("compare"), selected > MAX_COMPARED ? `Compare at most ${MAX_COMPARED} runs` : selected > 1 ? `Compare ${selected} runs` : "Compare");
}

async function refresh() {
  if (!document.hidden) {
    try {
      const response = await fetch("/runs");
      if (!response.ok) throw new Error();
      runs = (await response.json()).runs;
      show();
      setText(byId("connection"), "");
    } catch {
      setText(byId("connection"), "Connection lost. Reconnecting…");
    }
  }
  setTimeout(refresh, REFRESH_INTERVAL);
}

const first = data();
runs = first.runs;
setText(byId("root"), first.root);
byId("filter").addEventListener("input", filter);
byId("filter").addEventListener("keydown", (event) => {
  if (event.key === "Enter") event.preventDefault();  // filtering must not submit the form
});
show();
setTimeout(refresh, REFRESH_INTERVAL);
