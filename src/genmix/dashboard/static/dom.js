// DOM helpers and number formats. Data from a run is set as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setHidden(node, hidden) {
  if (node.hidden !== hidden) node.hidden = hidden;
}

/** Update a list's children to match rows. Keep the nodes of rows that remain, so that focus is not lost. */
export function keyed(parent, rows, key, make, update = () => {}) {
  const old = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let before = parent.firstElementChild;
  for (const row of rows) {
    const name = String(key(row));
    let node = old.get(name);
    old.delete(name);
    if (!node) {
      node = make(row);
      node.dataset.key = name;
    }
    if (node === before) before = before.nextElementSibling;
    else parent.insertBefore(node, before);
    update(node, row);
  }
  for (const node of old.values()) node.remove();
}

export function swatch(color) {
  const node = el("span", { class: "swatch", "aria-hidden": "true" });
  node.style.background = color;
  return node;
}

/** Show a hint below each table that does not fit and can be scrolled. */
export function markScrolling() {
  const boxes = document.querySelectorAll(".wide");
  const mark = (box) => box.classList.toggle("scrolls", box.scrollWidth > box.clientWidth + 1);
  const observer = new ResizeObserver(() => boxes.forEach(mark));
  boxes.forEach((box) => {
    observer.observe(box);
    observer.observe(box.firstElementChild);
  });
}

export const pathOf = (name) => name.split("/").map(encodeURIComponent).join("/");

// -- number formats -------------------------------------------------------------------------------

export const count = (value) => value.toLocaleString("en-US");

/** Format a number like the report and the terminal: four digits, e.g. 12.34, 1,234,567 or 4.8e−05. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e3 && size < 1e7) return withMinus(Math.round(value).toLocaleString("en-US"));
  const rounded = Number(value.toPrecision(4));
  return Math.abs(rounded) >= 1e-4 && size < 1e4 ? withMinus(String(rounded)) : scientific(value.toExponential(3).replace(/\.?0+e/, "e"));
}

/** Format a score, always with four digits, so that scores in a column are easy to compare. */
export function score(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1e7 || (size < 1e-4 && size > 0)) return scientific(value.toExponential(3));
  return withMinus(value.toLocaleString("en-US", { minimumSignificantDigits: 4, maximumSignificantDigits: 4 }));
}

const withMinus = (text) => text.replaceAll("-", "−");

/** Write an exponent with two digits. */
const scientific = (text) => withMinus(text.replace(/e([+-])(\d)$/, "e$10$2"));

export function percent(value) {
  if (value === null || value === undefined) return "–";
  return `${(100 * value).toFixed(value > 0 && value < 0.1 ? 1 : 0)}%`;
}

export function duration(seconds) {
  const whole = Math.round(seconds);
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  if (hours >= 48) return `${Math.round(hours / 24)} days`;
  if (hours) return `${hours} h ${String(minutes).padStart(2, "0")} min`;
  return minutes ? `${minutes} min ${String(whole % 60).padStart(2, "0")} s` : `${whole} s`;
}

export function ago(at) {
  if (at === null || at === undefined) return "–";
  const seconds = Math.max(Date.now() / 1000 - at, 0);
  if (seconds < 5) return "now";
  if (seconds < 48 * 3600) return `${duration(seconds < 60 ? seconds : 60 * Math.round(seconds / 60)).replace(/ 00 s$/, "")} ago`;
  return new Date(1000 * at).toLocaleDateString("en-US", { day: "numeric", month: "short", year: "numeric" });
}

export function clock(at) {
  const time = new Date(1000 * at);
  const today = time.toDateString() === new Date().toDateString();
  const hours = time.toLocaleTimeString("en-GB");
  return today ? hours : `${time.toLocaleDateString("en-US", { day: "numeric", month: "short" })} ${hours}`;
}

export const STATUS = {
  starting: "starting",
  running: "running",
  stopping: "stopping",
  ending: "ending",
  finished: "finished",
  interrupted: "interrupted",
  trouble: "failed",
  unfinished: "unfinished",
  unreadable: "unreadable",
  reading: "reading",
};

export function setBadge(node, status) {
  setText(node, STATUS[status] ?? status);
  const wanted = `badge ${status}`;
  if (node.className !== wanted) node.className = wanted;
}

export const scoreName = (score) => `${score.name.replaceAll("_", " ")} ${score.maximise ? "↑" : "↓"}`;

export const data = () => JSON.parse(byId("data").textContent);
