// Line charts and stacked area charts. A slider below each chart selects a position by touch or keyboard.
// The legend shows the values at this position, and a table lists the values at several positions.

import { count, el, number, percent, score, setText, svg } from "./dom.js";

const MARGIN = { left: 54, right: 12, top: 12, bottom: 34 };
const LOG_RATIO = 30;  // use a log scale if the values differ by more than this factor
const TABLE_ROWS = 12;
let serial = 0;

export class Chart {
  /** Append a chart to the figure; kind is "lines" or "areas". */
  constructor(figure, kind, height = 240) {
    this.figure = figure;
    this.kind = kind;
    this.height = height;
    this.position = null;
    this.id = `chart-${serial++}`;
    this.title = el("figcaption", { id: `${this.id}-title` });
    this.where = el("span", { class: "where" });
    this.box = el("div", { class: "plot" });
    this.slider = el("input", { type: "range", min: 0, step: 1, class: "scrub", "aria-label": "Samples" });
    this.legend = el("ul", { class: "legend" });
    this.table = el("table");
    this.details = el("details", {}, el("summary", {}, "Show as table"), el("div", { class: "wide" }, this.table));
    figure.append(this.title, this.box, this.slider, this.legend, this.details);
    this.slider.addEventListener("input", () => {
      const position = Number(this.slider.value);
      this.select(position < this.xs.length - 1 ? position : null);  // null: at the end, follow new data
    });
    this.box.addEventListener("pointermove", (event) => this.follow(event));
    this.box.addEventListener("pointerleave", () => this.select(null));
    this.details.addEventListener("toggle", () => this.fillTable());
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  /** series: [{name, points: [[x, y or null], …], color or index, dashed}] */
  update({ title, series, unit = "samples" }) {
    setText(this.title, title);
    this.title.append(this.where);
    this.name = title;
    this.series = series.filter((each) => each.points.some(([, y]) => y !== null));
    this.unit = unit;
    const selected = this.position === null ? null : this.xs[this.position];
    this.xs = [...new Set(this.series.flatMap((each) => each.points.map(([x]) => x)))].sort((a, b) => a - b);
    if (selected !== null) this.position = this.xs.length ? this.nearest(selected) : null;
    this.draw();
    this.fillTable();
  }

  draw() {
    this.figure.hidden = !this.xs?.length;  // no empty cards
    const width = this.box.clientWidth;
    if (this.figure.hidden || width < 80) return;
    this.width = width;
    this.slider.max = this.xs.length - 1;
    const [low, high] = this.kind === "areas" ? [0, 1] : this.range();
    this.isLog = this.kind === "lines" && low > 0 && high / low > LOG_RATIO;
    this.domain = { x: [0, Math.max(...this.xs, 1)], y: this.kind === "areas" ? [0, 1] : this.padded(low, high) };
    const image = svg("svg", {
      viewBox: `0 0 ${width} ${this.height}`, width, height: this.height, role: "img",
      "aria-labelledby": `${this.id}-title`, "aria-describedby": `${this.id}-description`,
    });
    this.description = svg("desc", { id: `${this.id}-description` });
    this.line = svg("line", { class: "cursor", y1: MARGIN.top, y2: this.height - MARGIN.bottom, x1: -9, x2: -9 });
    image.append(this.description, this.axes(), this.kind === "areas" ? this.areas() : this.lines(), this.line);
    this.box.replaceChildren(image);
    this.select(this.position);
  }

  // -- scales ----------------------------------------------------------------------------------

  range() {
    const values = this.series.flatMap((each) => each.points.map(([, y]) => y)).filter((y) => y !== null);
    return [Math.min(...values), Math.max(...values)];
  }

  padded(low, high) {
    if (this.isLog) return [low / 1.1, high * 1.1];
    const padding = (high - low) * 0.06 || Math.abs(high) * 0.05 || 1;
    return [low >= 0 && low < padding ? 0 : low - padding, high + padding];
  }

  x(value) {
    const [low, high] = this.domain.x;
    return MARGIN.left + ((value - low) / (high - low)) * (this.width - MARGIN.left - MARGIN.right);
  }

  y(value) {
    const scale = this.isLog ? Math.log : (v) => v;
    const [low, high] = this.domain.y.map(scale);
    return MARGIN.top + (1 - (scale(value) - low) / (high - low)) * (this.height - MARGIN.top - MARGIN.bottom);
  }

  axes() {
    const group = svg("g", { class: "axes", "aria-hidden": "true" });
    const bottom = this.height - MARGIN.bottom;
    for (const tick of ticks(...this.domain.x, Math.max(2, Math.floor(this.width / 110)), 1)) {
      const at = this.x(tick);
      const anchor = at > this.width - 2 * MARGIN.right ? "end" : "middle"; // else the last label is cut off
      group.append(
        svg("line", { class: "tick", x1: at, x2: at, y1: bottom, y2: bottom + 4 }),
        svg("text", { x: anchor === "end" ? at + MARGIN.right - 2 : at, y: bottom + 16, "text-anchor": anchor }, compact(tick)),
      );
    }
    const ups = this.isLog ? logTicks(...this.domain.y) : ticks(...this.domain.y, 4);
    for (const tick of ups) {
      const at = this.y(tick);
      group.append(
        svg("line", { class: "grid", x1: MARGIN.left, x2: this.width - MARGIN.right, y1: at, y2: at }),
        svg("text", { x: MARGIN.left - 8, y: at + 4, "text-anchor": "end" }, this.kind === "areas" ? percent(tick) : number(tick)),
      );
    }
    if (this.isLog) group.append(svg("text", { class: "unit", x: MARGIN.left, y: this.height - 2 }, "logarithmic vertical axis"));
    group.append(
      svg("line", { class: "base", x1: MARGIN.left, x2: this.width - MARGIN.right, y1: bottom, y2: bottom }),
      svg("text", { class: "unit", x: this.width - MARGIN.right, y: this.height - 2, "text-anchor": "end" }, this.unit),
    );
    return group;
  }

  // -- marks -----------------------------------------------------------------------------------

  lines() {
    const group = svg("g");
    for (const each of [...this.series].reverse()) {
      const style = this.style(each);
      for (const part of segments(each.points)) {
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
        group.append(svg("path", { class: "mark area", fill: each.color, d: this.band(part, floor, ceiling) }));
        floor.splice(0, floor.length, ...ceiling);
      }
    }
    return group;
  }

  band(part, floor, ceiling) {
    let xs = part.map((at) => this.x(this.xs[at]));
    if (xs.length === 1) {  // a single point: give it a visible width
      xs = [xs[0] - 6, xs[0] + 6];
      [floor, ceiling] = [floor, ceiling].map(([value]) => [value, value]);
    }
    const point = (x, y) => `${x.toFixed(1)} ${this.y(Math.min(y, 1)).toFixed(1)}`;
    const up = xs.map((x, i) => point(x, ceiling[i]));
    const back = xs.map((x, i) => point(x, floor[i])).reverse();
    return `M${up.join("L")}L${back.join("L")}Z`;
  }

  // -- selecting a position --------------------------------------------------------------------

  follow(event) {
    const frame = this.box.getBoundingClientRect();
    const [low, high] = this.domain.x;
    const share = (event.clientX - frame.left - MARGIN.left) / (frame.width - MARGIN.left - MARGIN.right);
    this.select(this.nearest(low + share * (high - low)));
  }

  nearest(wanted) {
    let best = 0;
    this.xs.forEach((x, i) => {
      if (Math.abs(x - wanted) < Math.abs(this.xs[best] - wanted)) best = i;
    });
    return best;
  }

  /** Show the values at one position; null means the last one. */
  select(position) {
    this.position = position;
    const at = position ?? this.xs.length - 1;
    const x = this.xs[at];
    const values = this.series.map((each) => ({ ...each, value: valueAt(each.points, x) }));
    const format = (value) => (this.kind === "areas" ? percent(value) : score(value));
    this.slider.value = at;
    const amount = `${count(x)} ${x === 1 ? this.unit.replace(/s$/, "") : this.unit}`;
    const description = `${amount}: ${values.map((v) => `${v.name} ${format(v.value)}`).join(", ")}`;
    this.slider.setAttribute("aria-valuetext", description);
    setText(this.description, description);
    setText(this.where, ` at ${amount}`);
    const shown = position === null ? -9 : this.x(x);
    this.line.setAttribute("x1", shown);
    this.line.setAttribute("x2", shown);
    this.legend.replaceChildren(...values.map((v) => el("li", {}, this.legendMark(v), el("span", {}, v.name), el("b", {}, format(v.value)))));
  }

  legendMark(each) {
    if (this.kind === "areas") return svg("svg", { class: "legend-mark", viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("rect", { width: 12, height: 12, rx: 3, fill: each.color }));
    const style = this.style(each);
    return svg("svg", { class: "legend-mark long", viewBox: "0 0 22 12", "aria-hidden": "true" },
      svg("path", { class: `line ${style.class}`, d: "M0 6H22", "stroke-dasharray": each.dashed ? "6 4" : null }));
  }

  fillTable() {
    if (!this.details.open || !this.xs?.length) return;
    const step = Math.max(1, Math.ceil(this.xs.length / TABLE_ROWS));
    const chosen = this.xs.filter((_, i) => (this.xs.length - 1 - i) % step === 0);
    const head = el("tr", {}, ...[this.unit, ...this.series.map((each) => each.name)].map((name) => el("th", { scope: "col" }, name)));
    const format = this.kind === "areas" ? percent : score;
    const rows = chosen.map((x) => el("tr", {}, el("th", { scope: "row" }, count(x)),
      ...this.series.map((each) => el("td", {}, format(valueAt(each.points, x))))));
    this.table.replaceChildren(el("thead", {}, head), el("tbody", {}, ...rows));
  }
}

/** Return the last value at or before x. */
function valueAt(points, x) {
  let found = null;
  for (const [at, y] of points) {
    if (at > x) break;
    found = y;
  }
  return found;
}

function segments(points) {
  const known = points.map(([, y]) => y !== null);
  return stretches(known).map((part) => part.map((i) => points[i]));
}

/** Return the ranges of consecutive indices where known is true. */
function stretches(known) {
  const found = [];
  known.forEach((yes, i) => {
    if (!yes) return;
    if (i && known[i - 1]) found.at(-1).push(i);
    else found.push([i]);
  });
  return found;
}

function ticks(low, high, wanted, least = 0) {
  const raw = Math.max((high - low) / wanted, least);
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

/** Draw a small line without axes. */
export function drawSparkline(points, label) {
  const width = 120;
  const height = 30;
  const image = svg("svg", { class: "sparkline", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  if (points.length < 2) return image;
  const ys = points.map(([, y]) => y);
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const [first, last] = [points[0][0], points.at(-1)[0]];
  const at = ([x, y]) => [2 + ((x - first) / (last - first || 1)) * (width - 6), 3 + (1 - (y - low) / (high - low || 1)) * (height - 6)];
  const positions = points.map(at);
  image.append(
    svg("path", { class: "mark line series-0", d: positions.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("") }),
    svg("circle", { class: "dot series-0", cx: positions.at(-1)[0], cy: positions.at(-1)[1], r: 2.5 }),
  );
  return image;
}

/** Draw the weights as one stacked bar. */
export function mixtureBar(weights) {
  const bar = el("span", { class: "mixture", role: "img", "aria-label": weights.map((w) => `${w.arm} ${percent(w.weight)}`).join(", ") || "no weights yet" });
  for (const each of weights) {
    const part = el("span", { title: `${each.arm} ${percent(each.weight)}` });
    part.style.flexGrow = each.weight;
    part.style.background = each.color;
    bar.append(part);
  }
  return bar;
}
