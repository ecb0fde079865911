// The page of one run: drawn from the data in the page, then updated by the event stream, or by polling if the server has too many streams.

import { Chart } from "./chart.js";
import {
  byId, clock, count, data, duration, el, keyed, markScrolling, number, pathOf, percent, score as digits, scoreName, setBadge, setHidden, setText,
  swatch,
} from "./dom.js";

const state = data();
const path = pathOf(state.name);
const charts = new Map();
const ANNOUNCE_INTERVAL = 10_000;
let announcedAt = 0;
let shownGroups = "";
let everyArm = null;  // all arms, if the user asked for them
const EVENTS = { start: "started", retire: "retired", revive: "revived", join: "joined", suspend: "suspended", trouble: "failed" };
const CARD_WIDTH = 162;  // including the gap
const POLL_INTERVAL = 2000;
const POLLS_PER_RETRY = 5;
let stream = null;
let timer = null;

// -- facts ----------------------------------------------------------------------------------------

function facts() {
  const { budget } = state;
  const found = [];
  const limit = budget.samples ? ` of ${count(budget.samples)}` : "";
  found.push({ name: "Samples", value: count(state.samples), more: limit, share: budget.samples ? state.samples / budget.samples : null });
  if (state.status.is_active && state.rate !== null) found.push({ name: "Rate", value: Number(state.rate.toPrecision(3)).toLocaleString("en-US"), more: " per second" });
  if (state.status.is_active && state.time_left !== null) found.push({ name: "Time left", value: duration(state.time_left) });
  const time = budget.time ? ` of ${duration(budget.time)}` : "";
  found.push({ name: "Running time", value: duration(state.seconds), more: time, share: budget.time ? state.seconds / budget.time : null });
  const isLimited = budget.cost !== null && budget.cost !== undefined;
  if (state.cost || isLimited) {
    const most = isLimited ? ` of ${number(budget.cost)}` : "";
    found.push({ name: "Cost", value: number(state.cost ?? 0), more: most, share: budget.cost ? state.cost / budget.cost : null });
  }
  for (const score of state.scores) {
    found.push({ name: scoreName(score), value: digits(score.pooled), more: score.mixture === null ? "" : ` mixture ${digits(score.mixture)}` });
  }
  for (const score of state.kept ? state.scores.filter((each) => each.name in state.kept.scores) : []) {
    const { count: size, samples, scores, bound, is_final: isFinal } = state.kept;
    const which = isFinal && samples === state.samples ? `${count(size)} kept` : `best ${count(size)} so far`;
    found.push({ name: `${scoreName(score)} of the ${which}`, value: digits(scores[score.name]), more: bound === null ? "" : ` bound ${digits(bound)}` });
  }
  if (state.failure_count) found.push({ name: "Failed attempts", value: count(state.failure_count) });
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
  arrangeFacts();
}

/** Put about the same number of cards in every row, so that no card is alone in the last one. */
function arrangeFacts() {
  const box = byId("facts");
  const fit = Math.max(Math.floor((box.clientWidth + 12) / CARD_WIDTH), 2);
  const rows = Math.ceil(box.children.length / fit);
  box.style.gridTemplateColumns = `repeat(${Math.ceil(box.children.length / rows)}, minmax(0, 1fr))`;
}

function showStatus() {
  const { status } = state;
  const before = byId("status").textContent;
  setBadge(byId("status"), status.name);
  setText(byId("reason"), status.reason ?? "");
  const now = byId("status").textContent;
  if (before && before !== now) announce(`Run status: ${now}. ${status.reason ?? ""}`);
  const stop = byId("stop");
  setHidden(stop, !status.can_stop && !status.can_stop_now);
  setText(stop, status.can_stop_now ? "Stop now" : "Stop");
  setHidden(byId("resume"), !status.can_resume);
  setHidden(byId("report"), !state.report);
  setText(byId("report"), state.report_is_old ? "Report (outdated)" : "Report");
  setText(byId("study"), [state.study === state.name ? null : state.study, state.objective].filter(Boolean).join(" · "));
}

function announce(message) {
  announcedAt = Date.now();
  setText(byId("announcement"), message);
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
  const { x, kind, part, colors, weights, pooled, mixture } = state.chart;
  const along = (values) => values.map((value, i) => [x[i], value]);
  chart("weights", "areas").update({
    title: `${kind === "weight" ? "Weights" : "Share of samples"}${part ? ` by part ${part} of the names` : ""}`,
    series: Object.entries(weights).map(([arm, values]) => ({ name: arm, points: along(values), color: colors[arm] })),
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

function armColors() {
  const others = state.other_arms ? [[state.other_arms.name, state.other_arms.color]] : [];
  return Object.fromEntries([...state.arms.map((arm) => [arm.name, arm.color]), ...others]);
}

function showArms() {
  const shown = everyArm ?? state.arms;
  const names = [...new Set(shown.flatMap((arm) => Object.keys(arm.single_scores)))];
  const heads = ["Arm", "Weight", "Samples", "In flight", "Failures", ...names.map((n) => `${n.replaceAll("_", " ")} alone`), "State"];
  const head = byId("arms").tHead;
  if (head.textContent !== heads.join("")) head.replaceChildren(el("tr", {}, ...heads.map((h) => el("th", { scope: "col" }, h))));
  keyed(byId("arms").tBodies[0], shown, (arm) => `${arm.name}|${names.length}`, (arm) => {
    const bar = el("span", { class: "bar-of", "aria-hidden": "true" }, el("span"));
    bar.firstChild.style.background = arm.color;
    return el("tr", {}, el("th", { scope: "row" }, swatch(arm.color), el("span", {}, arm.name)),
      el("td", {}, el("span", { class: "weight" }), bar), ...Array.from({ length: 4 + names.length }, () => el("td")));
  }, (row, arm) => {
    setText(row.querySelector(".weight"), percent(arm.weight));
    row.querySelector(".bar-of span").style.width = `${100 * (arm.weight ?? 0)}%`;
    const cells = [count(arm.count), count(arm.in_flight), count(arm.failures), ...names.map((n) => digits(arm.single_scores[n])), arm.state];
    cells.forEach((text, i) => setText(row.cells[i + 2], text));
  });
  showOtherArms(heads.length);
  showParts();
}

/** Sum up the arms that the table leaves out. */
function showOtherArms(columns) {
  const others = state.other_arms;
  const foot = byId("arms").tFoot;
  const button = byId("every-arm");
  setHidden(button, !others);
  if (!others) return foot.replaceChildren();
  setText(button, everyArm ? "Show fewer arms" : `Show all ${count(others.arms + state.arms.length)} arms`);
  const cells = [percent(others.weight), count(others.count), count(others.in_flight), count(others.failures)];
  const rest = Array.from({ length: columns - 5 }, () => el("td"));
  foot.replaceChildren(...(everyArm ? [] : [el("tr", {}, el("th", { scope: "row" }, swatch(others.color), `and ${count(others.arms)} others`), ...cells.map((text) => el("td", {}, text)), ...rest)]));
}

async function toggleEveryArm() {
  if (everyArm) everyArm = null;
  else everyArm = (await (await fetch(`/arms/${path}`)).json()).arms;
  showArms();
}

/** For arms named like gemma/p017/t0.7: the weight and samples of each model, each prompt and each temperature. */
function showParts() {
  setHidden(byId("parts-part"), !state.parts.length);
  const now = JSON.stringify(state.parts);
  if (byId("parts").dataset.drawn === now) return;
  byId("parts").dataset.drawn = now;
  byId("parts").replaceChildren(...state.parts.map((part, i) => el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": `Part ${i + 1} of the names` },
    el("table", {}, el("thead", {}, el("tr", {}, ...[`Part ${i + 1}`, "Arms", "Weight", "Samples"].map((title) => el("th", { scope: "col" }, title)))),
      el("tbody", {}, ...part.map((row) => el("tr", {}, el("th", { scope: "row" }, row.name), ...[count(row.arms), percent(row.weight), count(row.count)].map((text) => el("td", {}, text)))))))));
}

function showGroups() {
  const { groups, arms } = state;
  setHidden(byId("groups-part"), !groups.length);
  const shown = JSON.stringify([groups, arms.map((arm) => [arm.name, arm.color])]);
  if (!groups.length || shown === shownGroups) return;
  shownGroups = shown;
  const names = [...new Set(groups.flatMap((group) => Object.keys(group.scores)))];
  const titles = names.map((name) => scoreName(state.scores.find((each) => each.name === name) ?? { name, maximise: true }));
  const heads = ["Group", ...titles].map((title) => el("th", { scope: "col" }, title));
  byId("groups").tHead.replaceChildren(el("tr", {}, ...heads, ...arms.map((arm) => el("th", { scope: "col" }, swatch(arm.color), arm.name))));
  byId("groups").tBodies[0].replaceChildren(...groups.map((group) => {
    const total = Object.values(group.counts).reduce((sum, each) => sum + each, 0);
    const name = el("th", { scope: "row" }, el("span", { dir: "auto" }, group.name), total ? el("span", { class: "quiet small" }, `n ${count(total)}`) : null);
    const scores = names.map((each) => el("td", {}, digits(group.scores[each])));
    return el("tr", {}, name, ...scores, ...arms.map((arm) => heatCell(group, arm.name)));
  }));
  setHidden(byId("groups-note"), !groups.some((group) => Object.keys(group.counts).length));
}

function heatCell(group, arm) {
  const samples = group.counts[arm];
  const cell = el("td", { class: "heat" }, percent(group.weights[arm]), samples ? el("span", { class: "quiet small" }, `n ${count(samples)}`) : null);
  cell.style.setProperty("--heat", `${Math.round(50 * (group.weights[arm] ?? 0))}%`);
  return cell;
}

function showSamples() {
  const colors = armColors();
  keyed(byId("newest"), state.newest, (sample) => sample.id, (sample) => {
    const content = sample.image
      ? el("img", { src: `/image/${sample.id}/${path}`, alt: `Sample ${sample.id} of ${sample.arm}`, loading: "lazy" })
      : el("p", { class: sample.text === null ? "quiet" : "text", dir: "auto" }, textOf(sample));
    const facts = [clock(sample.at), !sample.cost ? null : `cost ${number(sample.cost)}`, sample.quality === null ? null : `quality ${number(sample.quality)}`];
    return el("li", {}, el("p", { class: "by" }, swatch(colors[sample.arm] ?? state.other_arms?.color), el("span", {}, sample.arm), el("span", { class: "quiet" }, facts.filter(Boolean).join(" · "))),
      content, sample.prompt ? el("p", { class: "quiet prompt", dir: "auto" }, sample.prompt) : null);
  });
  setHidden(byId("newest-part"), !state.newest.length);
}

function textOf(sample) {
  if (sample.text === null) return sample.source ? `Vector: ${sample.source}` : "Vector";
  const rest = sample.length - [...sample.text].length;
  return rest > 0 ? `${sample.text}… (${count(rest)} more characters)` : sample.text;
}

function showFailures() {
  const fresh = byId("failures").dataset.seen !== undefined && state.failures.length && String(state.failures[0].id) !== byId("failures").dataset.seen;
  byId("failures").dataset.seen = state.failures[0]?.id ?? "";
  keyed(byId("failures"), grouped(state.failures), (failure) => `${failure.id} ${failure.times}`, (failure) =>
    el("li", {}, el("span", { class: "quiet" }, clock(failure.at)), " ", el("b", {}, failure.arm), ` ${failure.stage === "encode" ? "(encoder) " : ""}`,
      el("span", { dir: "auto" }, failure.message), failure.times > 1 ? el("span", { class: "quiet" }, ` (${failure.times} in a row)`) : null));
  setText(byId("failure-count"), state.failure_count ? count(state.failure_count) : "");
  setHidden(byId("failures-part"), !state.failures.length);
  if (fresh && Date.now() - announcedAt > ANNOUNCE_INTERVAL) announce(`${state.failures[0].arm} failed: ${state.failures[0].message}`);
}

/** Merge consecutive failures with the same message. */
function grouped(failures) {
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
    el("li", {}, el("span", { class: "quiet" }, clock(event.at)), " ", el("b", {}, EVENTS[event.kind] ?? event.kind), event.arm === null ? "" : ` ${event.arm}`, event.why ? `: ${event.why}` : ""));
  setHidden(byId("events-part"), !state.events.length);
}

function show(changes) {
  showStatus();
  showFacts();
  if ("chart" in changes || "arms" in changes || "scores" in changes) showCharts();
  if ("arms" in changes) showArms();
  if ("arms" in changes || "groups" in changes) showGroups();
  if ("newest" in changes) showSamples();
  if ("failures" in changes) showFailures();
  if ("events" in changes) showEvents();
}

// -- the stream -----------------------------------------------------------------------------------

function connect() {
  stream = new EventSource(`/events/${path}`);
  stream.addEventListener("open", () => setText(byId("connection"), ""));
  stream.addEventListener("state", (event) => {
    const changes = JSON.parse(event.data);
    Object.assign(state, changes);
    show(changes);
  });
  stream.addEventListener("trouble", (event) => setText(byId("connection"), JSON.parse(event.data).error));
  stream.addEventListener("gone", () => {
    stream.close();
    setText(byId("connection"), "The run folder no longer exists.");
  });
  stream.addEventListener("error", () => {
    setText(byId("connection"), "Connection lost. Reconnecting…");
    if (stream.readyState === EventSource.CLOSED) poll(POLLS_PER_RETRY);  // refused; the browser does not retry
  });
}

function disconnect() {
  stream?.close();
  clearTimeout(timer);
}

/** Ask for the data a few times, then try the stream again. */
async function poll(times) {
  try {
    const response = await fetch(`/state/${path}`);
    const content = await response.json();
    if (!response.ok) throw new Error(content.error);
    Object.assign(state, content);
    show(content);
    setText(byId("connection"), "");
  } catch {
    setText(byId("connection"), "Connection lost. Reconnecting…");
  }
  if (!document.hidden) timer = setTimeout(times > 1 ? () => poll(times - 1) : connect, POLL_INTERVAL);
}

// Browsers allow six connections per server, so a hidden page closes its connection.
document.addEventListener("visibilitychange", () => {
  disconnect();
  if (!document.hidden) connect();
});
window.addEventListener("pagehide", disconnect);

async function act(button, address) {
  button.disabled = true;
  setHidden(byId("error"), true);
  try {
    const response = await fetch(address, { method: "POST" });
    const content = await response.json();
    if (!response.ok) throw new Error(content.error);
    state.status = content;
    showStatus();
  } catch (error) {
    setText(byId("error"), error.message);
    setHidden(byId("error"), false);
  }
  button.disabled = false;
}

setText(byId("name"), state.name === "." ? state.study : state.name);
byId("report").href = `/report/${path}`;
byId("stop").addEventListener("click", () => act(byId("stop"), `/stop/${path}${state.status.can_stop_now ? "?now" : ""}`));
byId("every-arm").addEventListener("click", toggleEveryArm);
byId("resume").addEventListener("click", () => act(byId("resume"), `/resume/${path}`));
show(state);
markScrolling();
new ResizeObserver(arrangeFacts).observe(byId("facts"));
connect();
