// The page that compares several runs.

import { Chart, mixtureBar } from "./chart.js";
import { byId, count, data, duration, el, keyed, markScrolling, number, pathOf, percent, score as digits, scoreName, setBadge, setHidden, setText, swatch } from "./dom.js";

const REFRESH_INTERVAL = 2000;
let found = data();
let chart = null;

const readable = () => found.runs.filter((run) => run.chart !== undefined);

function scores() {
  const all = new Map();
  for (const run of readable()) for (const score of run.scores) if (score.name in run.chart.pooled) all.set(score.name, score);
  return all;
}

function showScoreMenu() {
  const all = scores();
  const choice = byId("score");
  const names = [...all.keys()];
  if ([...choice.options].map((o) => o.value).join() !== names.join()) {
    const before = choice.value;
    choice.replaceChildren(...names.map((name) => el("option", { value: name }, scoreName(all.get(name)))));
    if (all.has(before)) choice.value = before;
  }
  setHidden(choice.closest(".bar"), names.length < 2);
}

function showChart() {
  const score = scores().get(byId("score").value);
  chart ??= new Chart(byId("charts").appendChild(el("figure", { class: "chart" })), "lines", 340);
  const series = readable().map((run, index) => ({ run, index }))
    .filter(({ run }) => score && score.name in run.chart.pooled)
    .map(({ run, index }) => ({ name: run.name, index, dashed: index >= 8, points: run.chart.pooled[score.name].map((y, i) => [run.chart.x[i], y]) }));
  chart.update({ title: score ? `${scoreName(score)} of all samples` : "Score", series });
}

function showTable() {
  const names = [...scores().values()];
  const heads = ["Run", "Status", "Samples", ...names.map(scoreName), "Cost", "Running time"];
  const head = byId("table").tHead;
  if (head.textContent !== heads.join("")) {
    head.replaceChildren(el("tr", {}, ...heads.map((h) => el("th", { scope: "col" }, h))));
    byId("table").tBodies[0].replaceChildren();
  }
  keyed(byId("table").tBodies[0], readable(), (run) => run.name, (run) =>
    el("tr", {}, el("th", { scope: "row" }, el("a", { href: `/run/${pathOf(run.name)}` }, run.name)), el("td", {}, el("span")),
      ...Array.from({ length: 3 + names.length }, () => el("td"))),
  (row, run) => {
    setBadge(row.cells[1].firstChild, run.status.name);
    const of = (name) => run.scores.find((score) => score.name === name)?.pooled;
    const cells = [count(run.samples), ...names.map((score) => digits(of(score.name))), number(run.cost), duration(run.seconds)];
    cells.forEach((text, i) => setText(row.cells[i + 2], text));
  });
}

function showMixtures() {
  const arms = Object.entries(found.colors);
  const key = el("ul", { class: "legend" }, ...arms.map(([arm, color]) => el("li", {}, swatch(color), el("span", {}, arm))));
  const rows = readable().map((run) => {
    const weights = run.weights.map((w) => ({ ...w, color: found.colors[w.arm] }));
    return el("div", { class: "compared" }, el("span", {}, run.name), mixtureBar(weights),
      el("span", { class: "quiet" }, [...weights].sort((a, b) => b.weight - a.weight).slice(0, 3).map((w) => `${w.arm} ${percent(w.weight)}`).join(", ")));
  });
  byId("mixtures").replaceChildren(...rows, key);
}

function show() {
  setHidden(byId("empty"), found.runs.length > 1);
  showScoreMenu();
  showChart();
  showTable();
  showMixtures();
}

async function refresh() {
  if (!document.hidden) {
    try {
      const response = await fetch(`/curves${location.search}`);
      if (!response.ok) throw new Error();
      found = await response.json();
      show();
      setText(byId("connection"), "");
    } catch {
      setText(byId("connection"), "Connection lost. Reconnecting…");
    }
  }
  setTimeout(refresh, REFRESH_INTERVAL);
}

byId("score").addEventListener("change", showChart);
show();
markScrolling();
setTimeout(refresh, REFRESH_INTERVAL);
