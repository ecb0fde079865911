// The list of runs.

import { mixtureBar, spark } from "./chart.js";
import { ago, byId, count, data, el, keyed, pathOf, score as digits, scoreName, setBadge, setHidden, setText } from "./dom.js";

const EVERY = 2000;
const MOST = 12;
let runs = [];

function make(run) {
  const box = el("input", { type: "checkbox", name: "run", value: run.name, "aria-label": `Compare ${run.name}` });
  box.addEventListener("change", choose);
  const cell = (label, kind, ...inside) => el("td", { class: kind, "data-label": label }, ...inside);
  return el("tr", {}, cell("", "choose", box),
    el("th", { scope: "row" }, el("a", { href: `/run/${pathOf(run.name)}` }, run.name === "." ? run.study || "this run" : run.name), el("span", { class: "quiet objective" })),
    cell("Status", "state", el("span", { class: "badge" })), cell("Samples", "told", el("span"), el("span", { class: "bar-of", "aria-hidden": "true" }, el("span"))),
    cell("Score", "score"), cell("", "sparks"), cell("", "weights"), cell("Last sign", "at"));
}

function update(row, run) {
  const [, name, status, samples, score, sparks, weights, at] = row.cells;
  setText(name.querySelector(".objective"), run.objective ?? "");
  setBadge(status.firstChild, run.status);
  status.title = run.reason ?? "";
  if (run.status === "unreadable") {
    setText(score, run.reason);
    return;
  }
  const budget = run.budget.samples;
  setText(samples.firstChild, count(run.samples) + (budget ? ` of ${count(budget)}` : ""));
  setHidden(samples.lastChild, !budget);
  samples.lastChild.firstChild.style.width = `${Math.min(100, (100 * run.samples) / (budget || 1))}%`;
  setText(score, digits(run.score?.pooled));
  score.dataset.of = run.score ? "score" : "";
  score.title = run.score ? scoreName(run.score) : "";
  redraw(sparks, run.spark, () => spark(run.spark, run.spark.length ? `${run.score.name}, from ${digits(run.spark[0][1])} to ${digits(run.spark.at(-1)[1])}` : "no scores yet"));
  redraw(weights, run.weights, () => mixtureBar(run.weights));
  setText(at, ago(run.at));
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
  choose();
}

function filter() {
  const wanted = byId("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of byId("list").tBodies[0].rows) {
    const words = `${row.cells[1].textContent} ${row.cells[2].textContent}`.toLowerCase();
    const fits = wanted.every((word) => words.includes(word));
    setHidden(row, !fits);
    shown += fits;
  }
  setText(byId("counted"), `${count(shown)} ${shown === 1 ? "run" : "runs"}`);
}

function choose() {
  const chosen = document.querySelectorAll("input[name=run]:checked").length;
  byId("compare").disabled = chosen < 2 || chosen > MOST;
  setText(byId("compare"), chosen > MOST ? `Compare at most ${MOST} runs` : chosen > 1 ? `Compare ${chosen} runs` : "Compare");
}

async function refresh() {
  if (!document.hidden) {
    try {
      const answer = await fetch("/runs");
      if (!answer.ok) throw new Error();
      runs = (await answer.json()).runs;
      show();
      setText(byId("connection"), "");
    } catch {
      setText(byId("connection"), "No connection, trying again…");
    }
  }
  setTimeout(refresh, EVERY);
}

const first = data();
runs = first.runs;
setText(byId("root"), first.root);
byId("find").addEventListener("input", filter);
byId("find").addEventListener("keydown", (event) => {
  if (event.key === "Enter") event.preventDefault();  // to find is not to compare
});
show();
setTimeout(refresh, EVERY);
