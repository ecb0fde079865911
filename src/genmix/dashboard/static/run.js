// The page of one run: what the server knows at first, then every change as it comes.

import { Chart } from "./chart.js";
import {
  byId, clock, count, data, duration, el, keyed, number, pathOf, percent, score as digits, scoreName, setBadge, setHidden, setText,
  swatch,
} from "./dom.js";

const state = data();
const path = pathOf(state.name);
const charts = new Map();
const SAY_EVERY = 10_000;
let said = 0;
let stream = null;

// -- facts ----------------------------------------------------------------------------------------

function facts() {
  const { budget, life } = state;
  const found = [];
  const limit = budget.samples ? ` of ${count(budget.samples)}` : "";
  found.push({ name: "Samples", value: count(state.samples), more: limit, share: budget.samples ? state.samples / budget.samples : null });
  if (life.active) found.push({ name: "Rate", value: state.rate === null ? "–" : Number(state.rate.toPrecision(3)).toLocaleString("en-US"), more: " a second" });
  if (life.active) found.push({ name: "Time left", value: state.left === null ? "–" : duration(state.left) });
  const time = budget.time ? ` of ${duration(budget.time)}` : "";
  found.push({ name: "Running time", value: duration(state.seconds), more: time, share: budget.time ? state.seconds / budget.time : null });
  if (state.cost !== null || budget.cost !== null) {
    const most = budget.cost === null || budget.cost === undefined ? "" : ` of ${number(budget.cost)}`;
    found.push({ name: "Cost", value: number(state.cost), more: most, share: budget.cost ? state.cost / budget.cost : null });
  }
  for (const score of state.scores) {
    found.push({ name: scoreName(score), value: digits(score.pooled), more: score.mixture === null ? "" : ` mixture ${digits(score.mixture)}` });
  }
  found.push({ name: "Failed attempts", value: count(state.failed) });
  return found;
}

function showFacts() {
  keyed(byId("facts"), facts(), (fact) => fact.name, (fact) =>
    el("div", {}, el("dt", {}, fact.name), el("dd", {}, el("b"), el("span")), el("span", { class: "bar-of", "aria-hidden": "true" }, el("span"))),
  (node, fact) => {
    setText(node.querySelector("b"), fact.value);
    setText(node.querySelector("dd span"), fact.more ?? "");
    const bar = node.querySelector(".bar-of");
    setHidden(bar, fact.share === null || fact.share === undefined);
    bar.firstChild.style.width = `${100 * Math.min(fact.share ?? 0, 1)}%`;
  });
}

function showLife() {
  const { life } = state;
  const before = byId("status").textContent;
  setBadge(byId("status"), life.status);
  setText(byId("reason"), life.reason ?? "");
  if (before && before !== byId("status").textContent) say(`The run is ${byId("status").textContent}. ${life.reason ?? ""}`);
  const stop = byId("stop");
  setHidden(stop, !life.can_stop && !life.can_stop_at_once);
  setText(stop, life.can_stop_at_once ? "Stop at once" : "Stop");
  setHidden(byId("resume"), !life.can_resume);
  setHidden(byId("report"), !state.report);
  setText(byId("report"), state.report_is_old ? "Report of before" : "Report");
  const words = [state.study === state.name ? null : state.study, state.objective].filter(Boolean).join(" · ");
  setText(byId("study"), words);
}

function say(words) {
  said = Date.now();
  setText(byId("said"), words);
}

// -- charts ---------------------------------------------------------------------------------------

function chart(name, kind) {
  if (!charts.has(name)) {
    const figure = el("figure", { class: "chart" });
    byId("charts").append(figure);
    charts.set(name, new Chart(figure, kind));
  }
  return charts.get(name);
}

function showCharts() {
  const { x, kind, weights, pooled, mixture } = state.chart;
  const along = (values) => values.map((value, i) => [x[i], value]);
  const colours = Object.fromEntries(state.arms.map((arm) => [arm.name, arm.colour]));
  chart("weights", "areas").update({
    title: kind === "weight" ? "Weights" : "Shares of the samples",
    series: Object.entries(weights).map(([arm, values]) => ({ name: arm, points: along(values), colour: colours[arm] })),
  });
  for (const score of state.scores) {
    if (!(score.name in pooled)) continue;
    chart(`score ${score.name}`, "lines").update({
      title: scoreName(score),
      series: [
        { name: "all samples", points: along(pooled[score.name]), index: 0 },
        { name: "current mixture", points: along(mixture[score.name]), index: 1, dashed: true },
      ],
    });
  }
  byId("charts").classList.toggle("one", charts.size === 1);
}

// -- tables and lists -----------------------------------------------------------------------------

function showArms() {
  const names = [...new Set(state.arms.flatMap((arm) => Object.keys(arm.alone)))];
  const heads = ["Arm", "Weight", "Samples", "In flight", "Failed", ...names.map((n) => `${n.replaceAll("_", " ")} alone`), "State"];
  const head = byId("arms").tHead;
  if (head.textContent !== heads.join("")) head.replaceChildren(el("tr", {}, ...heads.map((h) => el("th", { scope: "col" }, h))));
  keyed(byId("arms").tBodies[0], state.arms, (arm) => `${arm.name}|${names.length}`, (arm) => {
    const bar = el("span", { class: "bar-of", "aria-hidden": "true" }, el("span"));
    bar.firstChild.style.background = arm.colour;
    return el("tr", {}, el("th", { scope: "row" }, swatch(arm.colour), el("span", {}, arm.name)),
      el("td", {}, el("span", { class: "weight" }), bar), ...Array.from({ length: 4 + names.length }, () => el("td")));
  }, (row, arm) => {
    setText(row.querySelector(".weight"), percent(arm.weight));
    row.querySelector(".bar-of span").style.width = `${100 * (arm.weight ?? 0)}%`;
    const cells = [count(arm.count), count(arm.flying), count(arm.failures), ...names.map((n) => digits(arm.alone[n])), arm.state || "drawn from"];
    cells.forEach((text, i) => setText(row.cells[i + 2], text));
  });
}

function showSamples() {
  const colours = Object.fromEntries(state.arms.map((arm) => [arm.name, arm.colour]));
  keyed(byId("newest"), state.newest, (sample) => sample.id, (sample) => {
    const content = sample.image
      ? el("img", { src: `/image/${sample.id}/${path}`, alt: `Sample ${sample.id} of ${sample.arm}`, loading: "lazy" })
      : el("p", { class: sample.text === null ? "quiet" : "text", dir: "auto" }, words(sample));
    const facts = [clock(sample.at), sample.cost === null ? null : `cost ${number(sample.cost)}`, sample.quality === null ? null : `quality ${number(sample.quality)}`];
    return el("li", {}, el("p", { class: "by" }, swatch(colours[sample.arm]), el("span", {}, sample.arm), el("span", { class: "quiet" }, facts.filter(Boolean).join(" · "))),
      content, sample.prompt ? el("p", { class: "quiet prompt", dir: "auto" }, sample.prompt) : null);
  });
  none("newest", "No sample yet.");
}

function words(sample) {
  if (sample.text === null) return sample.source ? `a vector: ${sample.source}` : "a vector";
  const rest = sample.letters - [...sample.text].length;
  return rest > 0 ? `${sample.text}… (${count(rest)} more letters)` : sample.text;
}

function showFailures() {
  const fresh = byId("failures").dataset.seen !== undefined && state.failures.length && String(state.failures[0].id) !== byId("failures").dataset.seen;
  byId("failures").dataset.seen = state.failures[0]?.id ?? "";
  keyed(byId("failures"), alike(state.failures), (failure) => `${failure.id} ${failure.times}`, (failure) =>
    el("li", {}, el("span", { class: "quiet" }, clock(failure.at)), " ", el("b", {}, failure.arm), ` ${failure.stage === "encode" ? "(encoder) " : ""}`,
      el("span", { dir: "auto" }, failure.message), failure.times > 1 ? el("span", { class: "quiet" }, ` (${failure.times} in a row)`) : null));
  setText(byId("failed"), state.failed ? count(state.failed) : "");
  none("failures", "None.");
  if (fresh && Date.now() - said > SAY_EVERY) say(`A failure of ${state.failures[0].arm}: ${state.failures[0].message}`);
}

/** Neighbours that say the same become one. */
function alike(failures) {
  const found = [];
  for (const each of failures) {
    const last = found.at(-1);
    if (last && ["arm", "stage", "message"].every((key) => last[key] === each[key])) last.times += 1;
    else found.push({ ...each, times: 1 });
  }
  return found;
}

function showEvents() {
  keyed(byId("events"), state.events, (event) => event.id, (event) =>
    el("li", {}, el("span", { class: "quiet" }, clock(event.at)), " ", el("b", {}, event.kind), event.arm === null ? "" : ` ${event.arm}`, event.why ? `: ${event.why}` : ""));
  none("events", "Nothing yet.");
}

function none(id, words) {
  const list = byId(id);
  if (!list.children.length) list.append(el("li", { class: "quiet", "data-key": "none" }, words));
}

function show(news) {
  showLife();
  showFacts();
  if ("chart" in news || "arms" in news || "scores" in news) showCharts();
  if ("arms" in news) showArms();
  if ("newest" in news) showSamples();
  if ("failures" in news) showFailures();
  if ("events" in news) showEvents();
}

// -- the stream -----------------------------------------------------------------------------------

function connect() {
  stream = new EventSource(`/events/${path}`);
  stream.addEventListener("open", () => setText(byId("connection"), ""));
  stream.addEventListener("state", (event) => {
    const news = JSON.parse(event.data);
    Object.assign(state, news);
    show(news);
  });
  stream.addEventListener("trouble", (event) => setText(byId("connection"), JSON.parse(event.data).error));
  stream.addEventListener("gone", () => {
    stream.close();
    setText(byId("connection"), "The run's folder is gone.");
  });
  stream.addEventListener("error", () => setText(byId("connection"), "No connection, trying again…"));
}

// Browsers allow six connections to one server: a page that nobody sees lets go of its own.
document.addEventListener("visibilitychange", () => {
  stream?.close();
  if (!document.hidden) connect();
});
window.addEventListener("pagehide", () => stream?.close());

async function act(button, address) {
  button.disabled = true;
  setHidden(byId("error"), true);
  try {
    const answer = await fetch(address, { method: "POST" });
    const content = await answer.json();
    if (!answer.ok) throw new Error(content.error);
    state.life = content;
    showLife();
  } catch (error) {
    setText(byId("error"), error.message);
    setHidden(byId("error"), false);
  }
  button.disabled = false;
}

setText(byId("name"), state.name === "." ? state.study : state.name);
byId("report").href = `/report/${path}`;
byId("stop").addEventListener("click", () => act(byId("stop"), `/stop/${path}${state.life.can_stop_at_once ? "?now" : ""}`));
byId("resume").addEventListener("click", () => act(byId("resume"), `/resume/${path}`));
show(state);
connect();
