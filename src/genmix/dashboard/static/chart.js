// Lines and stacked areas. A slider below each chart walks through it, by touch or keys; the key shows
// the values at that place, and a table has them all.

import { count, el, number, percent, score, setText, svg } from "./dom.js";

const EDGE = { left: 54, right: 12, top: 12, bottom: 34 };
const STRETCH = 30;
const ROWS = 12;
let serial = 0;

export class Chart {
  /** kind: "lines" or "areas"; the figure gets everything that belongs to it. */
  constructor(figure, kind, height = 240) {
    this.figure = figure;
    this.kind = kind;
    this.height = height;
    this.place = null;
    this.id = `chart-${serial++}`;
    this.title = el("figcaption", { id: `${this.id}-title` });
    this.where = el("span", { class: "where" });
    this.box = el("div", { class: "plot" });
    this.slider = el("input", { type: "range", min: 0, step: 1, class: "scrub", "aria-label": "Samples" });
    this.key = el("ul", { class: "key" });
    this.table = el("table");
    this.details = el("details", {}, el("summary", {}, "As a table"), el("div", { class: "wide" }, this.table));
    this.none = el("p", { class: "quiet none" }, "Nothing to draw yet.");
    figure.append(this.title, this.none, this.box, this.slider, this.key, this.details);
    this.slider.addEventListener("input", () => {
      const place = Number(this.slider.value);
      this.look(place < this.xs.length - 1 ? place : null);  // at its end it stays at the end
    });
    this.box.addEventListener("pointermove", (event) => this.point(event));
    this.box.addEventListener("pointerleave", () => this.look(null));
    this.details.addEventListener("toggle", () => this.fillTable());
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  /** series: [{name, points: [[x, y or null], …], colour or index, dashed}] */
  update({ title, series, unit = "samples" }) {
    setText(this.title, title);
    this.title.append(this.where);
    this.name = title;
    this.series = series.filter((each) => each.points.some(([, y]) => y !== null));
    this.unit = unit;
    const seen = this.place === null ? null : this.xs[this.place];
    this.xs = [...new Set(this.series.flatMap((each) => each.points.map(([x]) => x)))].sort((a, b) => a - b);
    if (seen !== null) this.place = this.xs.length ? this.nearest(seen) : null;
    this.draw();
    this.fillTable();
  }

  draw() {
    const width = this.box.clientWidth;
    const empty = !this.xs?.length;
    this.none.hidden = !empty;
    for (const node of [this.box, this.slider, this.key, this.details]) node.hidden = empty;
    if (empty || width < 80) return;
    this.width = width;
    this.slider.max = this.xs.length - 1;
    const [low, high] = this.kind === "areas" ? [0, 1] : this.range();
    this.isLog = this.kind === "lines" && low > 0 && high / low > STRETCH;
    this.domain = { x: [0, Math.max(...this.xs, 1)], y: this.kind === "areas" ? [0, 1] : this.roomy(low, high) };
    const image = svg("svg", {
      viewBox: `0 0 ${width} ${this.height}`, width, height: this.height, role: "img",
      "aria-labelledby": `${this.id}-title`, "aria-describedby": `${this.id}-words`,
    });
    this.words = svg("desc", { id: `${this.id}-words` });
    this.line = svg("line", { class: "cursor", y1: EDGE.top, y2: this.height - EDGE.bottom, x1: -9, x2: -9 });
    image.append(this.words, this.axes(), this.kind === "areas" ? this.areas() : this.lines(), this.line);
    this.box.replaceChildren(image);
    this.look(this.place);
  }

  // -- scales ----------------------------------------------------------------------------------

  range() {
    const values = this.series.flatMap((each) => each.points.map(([, y]) => y)).filter((y) => y !== null);
    return [Math.min(...values), Math.max(...values)];
  }

  roomy(low, high) {
    if (this.isLog) return [low / 1.1, high * 1.1];
    const room = (high - low) * 0.06 || Math.abs(high) * 0.05 || 1;
    return [low >= 0 && low < room ? 0 : low - room, high + room];
  }

  x(value) {
    const [low, high] = this.domain.x;
    return EDGE.left + ((value - low) / (high - low)) * (this.width - EDGE.left - EDGE.right);
  }

  y(value) {
    const bend = this.isLog ? Math.log : (v) => v;
    const [low, high] = this.domain.y.map(bend);
    return EDGE.top + (1 - (bend(value) - low) / (high - low)) * (this.height - EDGE.top - EDGE.bottom);
  }

  axes() {
    const group = svg("g", { class: "axes", "aria-hidden": "true" });
    const bottom = this.height - EDGE.bottom;
    for (const tick of ticks(...this.domain.x, Math.max(2, Math.floor(this.width / 110)))) {
      const at = this.x(tick);
      group.append(
        svg("line", { class: "tick", x1: at, x2: at, y1: bottom, y2: bottom + 4 }),
        svg("text", { x: at, y: bottom + 16, "text-anchor": "middle" }, compact(tick)),
      );
    }
    const ups = this.isLog ? logTicks(...this.domain.y) : ticks(...this.domain.y, 4);
    for (const tick of ups) {
      const at = this.y(tick);
      group.append(
        svg("line", { class: "grid", x1: EDGE.left, x2: this.width - EDGE.right, y1: at, y2: at }),
        svg("text", { x: EDGE.left - 8, y: at + 4, "text-anchor": "end" }, this.kind === "areas" ? percent(tick) : number(tick)),
      );
    }
    group.append(
      svg("line", { class: "base", x1: EDGE.left, x2: this.width - EDGE.right, y1: bottom, y2: bottom }),
      svg("text", { class: "unit", x: this.width - EDGE.right, y: this.height - 2, "text-anchor": "end" }, this.unit),
    );
    return group;
  }

  // -- marks -----------------------------------------------------------------------------------

  lines() {
    const group = svg("g");
    for (const each of [...this.series].reverse()) {
      const style = this.style(each);
      for (const part of unbroken(each.points)) {
        if (part.length === 1) {
          const [[x, y]] = part;
          group.append(svg("circle", { ...style, class: `mark dot ${style.class}`, cx: this.x(x), cy: this.y(y), r: 3.5 }));
        } else {
          const d = part.map(([x, y], i) => `${i ? "L" : "M"}${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)}`).join("");
          group.append(svg("path", { ...style, class: `mark line ${style.class}`, d, "stroke-dasharray": each.dashed ? "6 4" : null }));
        }
      }
    }
    return group;
  }

  style(each) {
    return { class: each.index === undefined ? "" : `series-${each.index % 8}` };
  }

  areas() {
    const group = svg("g");
    const known = this.xs.map((_, i) => this.series.some((each) => each.points[i][1] !== null));
    for (const part of stretches(known)) {
      const floor = part.map(() => 0);
      for (const each of this.series) {
        const ceiling = part.map((at, i) => floor[i] + (each.points[at][1] ?? 0));
        group.append(svg("path", { class: "mark area", fill: each.colour, d: this.band(part, floor, ceiling) }));
        floor.splice(0, floor.length, ...ceiling);
      }
    }
    return group;
  }

  band(part, floor, ceiling) {
    let places = part.map((at) => this.x(this.xs[at]));
    if (places.length === 1) {  // one moment: as wide as a finger
      places = [places[0] - 6, places[0] + 6];
      [floor, ceiling] = [floor, ceiling].map(([value]) => [value, value]);
    }
    const point = (x, y) => `${x.toFixed(1)} ${this.y(Math.min(y, 1)).toFixed(1)}`;
    const up = places.map((x, i) => point(x, ceiling[i]));
    const back = places.map((x, i) => point(x, floor[i])).reverse();
    return `M${up.join("L")}L${back.join("L")}Z`;
  }

  // -- reading it ------------------------------------------------------------------------------

  point(event) {
    const frame = this.box.getBoundingClientRect();
    const [low, high] = this.domain.x;
    const share = (event.clientX - frame.left - EDGE.left) / (frame.width - EDGE.left - EDGE.right);
    this.look(this.nearest(low + share * (high - low)));
  }

  nearest(wanted) {
    let best = 0;
    this.xs.forEach((x, i) => {
      if (Math.abs(x - wanted) < Math.abs(this.xs[best] - wanted)) best = i;
    });
    return best;
  }

  /** Show the values at one place; at the last if none is named. */
  look(place) {
    this.place = place;
    const at = place ?? this.xs.length - 1;
    const x = this.xs[at];
    const values = this.series.map((each) => ({ ...each, value: valueAt(each.points, x) }));
    const written = (value) => (this.kind === "areas" ? percent(value) : score(value));
    this.slider.value = at;
    const amount = `${count(x)} ${x === 1 ? this.unit.replace(/s$/, "") : this.unit}`;
    const words = `${amount}: ${values.map((v) => `${v.name} ${written(v.value)}`).join(", ")}`;
    this.slider.setAttribute("aria-valuetext", words);
    setText(this.words, words);
    setText(this.where, ` at ${amount}`);
    const shown = place === null ? -9 : this.x(x);
    this.line.setAttribute("x1", shown);
    this.line.setAttribute("x2", shown);
    this.key.replaceChildren(...values.map((v) => el("li", {}, this.sample(v), el("span", {}, v.name), el("b", {}, written(v.value)))));
  }

  sample(each) {
    if (this.kind === "areas") return svg("svg", { class: "sample", viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("rect", { width: 12, height: 12, rx: 3, fill: each.colour }));
    const style = this.style(each);
    return svg("svg", { class: "sample long", viewBox: "0 0 22 12", "aria-hidden": "true" },
      svg("path", { class: `line ${style.class}`, d: "M0 6H22", "stroke-dasharray": each.dashed ? "6 4" : null }));
  }

  fillTable() {
    if (!this.details.open || !this.xs?.length) return;
    const step = Math.max(1, Math.ceil(this.xs.length / ROWS));
    const chosen = this.xs.filter((_, i) => (this.xs.length - 1 - i) % step === 0);
    const head = el("tr", {}, ...[this.unit, ...this.series.map((each) => each.name)].map((name) => el("th", { scope: "col" }, name)));
    const written = this.kind === "areas" ? percent : score;
    const rows = chosen.map((x) => el("tr", {}, el("th", { scope: "row" }, count(x)),
      ...this.series.map((each) => el("td", {}, written(valueAt(each.points, x))))));
    this.table.replaceChildren(el("thead", {}, head), el("tbody", {}, ...rows));
  }
}

/** The last value at or before x. */
function valueAt(points, x) {
  let found = null;
  for (const [at, y] of points) {
    if (at > x) break;
    found = y;
  }
  return found;
}

function unbroken(points) {
  const known = points.map(([, y]) => y !== null);
  return stretches(known).map((part) => part.map((i) => points[i]));
}

/** Runs of neighbouring places where known is true. */
function stretches(known) {
  const found = [];
  known.forEach((yes, i) => {
    if (!yes) return;
    if (i && known[i - 1]) found.at(-1).push(i);
    else found.push([i]);
  });
  return found;
}

function ticks(low, high, wanted) {
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9) + 1e-12; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

function logTicks(low, high) {
  const found = [];
  const wide = high / low > 1e3;
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    for (const m of wide ? [1] : [1, 2, 5]) {
      const value = m * 10 ** power;
      if (value >= low && value <= high) found.push(value);
    }
  }
  return found;
}

function compact(value) {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  return value >= 1e4 ? `${Number((value / 1e3).toPrecision(3))}k` : count(value);
}

/** A line without axes, for the list. */
export function spark(points, words) {
  const width = 120;
  const height = 30;
  const image = svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words });
  if (points.length < 2) return image;
  const ys = points.map(([, y]) => y);
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const [first, last] = [points[0][0], points.at(-1)[0]];
  const at = ([x, y]) => [2 + ((x - first) / (last - first || 1)) * (width - 6), 3 + (1 - (y - low) / (high - low || 1)) * (height - 6)];
  const places = points.map(at);
  image.append(
    svg("path", { class: "mark line series-0", d: places.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("") }),
    svg("circle", { class: "dot series-0", cx: places.at(-1)[0], cy: places.at(-1)[1], r: 2.5 }),
  );
  return image;
}

/** Weights as one bar. */
export function mixtureBar(weights) {
  const bar = el("span", { class: "mixture", role: "img", "aria-label": weights.map((w) => `${w.arm} ${percent(w.weight)}`).join(", ") || "no weights yet" });
  for (const each of weights) {
    const part = el("span", { title: `${each.arm} ${percent(each.weight)}` });
    part.style.flexGrow = each.weight;
    part.style.background = each.colour;
    bar.append(part);
  }
  return bar;
}
